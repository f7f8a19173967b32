import asyncio

from api import cancel
from tests.api.gateway import Gateway, data_of, running, types_of
from tests.ingest.server import text_stream
from tests.wait import wait_until

TEXT = text_stream("a", "b")


async def test_a_cancel_ends_the_run_its_streams_and_the_upstream(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate)
    async with gateway.creating(stream=True, background=True) as live:
        await live.until(b'"delta":"a"')
        second = asyncio.create_task(gateway.get(live.rid, "?stream=true"))
        reply = await gateway.ask("POST", f"/v1/responses/{live.rid}/cancel")
        assert (reply.status, reply.json["status"], reply.json["error"]) == (200, "cancelled", None)
        frames = await live.rest()
        assert data_of(frames[-2])["response"] == reply.json
        assert types_of(frames)[-1] == "response.incomplete"
        assert (await second).frames == frames
        assert (await gateway.get(live.rid)).json == reply.json
    await asyncio.wait_for(gateway.upstream.requests[0].left.wait(), 2)


async def test_a_second_cancel_and_one_after_the_end_change_nothing(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(gate, *TEXT)
    rid = (await gateway.made(background=True))["id"]
    first = await gateway.ask("POST", f"/v1/responses/{rid}/cancel")
    again = await gateway.ask("POST", f"/v1/responses/{rid}/cancel")
    assert first.status == again.status == 200
    assert first.body == again.body
    gateway.upstream.plays.clear()
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made(background=True))["id"]
    done = await gateway.until(rid, "completed")
    for _ in range(2):
        reply = await gateway.ask("POST", f"/v1/responses/{rid}/cancel")
        assert (reply.status, reply.json) == (200, done)


async def test_a_foreground_response_cannot_be_cancelled(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    made = await gateway.made()
    reply = await gateway.ask("POST", f"/v1/responses/{made['id']}/cancel")
    assert (reply.status, reply.error["type"]) == (400, "invalid_request_error")
    assert (await gateway.get(made["id"])).json == made


async def test_a_cancel_with_nobody_to_carry_it_out_says_so_within_a_bound(
    store, upstream, monkeypatch
):
    monkeypatch.setattr(cancel, "WAIT_S", 0.05)
    async with running(store, upstream, roles=False) as gateway:
        rid = (await gateway.made(background=True))["id"]
        for _ in range(2):
            reply = await gateway.ask("POST", f"/v1/responses/{rid}/cancel")
            assert (reply.status, reply.error["code"]) == (503, "cancel_pending")
            assert int(reply.headers["retry-after-ms"]) > 0
        state = await store.logs.state(rid)
        assert state is not None
        assert state.cancelled


async def test_a_response_deleted_while_its_cancel_waits_is_a_404(store, upstream):
    async with running(store, upstream, roles=False) as gateway:
        rid = (await gateway.made(background=True))["id"]
        cancelling = asyncio.create_task(gateway.ask("POST", f"/v1/responses/{rid}/cancel"))

        async def recorded():
            state = await store.logs.state(rid)
            return state is not None and state.cancelled

        await wait_until(recorded)
        await gateway.ask("DELETE", f"/v1/responses/{rid}")
        assert (await cancelling).status == 404


async def test_cancel_and_completion_race_to_one_end(gateway: Gateway):
    gateway.upstream.play(*TEXT)

    async def race(pause_s: float) -> None:
        async with gateway.creating(stream=True, background=True) as live:
            await live.until(b"response.created")
            await asyncio.sleep(pause_s)
            reply = await gateway.ask("POST", f"/v1/responses/{live.rid}/cancel")
            frames = await live.rest()
            assert reply.status == 200
            assert data_of(frames[-2])["response"] == reply.json
            assert (await gateway.get(live.rid)).json == reply.json

    await asyncio.gather(*(race(n / 2000) for n in range(20)))
