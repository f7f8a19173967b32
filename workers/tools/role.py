"""The tools role of a process: runs calls of the gateway's own tools, a bounded number at a time.

In: hints "this response has calls to run" (a queue, or directly from a commit in the same process).
Out: a `Carried` each, one claim. A claim that leaves others free offers the hint again at once, so a
round's calls spread over all processes that have room; a result does so too, since it makes a place
free among the response's five. Called by `respool.crew`, which runs `run` until it ends the process,
then awaits `drain`.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

from streams import figures, metrics
from streams.store import Store
from workers.tools.carry import Carried, ToolLimits
from workers.tools.registry import Registry

MAX_OPEN: Final = 64
"""Calls at once in one process: each may hold some MB of answer; past this, hints wait for others."""

STOP_S: Final = 2.0
"""What the calls that a drain cuts off may take to say so."""


class Tools:
    """Runs calls. Use as a context manager; `run` takes work until cancelled."""

    def __init__(
        self, store: Store, registry: Registry, limits: ToolLimits, *, max_open: int = MAX_OPEN
    ) -> None:
        self._store = store
        self._registry = registry
        self._limits = limits
        self._max_open = max_open
        self._calls: dict[asyncio.Task[None], Carried] = {}
        self._taking: asyncio.Task[None] | None = None  # reads hints while `run` runs

    async def __aenter__(self) -> Self:
        await self._registry.__aenter__()
        self._store.work.register("tools", self.take)
        figures.show(self._store)
        metrics.gauge("tool_calls_open", lambda: len(self._calls))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.work.unregister("tools")
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._registry.__aexit__(kind, error, trace)

    async def run(self) -> None:
        """Take hints from the queue, until `drain` or cancellation."""
        async with asyncio.TaskGroup() as group:
            self._taking = group.create_task(self._store.work.take("tools"))

    def take(self, rid: str) -> bool:
        """Run a free call of a response; False while there is no room."""
        if len(self._calls) >= self._max_open:
            return False
        carried = Carried(self._store, self._registry, self._limits, rid, self._offer)
        task = asyncio.get_running_loop().create_task(carried.run())
        self._calls[task] = carried
        task.add_done_callback(self._over)
        return True

    async def drain(self, within_s: float) -> None:
        """Take nothing new and let the own calls end; those that do not are given back or failed."""
        self._store.work.unregister("tools")
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait([self._taking])
        if self._calls:
            await asyncio.wait(self._calls, timeout=within_s)
        for carried in self._calls.values():
            carried.stop()
        if self._calls:
            await asyncio.wait(self._calls, timeout=STOP_S)

    def _offer(self, rid: str) -> None:
        self._store.work.offer("tools", rid)

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._calls[task]
        self._store.work.room("tools")
