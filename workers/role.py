"""The translate role of a process: takes responses, a bounded number, and sweeps.

In: hints "this response has no translator" (a queue, or directly from a create in the same
process). Out: a `Translation` each. Called by `respool.serve`, which runs `run` until it ends the
process, then calls `retire` and awaits `stop`.
"""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from streams import metrics
from streams.asked import Asked
from streams.scripts.outputs import Lease
from streams.store import Store
from workers.slices import Slices
from workers.sweep import Sweeper
from workers.translate import TranslateLimits, Translation

MAX_OPEN: Final = 4_000
"""Responses at once: each holds what its model has said so far; past this, hints wait for others."""


class Translate:
    """Translates responses. Use as a context manager; `run` takes work until cancelled."""

    def __init__(self, store: Store, limits: TranslateLimits, *, max_open: int = MAX_OPEN) -> None:
        self._store = store
        self._limits = limits
        self._max_open = max_open
        self._slices = Slices()
        self._sweeper = Sweeper(
            store,
            lease_ms=limits.lease_ms,
            seal_after_ms=limits.seal_after_ms,
            tool_wait_ms=limits.tool_wait_ms,
        )
        self._open: dict[str, Translation] = {}

    async def __aenter__(self) -> Self:
        self._store.work.register("translate", self.take, self.ask)
        metrics.gauge("translations_open", lambda: len(self._open))
        metrics.gauge(
            "leases_held", lambda: sum(one.held for one in self._open.values()), work="translate"
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def run(self) -> None:
        """Take hints and sweep; returns only by cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store.work.take("translate"))
            group.create_task(self._sweeper.run())

    def take(self, rid: str) -> bool:
        """Translate a response from now on; False while there is no room."""
        if rid in self._open:
            return True
        if len(self._open) >= self._max_open:
            return False
        self._opened(rid).begin()
        return True

    def ask(self, rid: str) -> Asked[Lease] | None:
        """Translate a response that is about to be created; None while there is no room."""
        if rid in self._open or len(self._open) >= self._max_open:
            return None
        return self._opened(rid).asked()

    def _opened(self, rid: str) -> Translation:
        translation = Translation(self._store, rid, self._limits, self._slices, self._closed)
        self._open[rid] = translation
        return translation

    async def retire(self) -> None:
        """Take nothing new, and let go of all whose round does not run in this process.

        The others are this process's to finish as long as it drains: their frames come from it.
        """
        await self._store.work.leave("translate")
        ingesting = self._store.handover.ingesting
        await self._let_go(one for one in self._open.values() if not ingesting(one.rid))

    async def stop(self) -> None:
        """Let go of all that is left; successors go on at once."""
        await self._store.work.leave("translate")
        await self._let_go(self._open.values())

    async def _let_go(self, translations: Iterable[Translation]) -> None:
        await asyncio.gather(*(translation.let_go() for translation in list(translations)))

    def _closed(self, translation: Translation) -> None:
        del self._open[translation.rid]
        self._store.work.room("translate")
