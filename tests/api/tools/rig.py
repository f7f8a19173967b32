"""A whole gateway with its tools: real tool workers, a real MCP server, a scripted search engine and model."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from streams.store import Store
from tests.api.gateway import DONE, SETTINGS, Gateway, Listed, Reply, running
from tests.api.tools import events as tool_events
from tests.api.tools.model import Api, Model
from tests.ingest.server import Server
from tests.translator import laws
from tests.workers.tools.mcp_server import Tools as McpServer
from tests.workers.tools.search_server import Engine
from translator.protocol.upstream import ReasoningHistory, Upstream
from workers.tools.carry import ToolLimits
from workers.tools.registry import Registry, ToolSettings
from workers.tools.role import Tools

CONCURRENCY = 5
SEARCH = {"type": "web_search_preview"}
FUNCTION = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a place.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
CUSTOM = {"type": "custom", "name": "shell", "description": "Runs a line."}
UPSTREAM_ID = re.compile(rb"(?:resp|msg|rs|fc|call)_up_\d+")
CLIENT_CALLS = ("function_call", "custom_tool_call")


@dataclass
class Turn:
    """One response, and where it was streamed, what was."""

    response: dict[str, Any]
    body: bytes
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def output(self) -> list[dict[str, Any]]:
        return self.response["output"]

    @property
    def kinds(self) -> list[str]:
        return [item["type"] for item in self.output]

    @property
    def text(self) -> str:
        """What the model said to the user."""
        messages = [item for item in self.output if item["type"] == "message"]
        return "".join(part["text"] for item in messages for part in item["content"])

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The items of a type."""
        return [item for item in self.output if item["type"] == kind]

    def alike(self) -> list[dict[str, Any]]:
        """The output without what differs from response to response."""
        mine = ("id", "call_id", "approval_request_id")
        return [{k: v for k, v in item.items() if k not in mine} for item in self.output]


@dataclass
class Rig:
    gateway: Gateway
    model: Model
    mcp: McpServer
    engine: Engine

    @property
    def store(self) -> Store:
        return self.gateway.store

    def server(self, label: str = "s", **fields: Any) -> dict[str, Any]:
        """The declaration of the MCP server, asking nobody unless a test says so."""
        given = {"server_label": label, "server_url": self.mcp.url, "require_approval": "never"}
        return {"type": "mcp", **given, **fields}

    async def turn(self, stream: bool, **fields: Any) -> Turn:
        """A whole response. A stream keeps all laws; GET tells the same; nothing internal shows."""
        before = len(self.gateway.upstream.requests)
        reply = await self.gateway.create(stream=stream, **fields)
        self.model.check()
        made = read(reply, stream)
        if fields.get("store", True):
            kept = await self.gateway.get(made.response["id"])
            assert kept.json == made.response
        self._hides(made, fields.get("tools", []), before)
        return made

    def starting(self, stream: bool, **fields: Any) -> asyncio.Task[Turn]:
        """The same, while the test goes on."""
        return asyncio.create_task(self.turn(stream, **fields))

    def _hides(self, made: Turn, tools: list[dict[str, Any]], before: int) -> None:
        """No id of the upstream is public but those of the client's calls; no internal name is."""
        own = {item["call_id"] for item in made.output if item["type"] in CLIENT_CALLS}
        assert {found.decode() for found in UPSTREAM_ID.findall(made.body)} <= own
        clients = {tool.get("name") for tool in tools}
        public = {"web_search", *self.mcp.names}
        for number in range(before, len(self.gateway.upstream.requests)):
            internal = set(self.model.asked(number).functions) - clients
            assert not {name for name in internal - public if name.encode() in made.body}
            assert not {item["name"] for item in made.output if "call_id" in item} & internal


def read(reply: Reply, stream: bool) -> Turn:
    assert reply.status == 200, reply.body
    if not stream:
        return Turn(reply.json, reply.body)
    *frames, done = reply.frames
    assert done == DONE
    events = [laws.parse(frame) for frame in frames]
    laws.check(events)
    laws.gateway(events)
    if events[-1]["type"] == "response.completed":
        tool_events.check(events)
    return Turn(events[-1]["response"], reply.body, events)


Equip = Callable[..., AbstractAsyncContextManager[Rig]]


@asynccontextmanager
async def equipped(
    store: Store,
    upstream: Server,
    mcp: McpServer,
    engine: Engine,
    api: Api = "responses",
    *,
    timeout_s: float = 5.0,
    max_rounds: int = 10,
    reasoning_history: ReasoningHistory = "none",
) -> AsyncIterator[Rig]:
    """The gateway, with tool workers in the same process."""
    named = Upstream(
        "main",
        upstream.url,
        api,
        api_key="up-key",
        custom_formats="validate",
        reasoning_history=reasoning_history,
    )
    limits = SETTINGS["limits"] | {"max_rounds": max_rounds}
    async with (
        tools_at_work(store, engine, timeout_s),
        running(
            store,
            upstream,
            upstreams=Listed(named),
            limits=limits,
            gateway_tools=("web_search", "mcp"),
        ) as gateway,
    ):
        yield Rig(gateway, Model(upstream, api), mcp, engine)


@asynccontextmanager
async def tools_at_work(store: Store, engine: Engine, timeout_s: float) -> AsyncIterator[None]:
    settings = ToolSettings(
        timeout_s, provider="searxng", url=engine.url, mcp_allowed_hosts="127.0.0.1"
    )
    limits = ToolLimits(
        lease_ms=2_000, timeout_s=timeout_s, concurrency=CONCURRENCY, max_in_bytes=1 << 24
    )
    async with Tools(store, Registry(settings), limits) as role:
        task = asyncio.create_task(role.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
