"""The ingest role of a process: takes open rounds, a bounded number at a time, and ends in order.

In: hints "this response has an open round" (a queue, or directly from a create or a commit in the
same process). Out: a `Round` each. Called by `respool.serve`, which runs `run` until it ends the
process, then awaits `drain`.
"""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from ingest.run import Resolve, Round, RoundLimits
from ingest.upstream import UpstreamClient
from streams import metrics
from streams.asked import Asked
from streams.jobs import Jobs
from streams.scripts.rounds import Claim
from streams.store import Store

MAX_OPEN: Final = 1_000
"""Rounds at once: each is a socket and at most a few MB; past this, hints wait for others."""

LOSE_S: Final = 2.0
"""What the rounds that a drain cuts off may take to say so in their logs."""


class Ingest:
    """Runs rounds. Use as a context manager; `run` takes work until cancelled."""

    def __init__(
        self,
        store: Store,
        resolve: Resolve,
        limits: RoundLimits,
        *,
        max_open: int = MAX_OPEN,
    ) -> None:
        self._store = store
        self._resolve = resolve
        self._limits = limits
        self._client = UpstreamClient()
        self._stack = AsyncExitStack()
        self._rounds: Jobs[Round] = Jobs(
            store.work, "rounds", max_open=max_open, on_over=self._over
        )
        self._by_rid: Counter[str] = Counter()  # a next round may begin while the last one lingers

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._client)
        self._store.work.register("rounds", self.take, self.ask)
        metrics.gauge("rounds_open", lambda: len(self._rounds))
        metrics.gauge("leases_held", lambda: sum(one.held for one in self._rounds), work="round")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._rounds.abort()
        await self._stack.aclose()

    async def run(self) -> None:
        """Take hints from the queue, until `drain` or cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store.work.take("rounds"))

    def take(self, rid: str) -> bool:
        """Start the open round of a response; False while there is no room."""
        if self._rounds.full:
            return False
        self._rounds.start(self._taken(rid))
        return True

    def ask(self, rid: str) -> Asked[Claim] | None:
        """Start round 1 of a response that is about to be created; None while there is no room."""
        if self._rounds.full:
            return None
        taken = self._taken(rid)
        asked = taken.asked()
        self._rounds.start(taken)
        return asked

    def _taken(self, rid: str) -> Round:
        self._by_rid[rid] += 1
        self._store.handover.begin_ingesting(rid)
        return Round(self._store, self._client, self._resolve, self._limits, rid)

    async def drain(self, within_s: float) -> None:
        """Take nothing new and let the own rounds end; those that do not are marked as lost."""
        await self._rounds.drain(within_s, Round.lose, LOSE_S)

    def _over(self, carried: Round) -> None:
        rid = carried.rid
        self._by_rid[rid] -= 1
        if not self._by_rid[rid]:
            del self._by_rid[rid]
            self._store.handover.end_ingesting(rid)
