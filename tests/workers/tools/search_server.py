"""A scripted search engine on loopback that answers as SearXNG, Brave or Tavily."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web


class Engine:
    def __init__(self) -> None:
        self.hits: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        """Path, parameters, headers and body of each request."""
        self.status = 200
        self.body: bytes | None = None
        self.delay_s = 0.0
        self.doors: dict[str, asyncio.Event] = {}
        """What the search for a query waits for."""
        self.broken: set[str] = set()
        """Queries that are answered with a 500."""
        self.spans: list[tuple[float, float]] = []
        """Start and end of each search that is over."""
        self.location = ""
        self.port = 0
        self.running = self.most = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(
            {
                "path": request.path,
                "params": dict(request.query),
                "headers": {k.lower(): v for k, v in request.headers.items()},
                "json": await request.json() if request.method == "POST" else None,
            }
        )
        query = request.query.get("q", "")
        started = time.monotonic()
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.delay_s)
            if query in self.doors:
                await self.doors[query].wait()
        finally:
            self.running -= 1
            self.spans.append((started, time.monotonic()))
        if query in self.broken:
            return web.Response(status=500)
        if self.location:
            return web.Response(status=302, headers={"location": self.location})
        if self.body is not None:
            return web.Response(status=self.status, body=self.body)
        results = {"results": self.hits}
        answer = {"web": results} if request.path == "/res/v1/web/search" else results
        return web.json_response(answer, status=self.status)


@contextlib.asynccontextmanager
async def searching(engine: Engine | None = None) -> AsyncIterator[Engine]:
    engine = engine or Engine()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", engine.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    engine.port = runner.addresses[0][1]
    try:
        yield engine
    finally:
        await runner.cleanup()
