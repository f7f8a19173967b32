"""One ASGI exchange driven by hand: what a response sends, message by message, and a client that may leave or not read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

App = Callable[[Any, Any, Any], Awaitable[None]]

SCOPE = {
    "type": "http",
    "method": "GET",
    "path": "/",
    "raw_path": b"/",
    "query_string": b"",
    "headers": [],
    "client": ("127.0.0.1", 1),
}


class Exchange:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.news = asyncio.Event()
        self.left = asyncio.Event()
        self.reading = asyncio.Event()  # cleared: every send waits, as with a full socket
        self.reading.set()
        self.incoming: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self.incoming:
            return self.incoming.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        await self.reading.wait()
        self.sent.append(message)
        self.news.set()

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def writes(self) -> list[bytes]:
        return [m["body"] for m in self.sent if m["type"] == "http.response.body"]

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)

    @property
    def complete(self) -> bool:
        last = self.sent[-1] if self.sent else {}
        return last.get("type") == "http.response.body" and not last.get("more_body", False)

    async def until(self, text: bytes, count: int = 1) -> None:
        async with asyncio.timeout(5):
            while self.body.count(text) < count:
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def exchanging(app: App, **scope: Any) -> AsyncIterator[tuple[Exchange, asyncio.Task[None]]]:
    """The exchange and the task of the application; both are over at the end."""
    exchange = Exchange()

    async def run() -> None:
        await app(SCOPE | scope, exchange.receive, exchange.send)

    task = asyncio.create_task(run())
    try:
        yield exchange, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
