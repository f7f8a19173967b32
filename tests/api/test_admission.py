"""Answers open in one process: of everybody together, and of each tenant."""

import asyncio
import json

import pytest

from api.app import application
from api.tenants import Tenants
from tests.api.gateway import running
from tests.ingest.server import text_stream

# It is counted in the process.
pytestmark = pytest.mark.parametrize("store_url", ["valkey"], indirect=True)

TEXT = text_stream("a")
A, B = {"authorization": "Bearer key-a"}, {"authorization": "Bearer key-b"}
KEYS = {"key-a": "a", "key-b": "b"}
SCOPE = {
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
    "path": "/v1/responses", "raw_path": b"/v1/responses", "query_string": b"", "headers": [],
    "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
}  # fmt: skip
BODY = {"model": "m", "input": "x", "stream": True}


async def test_a_resumed_stream_is_an_open_answer_and_a_poll_is_none(store, upstream):
    gate = asyncio.Event()
    upstream.play(*TEXT[:3], gate, *TEXT[3:])
    async with running(store, upstream, max_in_flight=2) as gateway:
        made = await gateway.made(background=True)
        path = f"/v1/responses/{made['id']}"
        async with (
            gateway.live("GET", f"{path}?stream=true") as one,
            gateway.live("GET", f"{path}?stream=true") as two,
        ):
            await one.until(b"response.in_progress")
            await two.until(b"response.in_progress")
            reply = await gateway.get(made["id"], "?stream=true")
            assert (reply.status, reply.error["code"]) == (503, "overloaded")
            assert reply.headers["retry-after"] == "1"
            assert (await gateway.create()).status == 503
            assert (await gateway.get(made["id"])).status == 200
            gate.set()
            await one.rest()
            await two.rest()
        assert (await gateway.get(made["id"], "?stream=true")).status == 200


async def test_a_tenant_with_all_its_answers_open_is_a_429_and_others_are_served(store, upstream):
    gate = asyncio.Event()
    upstream.play(*TEXT[:3], gate, *TEXT[3:])
    tenants = Tenants(Tenants.of(KEYS).keys, most_in_flight={"b": 2})
    async with running(store, upstream, tenants=tenants, max_in_flight_per_tenant=1) as gateway:
        async with gateway.live("POST", "/v1/responses", BODY, headers=A) as live:
            await live.until(b"response.in_progress")
            for method, path in (
                ("POST", "/v1/responses"),
                ("GET", f"/v1/responses/{live.rid}?stream=true"),
            ):
                body = BODY if method == "POST" else None
                reply = await gateway.ask(method, path, body, headers=A)
                assert (reply.status, reply.error["code"]) == (429, "too_many_open")
                assert reply.error["type"] == "rate_limit_error"
                assert reply.headers["retry-after"] == "1"
            async with (
                gateway.live("POST", "/v1/responses", BODY, headers=B) as third,
                gateway.live("POST", "/v1/responses", BODY, headers=B) as fourth,
            ):
                assert (third.status, fourth.status) == (200, 200)
                assert (await gateway.ask("POST", "/v1/responses", BODY, headers=B)).status == 429
                gate.set()
                for one in (live, third, fourth):
                    await one.rest()
        assert (await gateway.ask("POST", "/v1/responses", BODY, headers=A)).status == 200


async def test_who_has_read_the_end_of_a_stream_may_come_again_at_once(store, upstream):
    """The next request is read in the turn of the loop that follows the last write."""
    upstream.play(*TEXT)
    statuses, again = [], []
    async with running(store, upstream, max_in_flight=1) as gateway:
        app = application(gateway.context)

        async def create(then=None):
            body = json.dumps(BODY).encode()
            told = iter([{"type": "http.request", "body": body}])

            async def receive():
                return next(told, None) or await asyncio.Event().wait()

            async def send(message):
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])
                elif then is not None and not message.get("more_body"):
                    again.append(asyncio.create_task(then()))

            await app(SCOPE, receive, send)

        await create(create)
        await asyncio.gather(*again)
    assert statuses == [200, 200]
