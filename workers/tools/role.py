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

from streams import metrics
from streams.jobs import Jobs
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
        self._calls: Jobs[Carried] = Jobs(store.work, "tools", max_open=max_open)

    async def __aenter__(self) -> Self:
        await self._registry.__aenter__()
        self._store.work.register("tools", self.take)
        metrics.gauge("tool_calls_open", lambda: len(self._calls))
        metrics.gauge("leases_held", lambda: sum(one.held for one in self._calls), work="tool")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._calls.abort()
        await self._registry.__aexit__(kind, error, trace)

    async def run(self) -> None:
        """Take hints from the queue, until `drain` or cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store.work.take("tools"))

    def take(self, rid: str) -> bool:
        """Run a free call of a response; False while there is no room."""
        if self._calls.full:
            return False
        self._calls.start(Carried(self._store, self._registry, self._limits, rid, self._offer))
        return True

    async def drain(self, within_s: float) -> None:
        """Take nothing new and let the own calls end; those that do not are given back or failed."""
        await self._calls.drain(within_s, Carried.stop, STOP_S)

    def _offer(self, rid: str) -> None:
        self._store.work.offer("tools", rid)
