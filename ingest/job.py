"""What an open round asks for: the upstream, the dialect and the exact body.

In: the id of a response, as a hint brought it. Out: a `Job`, or None where there is no open round
(hints are repeated and come late). Called by `ingest.run`.
"""

from dataclasses import dataclass
from typing import Final

import orjson

from streams.store import Store
from translator.protocol.entries import Kind, RequestEntry
from translator.protocol.errors import StoreError

FIRST_PAGE: Final = 2
"""`request` and `round` 1 are the first two entries: nearly every look needs no more."""

PAGE: Final = 200
"""Entries read at once to find the body of a later round."""


@dataclass(frozen=True, slots=True)
class Job:
    """One round to run."""

    rid: str
    round: int
    upstream_id: str
    api: str
    body: bytes


async def find(store: Store, rid: str) -> Job | None:
    """The open round of a response. Raises StoreError if its log lacks the round."""
    state = await store.logs.state(rid)
    if state is None or state.done or state.rstate != "open":
        return None
    request: RequestEntry | None = None
    after = 0
    while page := await store.logs.read_input(rid, after, PAGE if after else FIRST_PAGE):
        for entry in page:
            if entry.kind == Kind.REQUEST:
                request = orjson.loads(entry.data)
            elif entry.kind == Kind.ROUND and entry.round == state.round and request is not None:
                upstream = request["upstream"]
                return Job(rid, state.round, upstream["id"], upstream["api"], entry.data)
        after = page[-1].n
    raise StoreError("an input log lacks the round that its state names")
