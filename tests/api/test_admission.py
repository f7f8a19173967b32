"""Answers open in one process: of everybody together, and of each tenant."""

import asyncio

import pytest

from api.tenants import Tenants
from tests.api.gateway import running
from tests.ingest.server import text_stream

# It is counted in the process.
pytestmark = pytest.mark.parametrize("store_url", ["valkey"], indirect=True)

TEXT = text_stream("a")
A, B = {"authorization": "Bearer key-a"}, {"authorization": "Bearer key-b"}
KEYS = {"key-a": "a", "key-b": "b"}
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
