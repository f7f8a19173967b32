"""Open responses are bounded over all processes, and a place is free when its response has ended, however it did."""

import asyncio
import logging

import pytest

from api.tenants import Tenants
from streams.scripts.hints import Place
from streams.store import Store
from tests.api.gateway import running
from tests.ingest.server import End, text_stream
from tests.wait import wait_until
from workers import sweep
from workers.sweep import Sweeper

TEXT = text_stream("a")
A, B = {"authorization": "Bearer key-a"}, {"authorization": "Bearer key-b"}
KEYS = {"key-a": "a", "key-b": "b"}


def refused(reply, status: int, code: str) -> bool:
    assert (reply.status, reply.error["code"]) == (status, code), reply.body
    assert reply.headers["retry-after"] == "2"
    assert reply.headers["retry-after-ms"] == "2000"
    return True


async def test_past_the_bound_of_all_a_create_is_a_503_at_every_process(
    store, upstream, store_url, namespace
):
    gate = asyncio.Event()
    upstream.play(gate, *TEXT)
    async with (
        Store.open(store_url, namespace) as elsewhere,
        running(store, upstream, max_open=2) as gateway,
        running(elsewhere, upstream, roles=False, max_open=2) as other,
    ):
        made = [await gateway.made(background=True) for _ in range(2)]
        calls = len(upstream.requests)
        assert refused(await gateway.create(), 503, "overloaded")
        assert refused(await other.create(stream=True), 503, "overloaded")
        assert len(await gateway.keys("resp_")) == 2 * len(await gateway.keys(made[0]["id"]))
        gate.set()
        for one in made:
            await gateway.until(one["id"], "completed")
        assert (await other.create(background=True)).status == 200
        assert len(upstream.requests) >= calls


async def test_past_a_tenants_bound_a_create_is_a_429_and_others_are_served(store, upstream):
    gate = asyncio.Event()
    upstream.play(gate, *TEXT)
    who = Tenants.of(KEYS)
    async with running(store, upstream, tenants=who, max_open_per_tenant=1) as gateway:
        body = {"model": "m", "input": "x", "background": True}

        async def create(headers):
            return await gateway.ask("POST", "/v1/responses", body, headers=headers)

        first = await create(A)
        assert first.status == 200
        reply = await create(A)
        assert refused(reply, 429, "too_many_open")
        assert reply.error["type"] == "rate_limit_error"
        assert (await create(B)).status == 200
        gate.set()
        gateway.headers = A
        await gateway.until(first.json["id"], "completed")

        async def served():
            return (await create(A)).status == 200

        await wait_until(served)


async def test_a_tenant_may_have_a_bound_of_its_own(store, upstream):
    gate = asyncio.Event()
    upstream.play(gate, *TEXT)
    keys = Tenants.of(KEYS).keys
    who = Tenants(keys, most_open={"b": 1})
    async with running(store, upstream, tenants=who, max_open=50) as gateway:
        body = {"model": "m", "input": "x", "background": True}
        for headers, statuses in ((A, [200, 200]), (B, [200, 429])):
            replies = [
                await gateway.ask("POST", "/v1/responses", body, headers=headers) for _ in range(2)
            ]
            assert [reply.status for reply in replies] == statuses
        gate.set()


@pytest.mark.parametrize("end", ["deleted", "cancelled", "refused", "failed"])
async def test_every_end_gives_the_place_back(store, upstream, end):
    match end:
        case "refused":
            upstream.play(b"{}", status="400 Bad Request", headers={"content-length": "2"})
        case "failed":
            upstream.play(*TEXT[:4], End.CUT)
        case _:
            upstream.play(*TEXT[:4], End.HANG)
    async with running(store, upstream, max_open=1) as gateway:
        if end == "refused":
            assert (await gateway.create(stream=True)).status == 400
        else:
            made = await gateway.made(background=True)
            path = f"/v1/responses/{made['id']}"
            match end:
                case "deleted":
                    assert (await gateway.ask("DELETE", path)).status == 200
                case "cancelled":
                    assert (await gateway.ask("POST", f"{path}/cancel")).status == 200
                case _:
                    await gateway.until(made["id"], "failed")

        async def served():
            return (await gateway.create(background=True)).status == 200

        await wait_until(served)


async def test_a_create_that_died_before_its_response_gives_the_place_back(
    store, upstream, monkeypatch
):
    """Its api process was killed between the two calls: only the place and the due entry are there."""
    monkeypatch.setattr(sweep, "MISSING_GRACE_MS", 0)
    await store.due.begin("resp_never", after_ms=-1, place=Place("anonymous", 1, 0, 60_000))
    async with running(store, upstream, roles=False, max_open=1) as gateway:
        assert (await gateway.create(background=True)).status == 503
        sweeper = Sweeper(store, lease_ms=1_000)
        await sweeper.turn()
        assert (await gateway.create(background=True)).status == 200


async def test_a_translator_that_died_after_the_end_gives_the_place_back(store, upstream):
    """The terminal frame is committed, the place still taken: as a kill -9 between the two leaves it."""
    upstream.play(*TEXT)
    async with running(store, upstream) as gateway:
        done = await gateway.made()
        rid = done["id"]
        place = Place("anonymous", 1, 0, 60_000)
    await store.due.begin(rid, after_ms=-1, place=place)
    await Sweeper(store, lease_ms=1_000, seal_after_ms=30_000).turn()
    assert await store.connections.command("ZCARD", store.keys.open[1]) == 0
    held = await store.connections.command("ZSCORE", store.keys.due, rid)
    assert held is not None, "it is to be sealed later"


async def test_repeats_of_one_create_take_one_place(store, upstream, caplog):
    caplog.set_level(logging.ERROR)
    gate = asyncio.Event()
    upstream.play(gate, *TEXT)
    async with running(store, upstream, max_open=1) as gateway:
        asking = [
            gateway.ask(
                "POST",
                "/v1/responses",
                {"model": "m", "input": "x", "background": True},
                headers={"idempotency-key": "k"},
            )
            for _ in range(5)
        ]
        replies = await asyncio.gather(*asking)
        assert {reply.status for reply in replies} == {200}
        assert len({reply.json["id"] for reply in replies}) == 1
        gate.set()
    assert not caplog.records
