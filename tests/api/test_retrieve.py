import asyncio

import pytest

from tests.api.gateway import DONE, Gateway, data_of, running, types_of
from tests.frames import frame_of
from tests.ingest.server import text_stream
from tests.wait import wait_until

TEXT = text_stream("a", "b", "c")
HUGE = "9" * 400

REFUSED = {"beyond", "negative", "garbage", "huge", "float", "empty", "plus"}


def cursors(last: int) -> dict[str, str | None]:
    """Every kind of cursor, for a response whose last event is `last`."""
    return {
        "none": None,
        "0": "0",
        "mid": str(last // 2),
        "last": str(last),
        "beyond": str(last + 1),
        "negative": "-1",
        "garbage": "x",
        "huge": HUGE,
        "float": "1.0",
        "empty": "",
        "plus": "%2B1",
    }


def after(text: str | None) -> int:
    return -1 if text is None else int(text)


async def test_every_cursor_of_a_finished_response(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    whole = (await gateway.create(stream=True)).frames
    rid = data_of(whole[0])["response"]["id"]
    for kind, text in cursors(len(whole) - 2).items():
        query = "?stream=true" + ("" if text is None else f"&starting_after={text}")
        reply = await gateway.get(rid, query)
        if kind in REFUSED:
            assert (reply.status, reply.error["param"]) == (400, "starting_after"), kind
            assert HUGE not in reply.error["message"]
        else:
            assert reply.status == 200
            assert reply.frames == whole[after(text) + 1 :], kind


async def test_every_cursor_of_a_running_response(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate, *TEXT[4:])
    async with gateway.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        last = data_of(live.body.split(b"\n\n")[-2])["sequence_number"]
        readers = {}
        for kind, text in cursors(last).items():
            query = "?stream=true" + ("" if text is None else f"&starting_after={text}")
            if kind in REFUSED:
                reply = await gateway.get(live.rid, query)
                assert (reply.status, reply.error["param"]) == (400, "starting_after"), kind
            else:
                readers[text] = asyncio.create_task(gateway.get(live.rid, query))
        gate.set()
        whole = await live.rest()
        for text, reader in readers.items():
            assert (await reader).frames == whole[after(text) + 1 :], text


async def test_every_cursor_of_an_expired_response_is_a_404(store, upstream):
    upstream.play(*TEXT)
    async with running(store, upstream, retention_s=0.2) as gateway:
        rid = (await gateway.made())["id"]

        async def gone():
            return (await gateway.get(rid)).status == 404

        await wait_until(gone)
        for kind, text in cursors(8).items():
            query = "?stream=true" + ("" if text is None else f"&starting_after={text}")
            reply = await gateway.get(rid, query)
            wanted = 400 if kind in REFUSED - {"beyond"} else 404
            assert reply.status == wanted, kind
            assert reply.error["type"] == "invalid_request_error"


async def test_every_cursor_of_a_lost_log_is_an_error_and_never_a_stream(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    made = await gateway.made()
    rid = made["id"]
    last = len((await gateway.get(rid, "?stream=true")).frames) - 2
    await gateway.store.connections.command("DEL", gateway.store.keys.output(rid))
    for kind, text in cursors(last).items():
        query = "?stream=true" + ("" if text is None else f"&starting_after={text}")
        reply = await gateway.get(rid, query)
        if kind == "last":
            assert reply.frames == [DONE]  # nothing comes after it, so nothing is missing
            continue
        assert reply.status == (400 if kind in REFUSED else 410), kind
        assert reply.error["code"] in (None, "events_lost")
    assert (await gateway.get(rid)).status == 410


async def test_a_trimmed_log_serves_what_it_still_has_and_nothing_with_a_hole(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    made = await gateway.made()
    whole = (await gateway.get(made["id"], "?stream=true")).frames
    key = gateway.store.keys.output(made["id"])
    await gateway.store.connections.command("XTRIM", key, "MAXLEN", len(whole) - 1 - 3)
    for cursor in (None, 0, 1):
        query = "?stream=true" + ("" if cursor is None else f"&starting_after={cursor}")
        reply = await gateway.get(made["id"], query)
        assert (reply.status, reply.error["code"]) == (410, "events_lost")
    reply = await gateway.get(made["id"], "?stream=true&starting_after=2")
    assert reply.frames == whole[3:]
    assert (await gateway.get(made["id"])).json == made


async def test_a_log_trimmed_while_it_runs_shows_no_response_of_a_moment_ago(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate, *TEXT[4:])
    made = await gateway.made(background=True)
    await wait_until(lambda: has_frames(gateway, made["id"], 4))
    await gateway.store.connections.command(
        "XTRIM", gateway.store.keys.output(made["id"]), "MAXLEN", 1
    )
    assert (await gateway.get(made["id"])).status == 410
    gate.set()


async def has_frames(gateway: Gateway, rid: str, count: int) -> bool:
    state = await gateway.store.logs.state(rid)
    return state is not None and state.seq >= count - 1


async def test_a_log_lost_under_a_reader_ends_its_stream_with_both_error_shapes(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate, *TEXT[4:])
    async with gateway.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        await gateway.ask("DELETE", f"/v1/responses/{live.rid}")
        gate.set()
        *_, error, done = await live.rest()
        assert done == DONE
        body = data_of(error)
        assert error.startswith(b"event: error\n")
        assert body["type"] == "error"
        assert (body["code"], body["param"]) == (body["error"]["code"], body["error"]["param"])
        assert body["message"] == body["error"]["message"]
        assert "not found" in body["message"]
        assert body["sequence_number"] == 5


async def test_a_resumption_cut_before_its_first_event_is_resumed_at_the_same_place(
    gateway: Gateway,
):
    """Its client has no newer number than the one it came with; nothing here has moved on either."""
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate, *TEXT[4:])
    rid = (await gateway.made(background=True))["id"]
    async with gateway.live("GET", f"/v1/responses/{rid}?stream=true") as live:
        await live.until(b"response.output_text.delta")
        seen = [frame_of(block) for block in live.body.split(b"\n\n")[:-1]]
    last = data_of(seen[-1])["sequence_number"]
    for _ in range(3):
        async with gateway.live("GET", f"/v1/responses/{rid}?stream=true&starting_after={last}"):
            pass
    gate.set()
    await gateway.until(rid, "completed")
    rest = (await gateway.get(rid, f"?stream=true&starting_after={last}")).body
    assert b"".join(seen) + rest == (await gateway.get(rid, "?stream=true")).body


async def test_starting_after_means_nothing_without_stream(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    made = await gateway.made()
    for query in ("?starting_after=x", "?starting_after=-1", "?stream=false&starting_after=99"):
        reply = await gateway.get(made["id"], query, headers={"last-event-id": "x"})
        assert reply.json == made


@pytest.mark.parametrize(
    "query", ["?stream=yes", "?stream=1", "?stream=", "?include_obfuscation=x&stream=true"]
)
async def test_a_boolean_that_is_none_is_a_400(gateway: Gateway, query):
    gateway.upstream.play(*TEXT)
    reply = await gateway.get((await gateway.made())["id"], query)
    assert reply.status == 400
    assert reply.error["param"] == query[1:].partition("=")[0]


@pytest.mark.parametrize(
    "query",
    [
        "?include%5B%5D=reasoning.encrypted_content&include%5B%5D=message.output_text.logprobs",
        "?include[]=reasoning.encrypted_content",
        "?include=reasoning.encrypted_content,message.output_text.logprobs",
        "?include=reasoning.encrypted_content&include=web_search_call.action.sources",
        "?include_obfuscation=false",
        "?stream=False",
    ],
)
async def test_every_form_of_a_list_is_taken(gateway: Gateway, query):
    gateway.upstream.play(*TEXT)
    made = await gateway.made()
    assert (await gateway.get(made["id"], query)).json == made


async def test_an_unknown_include_is_a_400(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    made = await gateway.made()
    reply = await gateway.get(made["id"], "?include[]=everything")
    assert (reply.status, reply.error["param"]) == (400, "include")


async def test_ids_come_when_asked_for_and_end_with_204(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    whole = (await gateway.create(stream=True)).frames
    rid, last = data_of(whole[0])["response"]["id"], len(whole) - 2

    async def resumed(query="", **headers):
        reply = await gateway.get(
            rid,
            "?stream=true" + query,
            headers={k.replace("_", "-"): v for k, v in headers.items()},
        )
        assert reply.status == 200
        return reply.frames

    def with_ids(first):
        retry = b"retry: 1000\n"
        return [
            b"id: %d\n%b%b" % (n, retry if n == first else b"", whole[n])
            for n in range(first, last + 1)
        ] + [DONE]

    assert await resumed("&sse_ids=true") == with_ids(0)
    assert await resumed("&sse_ids=true&starting_after=2") == with_ids(3)
    assert await resumed(last_event_id="0") == with_ids(1)
    assert await resumed("&starting_after=1", last_event_id="4") == with_ids(5)
    assert await resumed("&starting_after=5", last_event_id="2") == with_ids(6)
    assert await resumed(last_event_id="") == with_ids(0)
    assert await resumed("&starting_after=2") == whole[3:]
    assert await resumed(f"&starting_after={last}") == [DONE]
    for query, headers in (
        ("", {"last-event-id": str(last)}),
        (f"&sse_ids=true&starting_after={last}", {}),
    ):
        reply = await gateway.get(rid, "?stream=true" + query, headers=headers)
        assert (reply.status, reply.body) == (204, b"")
        assert reply.headers["x-request-id"]


@pytest.mark.parametrize("value", ["-1", "x", "1.5", HUGE, "10000"])
async def test_a_last_event_id_that_is_not_ours_is_refused_not_replayed(gateway: Gateway, value):
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made())["id"]
    reply = await gateway.get(rid, "?stream=true", headers={"last-event-id": value})
    assert (reply.status, reply.error["param"]) == (400, "Last-Event-ID")


async def test_a_response_that_has_not_one_frame_yet_can_be_read(store, upstream):
    async with running(store, upstream, roles=False) as gateway:
        made = await gateway.made(background=True, metadata={"k": "v"})
        assert (await gateway.get(made["id"])).json == made
        reply = await gateway.get(made["id"], "?stream=true&starting_after=0")
        assert (reply.status, reply.error["param"]) == (400, "starting_after")
        await store.connections.command("DEL", store.keys.input(made["id"]))
        assert (await gateway.get(made["id"])).status == 410


async def test_many_readers_of_one_response_read_the_same(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate, *TEXT[4:])
    async with gateway.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        readers = [
            asyncio.create_task(gateway.get(live.rid, "?stream=true&starting_after=1"))
            for _ in range(20)
        ]
        await wait_until(lambda: gateway.store.hub.feeds == 1)
        gate.set()
        whole = await live.rest()
    for reply in await asyncio.gather(*readers):
        assert reply.frames == whole[2:]
    assert types_of(whole)[-1] == "response.completed"
    await wait_until(lambda: gateway.store.hub.feeds == 0)
