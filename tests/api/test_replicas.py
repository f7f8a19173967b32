"""Api processes without runners, and a process with them, on one store: they meet nowhere else."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from streams.store import Store
from tests.api.gateway import DONE, Gateway, data_of, running, types_of
from tests.frames import frame_of
from tests.ingest.server import text_stream
from tests.wait import wait_until

TEXT = text_stream("a", "b", "c")


@pytest.fixture
async def replicas(store, store_url, namespace, upstream) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two api processes; the runners are in a third one."""
    async with (
        Store.open(store_url, namespace) as second,
        Store.open(store_url, namespace) as third,
        running(store, upstream, roles=False) as one,
        running(second, upstream, roles=False) as other,
        running(third, upstream),
    ):
        yield one, other


async def test_two_halves_from_two_replicas_are_the_whole(replicas, upstream):
    one, other = replicas
    gate = asyncio.Event()
    upstream.play(*TEXT[:4], gate, *TEXT[4:])
    async with one.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        first = [frame_of(block) for block in live.body.split(b"\n\n")[:-1]]
        live.leave()
    last = data_of(first[-1])["sequence_number"]
    async with other.live(
        "GET", f"/v1/responses/{live.rid}?stream=true&starting_after={last}"
    ) as resumed:
        gate.set()
        rest = await resumed.rest()
    whole = (await one.get(live.rid, "?stream=true")).frames
    assert first + rest == whole
    assert types_of(whole)[-1] == "response.completed"


async def test_a_blocking_answer_and_a_refusal_come_from_another_process(replicas, upstream):
    one, other = replicas
    upstream.play(*TEXT)
    upstream.play(b"{}", status="422 Unprocessable Entity", headers={"content-length": "2"})
    made = await one.made()
    assert (await other.get(made["id"])).json == made
    for stream in (True, False):
        reply = await other.create(stream=stream)
        assert (reply.status, reply.error["type"]) == (422, "invalid_request_error")


async def test_a_cancel_at_one_replica_ends_streams_at_the_other(replicas, upstream):
    one, other = replicas
    upstream.play(*TEXT[:4], asyncio.Event())
    async with one.creating(stream=True, background=True) as live:
        await live.until(b'"delta":"a"')
        reply = await other.ask("POST", f"/v1/responses/{live.rid}/cancel")
        assert reply.json["status"] == "cancelled"
        assert data_of((await live.rest())[-2])["response"] == reply.json
    await asyncio.wait_for(upstream.requests[0].left.wait(), 10)


async def test_a_delete_at_one_replica_tells_readers_at_the_other(replicas, upstream):
    one, other = replicas
    upstream.play(*TEXT[:4], asyncio.Event())
    async with one.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        assert (await other.ask("DELETE", f"/v1/responses/{live.rid}")).status == 200
        *_, error, done = await live.rest()
        assert (data_of(error)["type"], done) == ("error", DONE)
    await asyncio.wait_for(upstream.requests[0].left.wait(), 10)


async def test_an_unstored_run_ends_with_its_client_at_another_process(replicas, upstream):
    one, _ = replicas
    upstream.play(*TEXT[:4], asyncio.Event())
    async with one.creating(stream=True, store=False) as live:
        await live.until(b'"delta":"a"')
        live.leave()
    await asyncio.wait_for(upstream.requests[0].left.wait(), 10)
    await wait_until(lambda: one.store.hub.feeds == 0)
