"""A real MCP server of the official SDK on loopback, over streamable HTTP and over SSE, that counts what it runs."""

import asyncio
import base64
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

PNG = base64.b64encode(b"\x89PNG not really").decode()
NOTES = {"look": types.ToolAnnotations(read_only_hint=True)}


@dataclass
class Span:
    """When a call ran; `ended` is 0 while it does."""

    name: str
    text: str
    started: float
    ended: float = 0.0


class Tools:
    """The tools, what was called, and how many ran at once."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.spans: list[Span] = []
        """Of the same calls."""
        self.names = ["echo", "look"]
        """What the first page lists; the others list one `page_<n>` each."""
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.running = 0
        self.most = 0
        self.lists = 0
        self.pages = 1
        self.listing = asyncio.Event()
        """What each list waits for; a test may clear it."""
        self.listing.set()
        self.schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        self.gate = asyncio.Event()
        """What `wait` waits for."""
        self.doors: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """What `hold` waits for, by its text."""
        self.confession = ""
        """What `confess` says, and says again as an error when it is told to fail."""
        self.port = 0
        self.answer: Any = None
        """An ASGI app in place of everything, while it is set."""
        self.swap: tuple[bytes, bytes] = (b"", b"")
        """Bytes of its answers, and what it says in place of them."""
        self.structure: Any = None
        """What `raw` says, as structured content."""
        self.image = ("", "")
        """What `picture` shows: MIME type and data."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        del context
        self.lists += 1
        await self.listing.wait()
        page = int(params.cursor) if params and params.cursor else 0
        names = self.names if page == 0 else [f"page_{page}"]
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=f"The tool {name}",
                    input_schema=self.schema,
                    annotations=NOTES.get(name),
                )
                for name in names
            ],
            next_cursor=str(page + 1) if page + 1 < self.pages else None,
        )

    async def call_tool(self, context: Any, params: Any) -> types.CallToolResult:
        del context
        name, given = params.name, dict(params.arguments or {})
        self.calls.append((name, given))
        span = Span(name, str(given.get("text", "")), time.monotonic())
        self.spans.append(span)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await getattr(self, f"do_{name}")(given)
        finally:
            self.running -= 1
            span.ended = time.monotonic()

    async def do_echo(self, given: dict[str, Any]) -> types.CallToolResult:
        return text(given.get("text", "nothing"))

    async def do_look(self, given: dict[str, Any]) -> types.CallToolResult:
        return text("first", "second", str(given.get("text", "")))

    async def do_sleep(self, given: dict[str, Any]) -> types.CallToolResult:
        await asyncio.sleep(given["s"])
        return text("awake")

    async def do_wait(self, given: dict[str, Any]) -> types.CallToolResult:
        del given
        await self.gate.wait()
        return text("let go")

    async def do_hold(self, given: dict[str, Any]) -> types.CallToolResult:
        await self.doors[given["text"]].wait()
        return text(f"{given['text']} let go")

    async def do_page_1(self, given: dict[str, Any]) -> types.CallToolResult:
        return text(f"from page 1: {given.get('text')}")

    async def do_fail(self, given: dict[str, Any]) -> types.CallToolResult:
        result = text(given.get("text", "it broke"))
        result.is_error = True
        return result

    async def do_confess(self, given: dict[str, Any]) -> types.CallToolResult:
        result = text(self.confession)
        result.is_error = bool(given.get("fail"))
        return result

    async def do_mute(self, given: dict[str, Any]) -> types.CallToolResult:
        del given
        return types.CallToolResult(content=[], is_error=True)

    async def do_raise(self, given: dict[str, Any]) -> types.CallToolResult:
        raise RuntimeError(f"raised {given}")

    async def do_structured(self, given: dict[str, Any]) -> types.CallToolResult:
        return types.CallToolResult(content=[], structured_content={"given": given, "n": [1, 2]})

    async def do_blank(self, given: dict[str, Any]) -> types.CallToolResult:
        nothing = types.TextContent(type="text", text="")
        return types.CallToolResult(content=[nothing], structured_content={"given": given})

    async def do_raw(self, given: dict[str, Any]) -> types.CallToolResult:
        del given
        return types.CallToolResult(content=[], structured_content=self.structure)

    async def do_picture(self, given: dict[str, Any]) -> types.CallToolResult:
        del given
        kind, data = self.image
        image = types.ImageContent(type="image", data=data, mime_type=kind)
        return types.CallToolResult(content=[image])

    async def do_parts(self, given: dict[str, Any]) -> types.CallToolResult:
        del given
        return types.CallToolResult(
            content=[
                types.TextContent(type="text", text="before"),
                types.ImageContent(type="image", data=PNG, mime_type="image/png"),
                types.AudioContent(type="audio", data=PNG, mime_type="audio/wav"),
                types.ResourceLink(type="resource_link", name="r", uri="file:///r"),
                types.EmbeddedResource(
                    type="resource",
                    resource=types.TextResourceContents(uri="a://b", text="inside"),
                ),
                types.EmbeddedResource(
                    type="resource",
                    resource=types.BlobResourceContents(uri="a://c", blob=PNG),
                ),
            ]
        )

    async def do_big(self, given: dict[str, Any]) -> types.CallToolResult:
        return text("x" * given["bytes"])


def text(*parts: str) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=part) for part in parts]
    )


def app_of(tools: Tools) -> Any:
    server: Any = Server(
        "tools", version="1", on_list_tools=tools.list_tools, on_call_tool=tools.call_tool
    )
    http = server.streamable_http_app(
        streamable_http_path="/mcp",
        stateless_http=True,
        # Tests reach it by names that are none.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    transport = SseServerTransport("/messages/")

    async def sse(request: Any) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
            await server.run(streams[0], streams[1], server.create_initialization_options())
        return Response()

    old = Starlette(
        routes=[
            Route("/sse", sse, methods=["GET"]),
            Route("/old", sse, methods=["GET"]),
            Mount("/messages/", transport.handle_post_message),
        ]
    )

    async def entry(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            tools.paths.append(scope["path"])
            tools.headers.append(
                {k.decode().lower(): v.decode("latin-1") for k, v in scope["headers"]}
            )
            if tools.answer is not None:
                await tools.answer(scope, receive, send)
                return
            if tools.swap[0]:
                send = swapping(send, tools.swap)
            if scope["path"] == "/moved":
                await answering(307, location="/mcp")(scope, receive, send)
                return
            if scope["path"] != "/mcp":
                await old(scope, receive, send)
                return
        await http(scope, receive, send)

    return entry


def swapping(send: Any, swap: tuple[bytes, bytes]) -> Any:
    """Sends other bytes than the SDK would."""

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.body":
            message["body"] = message.get("body", b"").replace(*swap)
        else:
            message["headers"] = [h for h in message["headers"] if h[0] != b"content-length"]
        await send(message)

    return sent


def answering(status: int, body: bytes = b"", **headers: str) -> Any:
    """A server that says one thing."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        named = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": named})
        await send({"type": "http.response.body", "body": body})

    return app


@contextlib.asynccontextmanager
async def serving(tools: Tools | None = None) -> AsyncIterator[Tools]:
    """Behind uvicorn, without its slow goodbye."""
    tools = tools or Tools()
    config = uvicorn.Config(app_of(tools), port=0, ws="none", lifespan="on", log_config=None)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    tools.port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield tools
    finally:
        for waited_for in (tools.gate, tools.listing, *tools.doors.values()):
            waited_for.set()
        for listening in server.servers:
            listening.close()
        tasks = list(server.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await server.lifespan.shutdown()
