"""Who works in this process besides the api: ingest, translate, tools, sweeper, as its roles say.

In: an open store, the settings, the roles. Out: runners that take work until `retire`, and a word
on whether they still do. Called by `respool.serve`; this is the only place where the settings
become the limits of `ingest` and `workers`.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

from ingest.role import Ingest
from ingest.run import RoundLimits
from respool.roles import Role
from respool.settings import Settings
from respool.upstreams import Upstreams
from streams.store import Store
from workers.role import Translate
from workers.sweep import Sweeper
from workers.tools.carry import ToolLimits
from workers.tools.registry import Registry, ToolSettings
from workers.tools.role import Tools
from workers.translate import TranslateLimits

log = logging.getLogger(__name__)

SHORTEST_TOOL_WAIT_S: Final = 30.0
"""Workers that are only busy are not taken for dead."""


def milliseconds(seconds: float) -> int:
    """What the scripts count in; never 0, which would mean none."""
    return max(1, round(seconds * 1000))


def seal_after_ms(settings: Settings) -> int:
    """From a response's end to its sealing; 0: never."""
    return milliseconds(settings.seal_after_s) if settings.seal_after_s else 0


def round_limits(settings: Settings) -> RoundLimits:
    """What bounds a round."""
    return RoundLimits(
        lease_ms=milliseconds(settings.lease_s),
        idle_timeout_s=settings.upstream_idle_timeout_s,
        total_timeout_s=settings.upstream_timeout_s,
        max_in_bytes=settings.max_response_bytes,
        max_entries=settings.max_frames,
    )


def translate_limits(settings: Settings) -> TranslateLimits:
    """What bounds a translation."""
    return TranslateLimits(
        lease_ms=milliseconds(settings.lease_s),
        retention_ms=milliseconds(settings.retention_s),
        grace_ms=milliseconds(settings.grace_s),
        max_out_bytes=settings.max_response_bytes,
        seal_after_ms=seal_after_ms(settings),
        tool_wait_ms=tool_wait_ms(settings),
    )


def tool_limits(settings: Settings) -> ToolLimits:
    """What bounds a call of a tool."""
    return ToolLimits(
        lease_ms=milliseconds(settings.lease_s),
        timeout_s=settings.tool_timeout_s,
        concurrency=settings.tool_concurrency,
        max_in_bytes=settings.max_response_bytes,
    )


def tool_wait_ms(settings: Settings) -> int:
    """How long calls may wait for any tool worker: those that run may take all their time first."""
    return milliseconds(max(settings.tool_timeout_s + settings.lease_s, SHORTEST_TOOL_WAIT_S))


def tool_settings(settings: Settings) -> ToolSettings:
    """How the tools are set up."""
    key = settings.web_search_api_key
    return ToolSettings(
        timeout_s=settings.tool_timeout_s,
        provider=settings.web_search_provider,
        url=settings.web_search_url,
        api_key=key.get_secret_value() if key else None,
        mcp_allowed_hosts=settings.mcp_allowed_hosts,
    )


class Runners:
    """Tasks of which none should end by itself."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self.fell = asyncio.Event()
        """Set when one did."""

    def start(self, name: str, run: Coroutine[Any, Any, None]) -> None:
        """Run it from now on."""
        task = asyncio.create_task(run, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def problems(self) -> list[str]:
        """Which of them do not run."""
        return [f"{task.get_name()} does not run" for task in self._tasks if task.done()]

    async def stop(self) -> None:
        """Cancel them all."""
        for task in self._tasks:
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        log.error("%s ended by itself", task.get_name(), exc_info=error)
        self.fell.set()


class Crew:
    """The runners. As a context manager they run inside, and are stopped at the end."""

    def __init__(
        self, store: Store, settings: Settings, roles: frozenset[Role], upstreams: Upstreams
    ) -> None:
        self._drain_s = settings.drain_s
        lease_ms = milliseconds(settings.lease_s)
        self._ingest: Ingest | None = None
        self._translate: Translate | None = None
        self._tools: Tools | None = None
        self._sweeper: Sweeper | None = None  # where no translate role brings its own
        if Role.INGEST in roles:
            self._ingest = Ingest(store, upstreams.get, round_limits(settings))
        if Role.TRANSLATE in roles:
            self._translate = Translate(store, translate_limits(settings))
        elif Role.TOOLS in roles:
            self._sweeper = Sweeper(
                store,
                lease_ms=lease_ms,
                seal_after_ms=seal_after_ms(settings),
                tool_wait_ms=tool_wait_ms(settings),
            )
        if Role.TOOLS in roles:
            self._tools = Tools(store, Registry(tool_settings(settings)), tool_limits(settings))
        self._stack = AsyncExitStack()
        self.runners = Runners()

    async def __aenter__(self) -> Self:
        members = (
            (Role.INGEST, self._ingest),
            (Role.TRANSLATE, self._translate),
            (Role.TOOLS, self._tools),
        )
        for role, member in members:
            if member is not None:
                await self._stack.enter_async_context(member)
                self.runners.start(role, member.run())
        if self._sweeper is not None:
            self.runners.start("sweeper", self._sweeper.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.runners.stop()
        await self._stack.aclose()

    async def retire(self) -> None:
        """Take nothing new; let rounds end within the drain time; release every lease."""
        await self.runners.stop()
        if self._translate is not None:
            await self._translate.retire()
        async with asyncio.TaskGroup() as group:
            for member in (self._ingest, self._tools):
                if member is not None:
                    group.create_task(member.drain(self._drain_s))
        if self._translate is not None:
            await self._translate.stop()
