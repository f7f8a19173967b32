"""Typed caller of the script that binds a client's Idempotency-Key to a response. Called by `api.idempotency`.

The entry is a key of its own, outside of the response's slot: it is written before the response is, and a response that
it names may not be there (yet, or any more).
"""

from dataclasses import dataclass
from typing import Any

from streams.keys import Keys
from streams.scripts.call import Call, Script

BIND = Script("idempotency")


@dataclass(frozen=True, slots=True)
class Bound:
    """The response that a key stands for, and the digest of the body with which it came first."""

    rid: str
    digest: str


def bind(
    keys: Keys, tenant: str, key: str, *, rid: str, digest: str, ttl_ms: int, instead_of: str = ""
) -> Call[Bound]:
    """Let a key of a tenant's stand for a response, unless it stands for another one than `instead_of`; what holds."""
    where = (keys.idempotency(tenant, key),)
    return Call("", BIND, where, (rid, digest, ttl_ms, instead_of), _bound)


def _bound(reply: Any) -> Bound:
    rid, digest = reply
    return Bound(rid.decode(), digest.decode())
