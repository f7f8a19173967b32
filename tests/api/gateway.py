"""A whole gateway in the test's event loop: a real store, real runners, uvicorn on loopback, a scripted upstream."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import uvicorn

from api.app import application
from api.context import ApiSettings, Context
from api.tenants import Tenants
from ingest.role import Ingest
from ingest.run import RoundLimits
from respool.http import address, bind
from streams.store import Store
from tests.frames import frame_of
from tests.ingest.server import Server
from tests.wait import wait_until
from translator.protocol.upstream import Upstream
from workers.role import Translate
from workers.translate import TranslateLimits

SETTINGS: dict[str, Any] = {
    "limits": {"max_rounds": 10, "max_attempts": 2, "max_response_bytes": 1 << 24},
    "retention_s": 60.0,
    "grace_s": 1.0,
    "max_run_s": 60.0,
    "lease_s": 2.0,
    "max_body_bytes": 1 << 20,
    "max_in_flight": 100,
}


class Listed:
    """The upstreams of a test."""

    def __init__(self, *upstreams: Upstream) -> None:
        self.listed = list(upstreams)

    def all(self) -> list[Upstream]:
        return self.listed

    def resolve(self, model: str) -> Upstream | None:
        return next((upstream for upstream in self.listed if upstream.serves(model)), None)


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error object, which must have its four keys and stand alone."""
        body = self.json
        assert list(body) == ["error"], body
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert self.headers["x-request-id"].startswith("req_")
        return body["error"]

    @property
    def frames(self) -> list[bytes]:
        return list(frames_of(self.body))


def frames_of(body: bytes) -> Iterator[bytes]:
    """The frames of a whole stream without its heartbeats; what is cut off or framed otherwise fails."""
    assert b"\r" not in body
    *frames, rest = body.split(b"\n\n")
    assert rest == b"", rest
    yield from map(frame_of, frames)


def data_of(frame: bytes) -> dict[str, Any]:
    return json.loads(frame.partition(b"\ndata: ")[2])


def types_of(frames: list[bytes]) -> list[str]:
    return [data_of(frame)["type"] for frame in frames if frame != DONE]


DONE = b"data: [DONE]\n\n"


class Live:
    """A stream that is read piece by piece."""

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self.reply = reply
        self.status = reply.status
        self.headers = reply.headers
        self.body = b""

    async def until(self, text: bytes) -> bytes:
        """Read until a text has come."""
        while text not in self.body:
            chunk = await self.reply.content.readany()
            assert chunk, f"ended without {text!r}: {self.body[-500:]!r}"
            self.body += chunk
        return self.body

    async def rest(self) -> list[bytes]:
        """Read to the end; all frames."""
        self.body += await self.reply.content.read()
        return list(frames_of(self.body))

    @property
    def rid(self) -> str:
        found = re.search(rb"resp_[0-9a-f]{32}", self.body)
        assert found
        return found[0].decode()

    def leave(self) -> None:
        self.reply.close()


@dataclass
class Gateway:
    store: Store
    upstream: Server
    url: str
    http: aiohttp.ClientSession
    context: Context
    upstreams: Listed
    headers: dict[str, str] = field(default_factory=dict)

    async def ask(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Reply:
        async with self._request(method, path, body, headers) as reply:
            headers = {name.lower(): value for name, value in reply.headers.items()}
            return Reply(reply.status, headers, await reply.read())

    @asynccontextmanager
    async def live(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> AsyncIterator[Live]:
        async with self._request(method, path, body, headers) as reply:
            yield Live(reply)

    def _request(self, method: str, path: str, body: Any, headers: dict[str, str] | None) -> Any:
        data = json.dumps(body).encode() if isinstance(body, dict | list) else body
        return self.http.request(
            method, self.url + path, data=data, headers=self.headers | (headers or {})
        )

    async def create(self, **fields: Any) -> Reply:
        return await self.ask("POST", "/v1/responses", {"model": "m", "input": "hi", **fields})

    def creating(self, **fields: Any) -> Any:
        return self.live("POST", "/v1/responses", {"model": "m", "input": "hi", **fields})

    async def made(self, **fields: Any) -> dict[str, Any]:
        """A response that a create answered with."""
        reply = await self.create(**fields)
        assert reply.status == 200, reply.body
        return reply.json

    async def get(self, rid: str, query: str = "", **options: Any) -> Reply:
        return await self.ask("GET", f"/v1/responses/{rid}{query}", **options)

    async def until(self, rid: str, status: str) -> dict[str, Any]:
        """The response once it has a status."""

        async def there() -> dict[str, Any] | None:
            seen = (await self.get(rid)).json
            return seen if seen.get("status") == status else None

        return await wait_until(there)

    async def only(self) -> str:
        """The id of the only response there is, as soon as there is one with a frame."""

        async def begun() -> list[bytes]:
            return [key for key in await self.keys("resp_") if key.endswith(b":out")]

        (key,) = await wait_until(begun)
        return key.decode().partition("{")[2].partition("}")[0]

    async def keys(self, rid: str) -> list[bytes]:
        return await self.store.connections.command("KEYS", f"{self.store.keys.ns}:*{rid}*")


@asynccontextmanager
async def serving_app(app: Any) -> AsyncIterator[str]:
    """An ASGI application behind uvicorn, as `respool serve` runs it, without its slow goodbye."""
    config = uvicorn.Config(
        app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    listener = bind("127.0.0.1", 0)
    await server.startup(sockets=[listener])
    try:
        yield address(listener)
    finally:
        for listening in server.servers:
            listening.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        tasks = list(server.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def running(
    store: Store,
    upstream: Server,
    *,
    roles: bool = True,
    upstreams: Listed | None = None,
    api_keys: Mapping[str, str] | None = None,
    tenants: Tenants | None = None,
    max_frames: int = 500_000,
    patience_s: float = 10.0,
    **settings: Any,
) -> AsyncIterator[Gateway]:
    """A gateway; without `roles` nobody works on what it creates."""
    options = SETTINGS | settings
    known = upstreams or Listed(Upstream("main", upstream.url, "responses", api_key="up-key"))
    who = tenants or Tenants.of(api_keys or {})
    context = Context(store, ApiSettings(**options), known, tenants=lambda: who)
    lease_ms = int(options["lease_s"] * 1000)
    round_limits = RoundLimits(
        lease_ms=lease_ms,
        idle_timeout_s=patience_s,
        total_timeout_s=3 * patience_s,
        max_in_bytes=options["limits"]["max_response_bytes"],
        max_entries=max_frames,
    )
    translate_limits = TranslateLimits(
        lease_ms=lease_ms,
        retention_ms=int(options["retention_s"] * 1000),
        grace_ms=int(options["grace_s"] * 1000),
        max_out_bytes=1 << 24,
    )
    async with (
        Ingest(
            store, lambda rid: next(u for u in known.all() if u.id == rid), round_limits
        ) as ingest,
        Translate(store, translate_limits) as translate,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
        serving_app(application(context)) as url,
    ):
        tasks = []
        if roles:
            tasks = [asyncio.create_task(role.run()) for role in (ingest, translate)]
        else:
            store.work.unregister("rounds")
            store.work.unregister("translate")
        try:
            yield Gateway(store, upstream, url, http, context, known)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
