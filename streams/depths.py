"""How much work waits in the store, looked up when somebody asks for the figures.

In: a store. Out: gauges in `streams.metrics`, after `look`; where the store does not answer at once they are left out,
which a scraper shows as a gap. Called by the api for each `/metrics`: three short commands, whatever waits.
"""

import asyncio
from functools import partial
from typing import Any, Final

from streams import metrics
from streams.keys import WORK_KINDS
from streams.scripts.call import Call
from streams.store import Store
from translator.protocol.errors import StoreError

LOOK_S: Final = 1.0
"""What a look may take; scrapers wait some seconds, and the other figures must come when the store is away."""

LATE_MS: Final = 1_000
"""Sweepers look four times a second: what was due so long ago, none of them has taken."""


class Depths:
    """One per process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[str, int] = {}  # of the last look; empty where it failed
        for kind in WORK_KINDS:
            metrics.gauge("work_waiting", partial(self._depth, kind), kind=kind)
        for name in ("due_responses", "due_overdue"):
            metrics.gauge(name, partial(self._depth, name))

    def _depth(self, of: str) -> int | None:
        return self._found.get(of)

    async def look(self) -> None:
        """Ask the store."""
        self._found = {}
        try:
            async with asyncio.timeout(LOOK_S):
                self._found = await self._asked()
        except (StoreError, TimeoutError):
            return  # told by /readyz and by the figures that are missing

    async def _asked(self) -> dict[str, int]:
        keys, reads = self._store.keys, self._store.reads
        late = await self._store.logs.now() - LATE_MS
        asked = {kind: reads.send(_number("XLEN", keys.work(kind))) for kind in WORK_KINDS}
        asked["due_responses"] = reads.send(_number("ZCARD", keys.due))
        asked["due_overdue"] = reads.send(_number("ZCOUNT", keys.due, "-inf", late))
        numbers = await asyncio.gather(*asked.values())
        return dict(zip(asked, numbers, strict=True))


def _number(*command: str | int) -> Call[int]:
    return Call("", None, tuple(map(str, command)), (), _same)


def _same(reply: Any) -> int:
    return int(reply)
