"""An MCP server as they were before 2026, by hand: sessions over streamable HTTP, or SSE, and as bad as a test says."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

Answering = Callable[[dict[str, Any]], Awaitable[tuple[int, Any]]]
"""From a message to a status, and a JSON-RPC result or a whole body."""

SESSION = b"mcp-session-id"


class OldServer:
    """An ASGI app; `on` has what is not as it should be, by JSON-RPC method or by HTTP method."""

    def __init__(self, **on: Answering) -> None:
        self.on = {name.replace("__", "/"): answering for name, answering in on.items()}
        self.seen: list[str] = []
        """Methods, in order; of JSON-RPC where there is one. `no …` where the client did not wait for the answer."""
        self.sessions: list[str] = []
        """What the client called its session, with each of them."""
        self.tools: Any = [{"name": "echo", "inputSchema": {"type": "object"}}]
        self.result: Any = {"content": [{"type": "text", "text": "fine"}]}
        """Of a call."""
        self.has_sessions = True
        self.heard = asyncio.Condition()
        """Told of each request."""
        self._opened = 0
        self._streams: list[asyncio.Queue[Any]] = []

    async def until(self, method: str) -> None:
        """Returns once there was such a request."""
        async with self.heard:
            await self.heard.wait_for(lambda: method in self.seen)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while scope["method"] == "POST":
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        message = json.loads(body) if body else {}
        method = message.get("method", scope["method"])
        await self._note(method, dict(scope["headers"]).get(SESSION, b"").decode())
        if scope["path"].startswith("/sse") and scope["method"] == "GET":
            await self._stream(send)
            return
        working = asyncio.create_task(self.on.get(method, self._answer)(message))
        gone = asyncio.create_task(self._gone(receive, method))
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return
            status, said = working.result()
        finally:
            working.cancel()
            gone.cancel()
        if scope["path"] == "/messages" and status == 200:
            self._streams[int(scope["query_string"])].put_nowait(said)
            status, said = 202, None
        named = [(b"content-type", b"application/json")]
        if method == "initialize" and self.has_sessions:
            self._opened += 1
            named.append((SESSION, b"session-%d" % self._opened))
        await send({"type": "http.response.start", "status": status, "headers": named})
        text = b"" if said is None else json.dumps(said).encode()
        await send({"type": "http.response.body", "body": text})

    async def _note(self, what: str, session: str = "") -> None:
        async with self.heard:
            self.seen.append(what)
            self.sessions.append(session)
            self.heard.notify_all()

    async def _gone(self, receive: Any, method: str) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        await self._note(f"no {method}")

    async def _stream(self, send: Any) -> None:
        named = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": named})
        mine: asyncio.Queue[Any] = asyncio.Queue()
        event = f"event: endpoint\ndata: /messages?{len(self._streams)}\n\n"
        self._streams.append(mine)
        while True:
            more = {"type": "http.response.body", "body": event.encode(), "more_body": True}
            await send(more)
            event = f"event: message\ndata: {json.dumps(await mine.get())}\n\n"

    async def _answer(self, message: dict[str, Any]) -> tuple[int, Any]:
        match message.get("method"):
            case "initialize":
                return 200, replied(message, OPENED)
            case "tools/list":
                return 200, replied(message, {"tools": self.tools})
            case "tools/call":
                return 200, replied(message, self.result)
            case None:
                return (200 if message else 405), None
            case _ if "id" in message:
                return 200, refused(message, -32601, "Method not found")
        return 202, None


OPENED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "old", "version": "1"},
}


def replied(message: dict[str, Any], result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def refused(message: dict[str, Any], code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}


async def hanging(message: dict[str, Any]) -> tuple[int, Any]:
    """Never answers."""
    del message
    await asyncio.Event().wait()
    raise AssertionError


def stating(status: int) -> Answering:
    """Answers with a status, and nothing else."""

    async def answer(message: dict[str, Any]) -> tuple[int, Any]:
        del message
        return status, None

    return answer
