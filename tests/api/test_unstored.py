import asyncio

import pytest

from api import unstored
from api.unstored import SHORTEST_S, ReaderLease
from streams.logs import State
from streams.store import Store
from tests.api.gateway import Gateway, running, types_of
from tests.ingest.server import text_stream
from tests.wait import wait_until

TEXT = text_stream("a", "b")


async def state_of(gateway: Gateway, rid: str) -> State:
    state = await gateway.store.logs.state(rid)
    assert state is not None
    return state


@pytest.mark.parametrize("stream", [True, False])
async def test_nothing_of_it_can_be_fetched(gateway: Gateway, stream):
    gateway.upstream.play(*TEXT)
    reply = await gateway.create(store=False, stream=stream)
    assert b'"store":false' in reply.body
    rid = await gateway.only()
    for method, path in (
        ("GET", ""),
        ("GET", "?stream=true"),
        ("GET", "?stream=true&starting_after=0"),
        ("GET", "/input_items"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ):
        refused = await gateway.ask(method, f"/v1/responses/{rid}{path}")
        assert (refused.status, refused.error["code"]) == (404, None)

    async def nothing_left() -> bool:
        return await gateway.keys(rid) == []

    await wait_until(nothing_left)


async def test_its_run_ends_when_its_streaming_client_leaves(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate)
    async with gateway.creating(store=False, stream=True) as live:
        await live.until(b'"delta":"a"')
        live.leave()
    await asyncio.wait_for(gateway.upstream.requests[0].left.wait(), 2)
    assert not gate.is_set()


async def test_its_run_ends_when_its_blocking_client_leaves(gateway: Gateway):
    gateway.upstream.play(*TEXT[:4], asyncio.Event())
    asking = asyncio.create_task(gateway.create(store=False))
    await wait_until(lambda: gateway.upstream.requests)
    asking.cancel()
    await asyncio.wait_for(gateway.upstream.requests[0].left.wait(), 2)


async def test_its_run_ends_when_its_client_leaves_before_the_upstream_has_spoken(
    gateway: Gateway,
):
    gateway.upstream.play(asyncio.Event(), raw_head=b"HTTP/1.1 ")
    asking = asyncio.create_task(gateway.create(store=False, stream=True))
    await wait_until(lambda: gateway.upstream.requests)
    asking.cancel()
    await asyncio.wait_for(gateway.upstream.requests[0].left.wait(), 2)


async def test_its_reader_holds_a_lease_as_long_as_it_is_there(gateway: Gateway, monkeypatch):
    monkeypatch.setattr(unstored, "RENEW_S", 0.02)
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate, *TEXT[4:])
    async with gateway.creating(store=False, stream=True) as live:
        await live.until(b'"delta":"a"')
        first = (await state_of(gateway, live.rid)).reader
        assert first > 0

        async def renewed() -> bool:
            return (await state_of(gateway, live.rid)).reader > first

        await wait_until(renewed)
        gate.set()
        assert types_of(await live.rest())[-1] == "response.completed"


async def test_it_stays_with_its_reader_however_short_its_grace_is(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made(store=False))["id"]
    logs, grace_s = gateway.store.logs, 0.5
    holding = asyncio.create_task(ReaderLease(gateway.store, rid, grace_s).hold())
    long_after = await logs.now() + 3 * grace_s * 1000

    async def read_for_long() -> bool:
        return await logs.now() > long_after

    await wait_until(read_for_long)
    assert (await state_of(gateway, rid)).done
    holding.cancel()


async def test_a_lease_on_something_that_is_gone_waits_for_the_reader_to_say_so(store: Store):
    lease = ReaderLease(store, "resp_" + "0" * 32, 1.0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lease.hold(), 0.1)
    await lease.abandon()  # no harm either


async def test_a_lease_that_cannot_be_renewed_is_tried_again(store, upstream, monkeypatch, caplog):
    monkeypatch.setattr(unstored, "RENEW_S", 0.02)
    async with running(store, upstream, roles=False) as gateway:
        rid = (await gateway.made(background=True))["id"]
        key = store.keys.state(rid)
        await store.connections.command("DEL", key)
        await store.connections.command("SET", key, "x", "PX", 60_000)
        holding = asyncio.create_task(ReaderLease(store, rid, 1.0).hold())
        await wait_until(lambda: caplog.text.count("was not renewed") >= 2)
        holding.cancel()


async def test_a_cancel_that_the_store_cannot_take_is_an_error(store, upstream):
    from translator.protocol.errors import StoreError

    async with running(store, upstream, roles=False) as gateway:
        rid = (await gateway.made(background=True))["id"]
        key = store.keys.state(rid)
        await store.connections.command("DEL", key)
        await store.connections.command("SET", key, "x", "PX", 60_000)
        with pytest.raises(StoreError):
            await unstored.cancel(store, rid, reason="client")


async def test_however_short_a_grace_is_its_renewals_are_few_and_in_time(gateway: Gateway):
    lease = ReaderLease(gateway.store, "resp_1", 0.001)
    assert lease._renew_s >= SHORTEST_S
    assert lease._grace_ms >= round(3 * lease._renew_s * 1000)
