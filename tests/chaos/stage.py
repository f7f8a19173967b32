"""All that a run needs: the store, the upstream, the tools, the role processes, the clients and the control."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
from aiohttp import web

from streams.store import Store
from tests.chaos.audience import Audience, Viewing
from tests.chaos.control import Control, controlled
from tests.chaos.fleet import LEASE_S, Fleet, Member
from tests.chaos.judge import Judge
from tests.chaos.model import Model
from tests.chaos.tally import Tally
from tests.chaos.valkey import Valkey
from tests.ingest.server import serving as upstream_serving
from tests.respool import errands
from tests.wait import wait_until
from tests.workers.tools import mcp_server, search_server
from workers.tools.session import loaded

CLIENTS = 10
WATCH_S = 2 * LEASE_S
"""How long the clients are watched after a fault: a takeover fits."""
MOVED_S = 20.0
"""Bound of the wait for all streams to go on."""
PLACES_S = 5.0
"""For the places of ended responses: what a dead process did not give back a sweeper finds within a lease or two."""
LEAVE_S = 60.0
"""For the clients to read to the end what they have begun."""
TOOL_S = 0.1
"""What a call of a tool takes."""
NAMESPACE = "chaos"
CALM = "none"
"""The name of the time before the first fault."""


class Tools(errands.Tools):
    """The MCP tools of the errands, in a time of their own."""

    async def do_read(self, given: dict[str, Any]) -> types.CallToolResult:
        await asyncio.sleep(TOOL_S)
        return mcp_server.text(f"read {given['text']}")

    async def do_write(self, given: dict[str, Any]) -> types.CallToolResult:
        await asyncio.sleep(TOOL_S)
        return mcp_server.text(f"wrote {given['text']}")


class Engine(search_server.Engine):
    """A search endpoint that takes its time and forgets who asked."""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.clear()
        self.spans.clear()
        return await super().handle(request)


@dataclass
class Stage:
    """What the faults are done to."""

    valkey: Valkey
    store: Store
    model: Model
    fleet: Fleet
    judge: Judge
    control: Control
    tallies: dict[str, Tally] = field(default_factory=dict)
    """By the name of the trial in which a response was."""
    gaps: dict[str, list[float]] = field(default_factory=dict)
    """The longest silence of each trial, by its name."""
    name: str = ""
    """Of the trial that runs."""
    audience: Audience = field(init=False)
    _began: float = 0.0
    _present: list[Viewing] = field(default_factory=list)

    @property
    def frames_seen(self) -> int:
        return self.judge.total.frames + sum(len(v.frames) for v in self.audience.viewings)

    def begin(self, name: str) -> None:
        """A trial of this name begins now."""
        self.name = self.control.trial = name
        self._began = time.monotonic()
        self._present = list(self.audience.viewings)
        for viewing in self.audience.viewings:
            viewing.lived_through.append(name)

    def lose(self, member: Member) -> None:
        """The responses whose round is carried by this process may fail."""
        if member.role == "ingest":
            for viewing in self.audience.viewings:
                if self.model.carriers.get(viewing.tag) == member.name:
                    viewing.wronged.add("ingest")

    def take_back(self) -> None:
        """The logs of all responses that are not judged yet may have lost their ends."""
        for viewing in self.audience.viewings:
            viewing.wronged.add("back")

    async def watch(self) -> None:
        """Wait until every stream that ran when the trial began has gone on, or ended, and note the longest silence."""
        watched, since = self._present, self._began
        settled = time.monotonic() + WATCH_S

        def moved() -> bool:
            return time.monotonic() > settled and all(
                viewing.over or (viewing.times and viewing.times[-1] > settled)
                for viewing in watched
            )

        try:
            await wait_until(moved, MOVED_S)
        except AssertionError:
            still = [v.rid or v.tag for v in watched if not (v.over or v.times[-1:] > [settled])]
            self.judge.broken.append(f"{self.name}: streams stand still: {', '.join(still)}")
        end = time.monotonic()
        gap = max((v.longest_gap(since, end) for v in watched if self._tells(v)), default=0.0)
        self.gaps.setdefault(self.name, []).append(gap)

    def _tells(self, viewing: Viewing) -> bool:
        """Whether the silence of a stream is the fault's: a tool is silent by itself."""
        return viewing.kind != "tools" or self.name.endswith("tools")

    async def judged(self, viewing: Viewing) -> None:
        """One response is over."""
        tally = await self.judge.judge(viewing)
        for name in dict.fromkeys(viewing.lived_through):
            self.tallies.setdefault(name, Tally()).add(tally)

    async def close(self) -> None:
        """Hold what is left in the store against the laws: among it what clients created and never heard of."""
        for key in await self.store.connections.command("KEYS", f"{NAMESPACE}:*:st"):
            rid = key.decode().split("{")[1].split("}")[0]
            self.judge.broken += [f"{rid}: {what}" for what in await self.judge.left(rid)]
        try:
            await wait_until(self._places_are_free, PLACES_S)
        except AssertionError:
            self.judge.broken.append("responses that have ended still have their places")

    async def _places_are_free(self) -> bool:
        """Whether every response that has ended has given its place among the open ones back."""
        command, logs = self.store.connections.command, self.store.logs
        holders = await command("ZRANGE", self.store.keys.open[1], 0, -1)
        states = [await logs.state(rid.decode()) for rid in holders]
        return not any(state is not None and state.done for state in states)


@asynccontextmanager
async def staged(folder: Path, seed: int) -> AsyncIterator[Stage]:
    """A stage with its clients reading; they have read to the end when the block is left."""
    await loaded()
    valkey = Valkey(folder / "valkey")
    engine = Engine()
    engine.hits, engine.delay_s = [errands.HIT], TOOL_S
    await valkey.start()
    try:
        async with (
            Store.open(valkey.url, NAMESPACE) as store,
            upstream_serving(Model()) as model,
            mcp_server.serving(Tools(errands.Gates())) as tools,
            search_server.searching(engine),
        ):
            settings = {
                "NAMESPACE": NAMESPACE,
                "MCP_ALLOWED_HOSTS": tools.host,
                "WEB_SEARCH_PROVIDER": "searxng",
                "WEB_SEARCH_URL": engine.url,
                "LEASE_S": str(LEASE_S),
                "MAX_OPEN": "100000",  # never met, but counted
            }
            async with (
                Fleet(folder, valkey.url, settings, model.base_of) as fleet,
                controlled(valkey.url) as control,
            ):
                stage = Stage(valkey, store, model, fleet, Judge(store), control)
                doors = lambda: [member.replica.url for member in fleet.of("api")]  # noqa: E731
                stage.audience = Audience(doors, tools.url, stage.judged, seed)
                async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
                    for place in range(CLIENTS):
                        group.create_task(stage.audience.sit(place))
                    await wait_until(lambda: stage.judge.total.responses > 2 * CLIENTS, MOVED_S)
                    stage.begin(CALM)
                    await stage.watch()
                    yield stage
                    stage.audience.leave()
                    limit.reschedule(asyncio.get_running_loop().time() + LEAVE_S)
                await stage.close()
    finally:
        await valkey.kill()
