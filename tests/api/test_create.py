import asyncio

import pytest

from api import create
from streams import metrics
from streams.store import Store
from tests.api.gateway import DONE, Gateway, data_of, running, types_of
from tests.ingest.server import End, text_stream
from tests.wait import wait_until

TEXT = text_stream("Hel", "lo", usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3})


async def test_a_stream_is_framed_as_the_contract_says(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    reply = await gateway.create(stream=True)
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache, no-transform"
    assert reply.headers["x-accel-buffering"] == "no"
    assert "content-length" not in reply.headers
    assert "content-encoding" not in reply.headers
    assert reply.headers["x-request-id"].startswith("req_")
    *frames, done = reply.frames
    assert done == DONE
    for number, frame in enumerate(frames):
        event, data = frame.removesuffix(b"\n\n").split(b"\n")
        body = data_of(frame)
        assert event == b"event: " + body["type"].encode()
        assert data.startswith(b"data: {")
        assert body["sequence_number"] == number
    assert types_of(frames)[:2] == ["response.created", "response.in_progress"]
    assert types_of(frames)[-1] == "response.completed"


async def test_stream_blocking_answer_and_get_are_one_answer(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    streamed = await gateway.create(stream=True)
    final = data_of(streamed.frames[-2])["response"]
    assert (await gateway.get(final["id"])).json == final
    blocking = await gateway.create()
    assert (await gateway.get(blocking.json["id"])).body == blocking.body
    assert blocking.json["output"][0]["content"][0]["text"] == "Hello"
    assert blocking.json["usage"]["total_tokens"] == 3
    assert len(blocking.json) == len(final) >= 31


async def test_created_goes_out_before_the_upstream_has_said_a_word(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(gate, *TEXT)
    async with gateway.creating(stream=True) as live:
        await live.until(b"response.in_progress")
        gate.set()
        assert (await live.rest())[-1] == DONE


async def test_an_upstream_refusal_is_an_http_status_and_leaves_nothing(gateway: Gateway):
    body = b'{"error": {"message": "too long", "type": "invalid_request_error", "code": "c1", "param": "input"}}'
    gateway.upstream.play(
        body, status="400 Bad Request", headers={"content-length": str(len(body))}
    )
    for stream in (True, False):
        reply = await gateway.create(stream=stream)
        assert reply.status == 400
        assert reply.error == {
            "message": "too long",
            "type": "invalid_request_error",
            "code": "c1",
            "param": "input",
        }
        assert "x-should-retry" not in reply.headers
    assert await gateway.keys("resp_") == []


async def test_a_rate_limit_of_the_upstream_keeps_its_retry_after(gateway: Gateway):
    gateway.upstream.play(
        b"{}",
        status="429 Too Many Requests",
        headers={"content-length": "2", "retry-after": "7"},
    )
    for stream in (True, False):
        reply = await gateway.create(stream=stream)
        assert (reply.status, reply.headers["retry-after"]) == (429, "7")
        assert reply.error["code"] == "rate_limit_exceeded"


async def test_a_refused_key_of_ours_is_a_502_and_is_not_shown(gateway: Gateway):
    gateway.upstream.play(
        b"bad up-key", status="401 Unauthorized", headers={"content-length": "10"}
    )
    reply = await gateway.create(stream=True)
    assert reply.status == 502
    assert reply.error["code"] == "upstream_error"
    assert b"up-key" not in reply.body
    assert gateway.upstream.requests[0].headers["authorization"] == "Bearer up-key"


async def test_an_unreachable_upstream_is_a_502(gateway: Gateway):
    from translator.protocol.upstream import Upstream

    gateway.upstreams.listed = [Upstream("gone", "http://127.0.0.1:9/v1", "responses")]
    for stream in (True, False):
        reply = await gateway.create(stream=stream)
        assert reply.status == 502
        assert reply.error["type"] == "server_error"
        assert b"127.0.0.1" not in reply.body


async def test_a_failure_after_the_start_is_a_failed_response_not_an_http_error(gateway: Gateway):
    gateway.upstream.play(*TEXT[:4], End.CUT)
    blocking = await gateway.create()
    assert blocking.status == 200
    assert blocking.json["status"] == "failed"
    assert blocking.json["error"]["code"] == "server_error"
    streamed = await gateway.create(stream=True)
    assert types_of(streamed.frames)[-1] == "response.failed"


async def test_headers_do_not_wait_for_ever_for_a_queueing_upstream(gateway: Gateway, monkeypatch):
    monkeypatch.setattr(create, "OPEN_WAIT_S", 0.05)
    gate = asyncio.Event()
    gateway.upstream.play(gate, raw_head=b"HTTP/1.1 ")  # a head that does not end
    async with gateway.creating(stream=True) as live:
        await live.until(b"response.created")
        assert live.status == 200
        gate.set()
        assert types_of(await live.rest())[-1] == "response.failed"


async def test_background_answers_queued_at_once_and_runs_by_itself(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(gate, *TEXT)
    made = await gateway.made(background=True)
    assert made["status"] == "queued"
    assert made["background"] is True
    assert len(made) >= 31
    rid = made["id"]

    assert await gateway.until(rid, "in_progress") == made | {"status": "in_progress"}
    gate.set()
    await gateway.until(rid, "completed")


async def test_background_stream_begins_queued(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    reply = await gateway.create(stream=True, background=True)
    assert types_of(reply.frames)[:3] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert data_of(reply.frames[0])["response"]["status"] == "queued"


async def test_a_stored_stream_runs_on_when_its_client_leaves(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate, *TEXT[4:])
    for fields in ({"stream": True}, {"stream": True, "background": True}):
        gate.clear()
        async with gateway.creating(**fields) as live:
            await live.until(b"output_text.delta")
            live.leave()
        gate.set()
        replay = await gateway.get(live.rid, "?stream=true")
        assert types_of(replay.frames)[-1] == "response.completed"


async def test_a_blocking_client_that_leaves_does_not_end_a_stored_response(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(gate, *TEXT)
    asking = asyncio.create_task(gateway.create())
    await wait_until(lambda: gateway.upstream.requests)
    asking.cancel()
    gate.set()
    await wait_until(lambda: metrics.value("responses_ended_total", status="completed"))
    assert not gateway.upstream.requests[0].left.is_set()


async def test_no_upstream_for_the_model_is_a_400(gateway: Gateway):
    gateway.upstreams.listed = []
    reply = await gateway.create()
    assert (reply.status, reply.error["code"], reply.error["param"]) == (
        400,
        "model_not_found",
        "model",
    )


async def test_one_more_than_may_be_open_is_a_503_that_says_when(store, upstream):
    gate = asyncio.Event()
    upstream.play(gate, *TEXT)
    async with running(store, upstream, max_in_flight=1) as gateway:
        async with gateway.creating(stream=True) as live:
            await live.until(b"response.in_progress")
            reply = await gateway.create()
            assert reply.status == 503
            assert int(reply.headers["retry-after-ms"]) > 0
            assert reply.error["code"] == "overloaded"
            assert (await gateway.get(live.rid)).status == 200  # polls and resumes are not creates
            gate.set()
            await live.rest()
        assert (await gateway.create()).status == 200


async def test_what_this_process_does_not_do_itself_is_offered_to_others_at_once(store, upstream):
    async with running(store, upstream, roles=False) as gateway:
        await gateway.made(background=True)
        await store.writer.drained()
        for kind in ("rounds", "translate"):
            assert await store.connections.command("XLEN", store.keys.work(kind)) == 1


async def test_a_log_that_is_lost_under_a_blocking_create_is_no_reason_to_run_the_model_again(
    gateway: Gateway,
):
    gateway.upstream.play(*TEXT[:4], End.HANG)
    asking = asyncio.create_task(gateway.create())

    await gateway.ask("DELETE", f"/v1/responses/{await gateway.only()}")
    reply = await asking
    assert reply.status == 404
    assert reply.headers["x-should-retry"] == "false"


async def lose(store: Store, keys: list[bytes]) -> None:
    """The only response's keys go in one step, as in a flush; in a cluster the shared ones are at other nodes."""
    await store.connections.command("DEL", *(key for key in keys if b"{" in key))
    for key in keys:
        await store.connections.command("DEL", key)


@pytest.mark.parametrize("everything", [True, False])
async def test_a_store_that_lost_the_response_is_no_404_for_a_waiting_create(
    store, upstream, everything, monkeypatch
):
    monkeypatch.setattr("streams.feed.LOCAL_POLL_S", 0.1)
    async with running(store, upstream) as gateway:
        upstream.play(*TEXT[:4], End.HANG)
        asking = asyncio.create_task(gateway.create())
        rid = await gateway.only()
        lost = await gateway.keys("") if everything else [store.keys.state(rid).encode()]
        await lose(store, lost)
        reply = await asking
        assert (reply.status, reply.error["type"]) == (500, "server_error")
        assert reply.error["code"] == "response_lost"
        assert reply.headers["x-should-retry"] == "false"


async def test_a_store_that_lost_the_response_ends_a_create_that_streams(
    store, upstream, monkeypatch
):
    monkeypatch.setattr("streams.feed.LOCAL_POLL_S", 0.1)
    async with running(store, upstream) as gateway:
        upstream.play(*TEXT[:4], End.HANG)
        async with gateway.creating(stream=True) as live:
            await live.until(b"output_text.delta")
            await lose(store, await gateway.keys(""))
            *_, error, done = await live.rest()
            assert done == DONE
            assert data_of(error)["error"]["type"] == "server_error"
            assert data_of(error)["code"] == "response_lost"


async def test_ids_can_be_asked_for_at_create(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    reply = await gateway.ask(
        "POST", "/v1/responses?sse_ids=true", {"model": "m", "input": "hi", "stream": True}
    )
    frames = reply.frames
    assert frames[0].startswith(b"id: 0\nretry: 1000\nevent: response.created\n")
    assert frames[1].startswith(b"id: 1\nevent: ")
    assert frames[-1] == DONE


async def test_ids_can_be_configured(store, upstream):
    upstream.play(*TEXT)
    async with running(store, upstream, sse_ids=True) as gateway:
        reply = await gateway.create(stream=True)
        assert reply.body.startswith(b"id: 0\nretry: 1000\n")


async def test_creates_are_counted_by_mode_and_refusals_by_status(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    before = metrics.value("responses_created_total", mode="blocking")
    refused = metrics.value("responses_refused_total", status="400")
    await gateway.create()
    await gateway.create(input=5)
    assert metrics.value("responses_created_total", mode="blocking") == before + 1
    assert metrics.value("responses_refused_total", status="400") == refused + 1


@pytest.mark.parametrize("retry_after", ["7", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_retry_after_is_passed_on(retry_after):
    end = {"how": "http", "error": {"status": 429, "message": "m"}, "retry_after": retry_after}
    assert create.upstream_refusal(end).headers == {"retry-after": retry_after}


@pytest.mark.parametrize("retry_after", ["", "a\r\nset-cookie: b", "ü", "x" * 101])
def test_a_retry_after_that_is_no_header_value_is_not(retry_after):
    end = {"how": "http", "error": {"status": 429, "message": "m"}, "retry_after": retry_after}
    assert create.upstream_refusal(end).headers == {}


def test_a_refusal_without_an_error_is_still_one():
    refusal = create.upstream_refusal({"how": "eof"})
    assert (refusal.status, refusal.code) == (502, "upstream_error")
