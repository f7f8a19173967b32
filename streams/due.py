"""When somebody must look at a response again: a sorted set, which may be wrong in every way but one.

A response is entered *before* it is created and dropped after it is gone, so none that runs is ever missing; who takes
one that needs nothing moves it on. Called by api (enter, begin) and the sweeper. Times are ms of the server's clock.

Beside it stand the places of the responses that are open, where their number is bounded. Whoever sees the end of a
response gives its place back in the same step in which it leaves the due set or is moved on; whoever dies before that
has left it in the due set, where a sweeper finds it. So no place outlives its response by more than a lease; that of one
which was never created, as its process died, is given back after half a minute (`workers.sweep`).
"""

import asyncio

from streams.keys import Keys
from streams.scripts import hints
from streams.writer import Sender

LIMIT = 100
"""Responses taken at once: what one sweeper looks at well within `hints.DUE_HOLD_MS`."""


class Due:
    """The due set of a deployment."""

    def __init__(self, keys: Keys, writer: Sender) -> None:
        self._keys = keys
        self._writer = writer
        self.next_in_ms: int | None = None
        """After a `take`: how long until the next is due, as far as anybody knew then; None: there was none."""

    def enter(
        self, rid: str, at: int | None = None, *, after_ms: int | None = None
    ) -> "asyncio.Future[None]":
        """Look at a response at `at`, or in `after_ms` from the server's now. Sent at once; await it for the answer."""
        if (at is None) == (after_ms is None):
            raise ValueError("either at or after_ms")
        return self._writer.send(hints.due_enter(self._keys, rid, at=at, after_ms=after_ms))

    def begin(self, rid: str, *, after_ms: int, place: hints.Place) -> "asyncio.Future[None]":
        """`enter` for a response that needs a place among the open ones; the answer may be Refused (FULL, TENANT_FULL)."""
        return self._writer.send(hints.due_begin(self._keys, rid, after_ms=after_ms, place=place))

    async def move(self, rid: str, at: int) -> None:
        """Look at it again at `at`."""
        await self.enter(rid, at)

    async def take(self, now: int | None = None, limit: int = LIMIT) -> list[str]:
        """Responses that are due (at the server's now, by default), held back from other sweepers for a while."""
        taken = await self._writer.do(hints.due_take(self._keys, now=now, limit=limit))
        self.next_in_ms = taken.next_in_ms
        return taken.rids

    async def ended(self, rid: str, at: int) -> None:
        """It has ended, but is to be looked at again at `at`."""
        await self._writer.do(hints.due_end(self._keys, rid, at=at))

    async def drop(self, rid: str) -> None:
        """It has ended, or is gone: nobody need look any more."""
        await self._writer.do(hints.due_end(self._keys, rid))
