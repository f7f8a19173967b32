"""Who works in this process besides the api: ingest, translate, sweeper, as its roles say.

In: an open store, the settings, the roles. Out: runners that take work until `retire`, and a word
on whether they still do. Called by `respool.serve`; this is the only place where the settings
become the limits of `ingest` and `workers`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from ingest.role import Ingest
from ingest.run import RoundLimits
from respool.roles import Role
from respool.settings import Settings
from respool.upstreams import Upstreams
from streams.store import Store
from workers.role import Translate
from workers.sweep import Sweeper
from workers.translate import TranslateLimits

log = logging.getLogger(__name__)


def milliseconds(seconds: float) -> int:
    """What the scripts count in; never 0, which would mean none."""
    return max(1, round(seconds * 1000))


def round_limits(settings: Settings) -> RoundLimits:
    """What bounds a round."""
    return RoundLimits(
        lease_ms=milliseconds(settings.lease_s),
        idle_timeout_s=settings.upstream_idle_timeout_s,
        total_timeout_s=settings.upstream_timeout_s,
        max_in_bytes=settings.max_response_bytes,
    )


def translate_limits(settings: Settings) -> TranslateLimits:
    """What bounds a translation."""
    return TranslateLimits(
        lease_ms=milliseconds(settings.lease_s),
        retention_ms=milliseconds(settings.retention_s),
        grace_ms=milliseconds(settings.grace_s),
        max_out_bytes=settings.max_response_bytes,
    )


class Crew:
    """The runners. As a context manager they run inside, and are stopped at the end."""

    def __init__(
        self, store: Store, settings: Settings, roles: frozenset[Role], upstreams: Upstreams
    ) -> None:
        self._drain_s = settings.drain_s
        self._ingest: Ingest | None = None
        self._translate: Translate | None = None
        self._runs: dict[str, Callable[[], Awaitable[None]]] = {}
        if Role.INGEST in roles:
            self._ingest = Ingest(store, upstreams.get, round_limits(settings))
            self._runs[Role.INGEST] = self._ingest.run
        if Role.TRANSLATE in roles:
            self._translate = Translate(store, translate_limits(settings))
            self._runs[Role.TRANSLATE] = self._translate.run
        elif Role.TOOLS in roles:
            self._runs[Role.TOOLS] = Sweeper(store, lease_ms=milliseconds(settings.lease_s)).run
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stack = AsyncExitStack()
        self.fell = asyncio.Event()
        """Set when a runner ended by itself, which none should."""

    async def __aenter__(self) -> Self:
        for member in (self._ingest, self._translate):
            if member is not None:
                await self._stack.enter_async_context(member)
        for name, run in self._runs.items():
            task = asyncio.ensure_future(run())
            task.set_name(name)
            task.add_done_callback(self._ended)
            self._tasks[name] = task
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks.values():
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._stack.aclose()

    def problems(self) -> list[str]:
        """What keeps the crew from working, for `/readyz`."""
        return [f"{name} does not run" for name, task in self._tasks.items() if task.done()]

    async def retire(self) -> None:
        """Take nothing new; let rounds end within the drain time; release every lease."""
        for task in self._tasks.values():
            task.remove_done_callback(self._ended)
            task.cancel()
        if self._translate is not None:
            await self._translate.retire()
        if self._ingest is not None:
            await self._ingest.drain(self._drain_s)
        if self._translate is not None:
            await self._translate.stop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        log.error("the runner of %s ended by itself", task.get_name(), exc_info=error)
        self.fell.set()
