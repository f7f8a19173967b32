"""The header Idempotency-Key: a create that is repeated joins the response of the first, and is not run twice.

In: a request's key and body. Out: the id under which its response is, or is to be, made. Clients keep their key over
retries (contract.md section 2); the same key with another body is a mistake of theirs, and a 400. A key lives as long as a
response may: run and retention. Called by `api.create`.

Between the key and the response a process may die. So whoever finds a key without its response makes the response
under the id that the key names: the `create` script lets one of them through, and the others join it. An unstored
response that its only client has left was cancelled with it: the key then comes to stand for a new one.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from streams.scripts.idempotency import Bound, bind
from streams.store import Store
from translator.protocol.errors import RequestError

HEADER: Final = "idempotency-key"

MAX_CHARS: Final = 255
"""As at other APIs; a UUID has 36."""

DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A client's key and the digest of its body."""

    key: str
    digest: str

    async def bound(
        self, store: Store, tenant: str, rid: str, *, ttl_s: float, instead_of: str = ""
    ) -> str:
        """The id that the key stands for: `rid`, if it is new or stood for `instead_of`.

        Raises RequestError for another body.
        """
        call = bind(
            *(store.keys, tenant, self.key),
            rid=rid,
            digest=self.digest,
            ttl_ms=int(ttl_s * 1000),
            instead_of=instead_of,
        )
        found: Bound = await store.writer.do(call)
        if found.digest != self.digest:
            raise RequestError(
                "This Idempotency-Key was used with another request body.",
                code="idempotency_key_reused",
            )
        return found.rid


def idempotency(request: Request, raw: bytes) -> Idempotency | None:
    """What a request says of being repeated. Raises RequestError for a key that is none."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not 0 < len(key) <= MAX_CHARS:
        raise RequestError(f"The Idempotency-Key must have 1 to {MAX_CHARS} characters.")
    return Idempotency(key, hashlib.blake2b(raw, digest_size=DIGEST_BYTES).hexdigest())
