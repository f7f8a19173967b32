import asyncio
import gzip
import secrets
import sys
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace

import orjson
import pytest

from ingest.attempt import APPEND_ENTRIES, PENDING_BYTES
from ingest.run import Round, RoundLimits
from ingest.upstream import UpstreamClient
from streams import metrics
from streams.scripts.outputs import acquire, commit
from streams.scripts.responses import cancel, delete
from streams.scripts.rounds import claim_round, heartbeat_round, lost
from streams.store import Store
from tests.ingest.made import entries, made, request_data, said
from tests.ingest.server import End, Server, text_stream
from tests.stall import longest_stall
from tests.wait import wait_until
from translator.protocol.upstream import Upstream

LIMITS = RoundLimits(
    lease_ms=3_000, idle_timeout_s=10, total_timeout_s=20, max_in_bytes=32 * 1024 * 1024
)
QUICK = replace(LIMITS, lease_ms=300)  # beats every 100 ms


@pytest.fixture
async def client() -> AsyncIterator[UpstreamClient]:
    async with UpstreamClient() as opened:
        yield opened


class Runner:
    """Runs rounds of responses against the scripted upstream."""

    def __init__(self, store: Store, client: UpstreamClient, server: Server) -> None:
        self.store, self.client, self.server = store, client, server
        self.upstream: Upstream | None = Upstream("main", server.url, "responses", "sk-1")

    def round(self, rid: str, limits: RoundLimits = LIMITS) -> Round:
        return Round(self.store, self.client, lambda _: self.upstream, limits, rid)

    async def run(self, rid: str, limits: RoundLimits = LIMITS) -> list[tuple[str, bytes]]:
        await self.round(rid, limits).run()
        return await said(self.store, rid)


@pytest.fixture
def runner(store: Store, client: UpstreamClient, server: Server) -> Runner:
    return Runner(store, client, server)


def end_of(log: list[tuple[str, bytes]]) -> dict:
    kind, data = log[-1]
    assert kind == "round_end"
    return orjson.loads(data)


def kinds(log: list[tuple[str, bytes]]) -> list[str]:
    return [kind for kind, _ in log]


async def test_a_round_is_claimed_streamed_and_ended(runner: Runner, store: Store) -> None:
    blocks = text_stream("Hel", "lo")
    runner.server.play(*blocks)
    rid = await made(store)
    log = await runner.run(rid)
    assert kinds(log) == ["attempt", "opened", *["frame"] * len(blocks), "round_end"]
    assert [data + b"\n\n" for kind, data in log if kind == "frame"] == blocks
    assert end_of(log) == {"how": "ok"}
    assert runner.server.requests[0].body == b'{"model":"m","stream":true}'
    state = await store.logs.state(rid)
    assert state is not None
    assert (state.rstate, state.ilease, state.opened) == ("ended", 0, True)
    first = (await entries(store, rid))[3]
    assert (first.round, first.attempt) == (1, 1)


async def test_frames_are_in_the_log_while_the_upstream_pauses(runner: Runner, store) -> None:
    go_on = asyncio.Event()
    blocks = text_stream("a")
    runner.server.play(*blocks[:2], go_on, *blocks[2:])
    rid = await made(store)
    running = asyncio.create_task(runner.round(rid).run())
    await wait_until(lambda: log_has(store, rid, "frame", 2))
    go_on.set()
    await running
    assert end_of(await said(store, rid)) == {"how": "ok"}


async def log_has(store: Store, rid: str, kind: str, times: int) -> bool:
    return [k for k, _ in await said(store, rid)].count(kind) >= times


async def test_a_round_that_a_create_claims_is_streamed_like_any_other(runner, store) -> None:
    runner.server.play(*text_stream("a"))
    rid = f"resp_{secrets.token_hex(16)}"
    one = runner.round(rid)
    claim = one.asked()
    running = asyncio.create_task(one.run())
    await made(store, rid=rid, claim=claim)
    await running
    log = await said(store, rid)
    assert (kinds(log)[0], end_of(log)) == ("attempt", {"how": "ok"})


async def test_what_is_sent_upstream_is_not_held_while_the_answer_comes(runner, store) -> None:
    go_on = asyncio.Event()
    blocks = text_stream("a")
    runner.server.play(*blocks[:2], go_on, *blocks[2:])
    rid = f"resp_{secrets.token_hex(16)}"
    one = runner.round(rid)
    running = asyncio.create_task(one.run())
    data, body = request_data(rid), bytes(1000).replace(b"\0", b"1")
    await made(store, rid=rid, data=data, round_body=body, claim=one.asked())
    await wait_until(lambda: log_has(store, rid, "frame", 2))
    nobody_has_it = bytes(999)
    assert sys.getrefcount(data) == sys.getrefcount(nobody_has_it)
    assert sys.getrefcount(body) == sys.getrefcount(nobody_has_it)
    go_on.set()
    await running


async def test_entries_are_handed_over_as_the_log_holds_them(runner: Runner, store) -> None:
    runner.server.play(*text_stream("a", "b"))
    rid = await made(store)
    heard: list = []

    class Follower:
        def entries_appended(self, entries) -> None:
            heard.extend(entries)

        def upstream_opened(self) -> None:
            heard.append("opened")

        def ingesting_changed(self) -> None:
            raise AssertionError

    follower = Follower()
    store.handover.subscribe_input(rid, follower)
    await runner.run(rid)
    store.handover.unsubscribe_input(rid, follower)
    attempt, *rest = (await entries(store, rid))[2:]
    assert heard == [attempt, "opened", *rest]


async def test_an_answer_that_begins_at_once_is_one_append(runner: Runner, store: Store) -> None:
    go_on = asyncio.Event()
    blocks = text_stream("a")
    runner.server.play(b"".join(blocks[:3]), go_on, *blocks[3:])
    rid = await made(store)
    running = asyncio.create_task(runner.round(rid).run())
    await wait_until(lambda: log_has(store, rid, "frame", 3))
    opened, *frames = (await entries(store, rid))[3:]
    assert [opened.kind, *(frame.kind for frame in frames)] == ["opened", *["frame"] * 3]
    go_on.set()
    await running


async def test_that_the_upstream_has_opened_is_in_the_log_before_its_first_byte(runner, store):
    go_on = asyncio.Event()
    runner.server.play(go_on, *text_stream("a"))
    rid = await made(store)
    running = asyncio.create_task(runner.round(rid).run())
    await wait_until(lambda: log_has(store, rid, "opened", 1))
    assert kinds(await said(store, rid)) == ["attempt", "opened"]
    go_on.set()
    await running


@pytest.mark.parametrize("split", [1, 3, 64])
async def test_any_split_of_the_bytes_gives_the_same_blocks(runner, store, split: int) -> None:
    raw = b"".join(text_stream("é" * 20, "b"))
    runner.server.play(*(raw[at : at + split] for at in range(0, len(raw), split)))
    log = await runner.run(await made(store))
    assert b"".join(data + b"\n\n" for kind, data in log if kind == "frame") == raw


async def test_a_large_burst_is_appended_in_batches(runner: Runner, store: Store) -> None:
    blocks = text_stream(*("x" * 20 for _ in range(3 * APPEND_ENTRIES)))
    runner.server.play(b"".join(blocks))
    log = await runner.run(await made(store))
    assert kinds(log).count("frame") == len(blocks)
    assert end_of(log) == {"how": "ok"}


async def test_an_upstream_faster_than_the_log_is_held_back(runner: Runner, store: Store) -> None:
    block = b"data: " + b"x" * 700_000 + b"\n\n"
    runner.server.play(*[block] * 12, b"data: [DONE]\n\n")
    rid = await made(store)
    carried = runner.round(rid)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, store.writer.pending_bytes)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await carried.run()
    watching.cancel()
    assert kinds(await said(store, rid)).count("frame") == 13
    assert most < 2 * PENDING_BYTES


async def test_nothing_after_the_end_marker_is_waited_for(runner: Runner, store: Store) -> None:
    runner.server.play(*text_stream("a"), b"data: [DONE]\n\ndata: more\n\n", End.HANG)
    rid = await made(store)
    running = asyncio.create_task(runner.round(rid).run())
    await wait_until(lambda: log_has(store, rid, "round_end", 1), 1)
    async with asyncio.timeout(1):
        await runner.server.requests[0].left.wait()
        await running
    log = await said(store, rid)
    assert end_of(log) == {"how": "ok"}
    assert b"[DONE]" not in log[-2][1]  # the terminal event was the end


@pytest.mark.parametrize(
    ("steps", "how", "frames"),
    [
        ([b'data: {"a":1}\n\n'], "eof", 1),
        ([b'data: {"a":1}\n\ndata: {"b"'], "eof", 1),  # a torn tail is dropped
        ([b'data: {"a":1}\n\ndata: {"b":2}'], "eof", 2),  # a whole one is not
        ([b'data: {"a":1}\n\ndata: [DONE]'], "ok", 2),
        ([b'{"object":"response",\n"status":"completed"}'], "ok", 1),
        ([b'data: {"a":1}\n\ndata: {"b":', End.CUT], "reset", 1),
        ([b'data: {"a":1}\n\ndata: {"b":2}', End.RESET], "reset", 1),
        ([b"<html>no stream</html>"], "eof", 0),
        ([], "eof", 0),
    ],
)
async def test_how_a_body_ends(runner: Runner, store: Store, steps, how: str, frames: int) -> None:
    runner.server.play(*steps)
    log = await runner.run(await made(store))
    assert kinds(log) == ["attempt", "opened", *["frame"] * frames, "round_end"]
    assert end_of(log)["how"] == how


async def test_a_refusal_is_the_end_and_stands_in_the_state(runner: Runner, store: Store) -> None:
    runner.server.play(
        b'{"error":{"message":"no"}}', status="429 Too Many Requests", headers={"retry-after": "3"}
    )
    rid = await made(store)
    log = await runner.run(rid)
    assert kinds(log) == ["attempt", "round_end"]
    end = end_of(log)
    assert (end["how"], end["error"]["status"], end["retry_after"]) == ("http", 429, "3")
    state = await store.logs.state(rid)
    assert state is not None
    assert orjson.loads(state.refusal) == end


async def test_an_upstream_that_was_taken_out_of_the_settings(runner: Runner, store) -> None:
    runner.upstream = None
    assert end_of(await runner.run(await made(store)))["how"] == "refused"


async def test_a_fault_of_ours_ends_the_round_too(runner: Runner, store: Store, caplog) -> None:
    def resolve(_: str) -> Upstream:
        raise ZeroDivisionError

    rid = await made(store)
    await Round(store, runner.client, resolve, LIMITS, rid).run()
    end = end_of(await said(store, rid))
    assert end["how"] == "reset"
    assert "ZeroDivisionError" in caplog.text


async def test_silence_is_a_time_out(runner: Runner, store: Store) -> None:
    runner.server.play(b'data: {"a":1}\n\n', End.HANG)
    log = await runner.run(await made(store), replace(QUICK, idle_timeout_s=0.2))
    assert end_of(log)["how"] == "timeout"
    assert end_of(log)["error"]["status"] == 504
    await asyncio.wait_for(runner.server.requests[0].left.wait(), 1)


async def test_a_stream_that_never_ends_is_a_time_out(runner: Runner, store: Store) -> None:
    class Endless(list):
        def __iter__(self):
            while True:
                yield b'data: {"a":1}\n\n'
                yield tick

    tick = asyncio.Event()
    beats = asyncio.create_task(beat(tick))
    runner.server.play()
    runner.server.plays[0].steps = Endless()
    log = await runner.run(await made(store), replace(QUICK, total_timeout_s=0.4))
    beats.cancel()
    assert end_of(log)["how"] == "timeout"


async def beat(event: asyncio.Event) -> None:
    """One step of a stream every 10 ms: whoever waits goes on, whoever comes later waits."""
    while True:
        event.set()
        event.clear()
        await asyncio.sleep(0.01)


async def test_the_lease_outlives_a_long_silence(runner: Runner, store: Store) -> None:
    go_on = asyncio.Event()
    runner.server.play(go_on, *text_stream("a"))
    rid = await made(store)
    running = asyncio.create_task(runner.round(rid, QUICK).run())
    await wait_until(lambda: log_has(store, rid, "opened", 1))
    first = await store.logs.state(rid)
    assert first is not None

    async def renewed_often() -> bool:
        state = await store.logs.state(rid)
        assert state is not None
        assert state.ilease > await store.logs.now()
        return state.ilease > first.ilease + 2 * QUICK.lease_ms

    await wait_until(renewed_often)
    go_on.set()
    await running
    assert end_of(await said(store, rid)) == {"how": "ok"}


@pytest.mark.parametrize("talking", [False, True])
async def test_a_cancel_closes_the_upstream_within_a_second(runner, store, talking) -> None:
    tick = asyncio.Event()
    beats = asyncio.create_task(beat(tick) if talking else asyncio.sleep(0))
    runner.server.play(*[b'data: {"a":1}\n\n', tick] * 1000)
    rid = await made(store)
    running = asyncio.create_task(runner.round(rid).run())
    await wait_until(lambda: log_has(store, rid, "frame", 1))
    await store.writer.do(cancel(store.keys, rid, reason="client"))
    async with asyncio.timeout(1):
        await runner.server.requests[0].left.wait()
    await running
    beats.cancel()
    log = await said(store, rid)
    assert kinds(log)[-1] == "round_end"
    assert "cancel" in kinds(log)


async def test_a_delete_closes_the_upstream_and_writes_nothing(runner: Runner, store) -> None:
    runner.server.play(b'data: {"a":1}\n\n', End.HANG)
    rid = await made(store)
    before = metrics.value("rounds_stopped_total", reason="gone")
    running = asyncio.create_task(runner.round(rid).run())
    await wait_until(lambda: log_has(store, rid, "frame", 1))
    await store.writer.do(delete(store.keys, rid))
    async with asyncio.timeout(1):
        await runner.server.requests[0].left.wait()
    await running
    assert await store.logs.read_input(rid, 0) == []
    assert metrics.value("rounds_stopped_total", reason="gone") == before + 1


async def test_an_attempt_that_was_declared_lost_is_fenced_off(runner: Runner, store) -> None:
    go_on = asyncio.Event()
    runner.server.play(b'data: {"a":1}\n\n', go_on, b'data: {"b":1}\n\n', End.HANG)
    rid = await made(store)
    before = metrics.value("rounds_stopped_total", reason="fenced")
    running = asyncio.create_task(runner.round(rid).run())
    await wait_until(lambda: log_has(store, rid, "frame", 1))
    fence = await store.connections.command("HGET", store.keys.state(rid), "ifence")
    await store.writer.do(heartbeat_round(store.keys, rid, fence=fence.decode(), lease_ms=0))
    await store.writer.do(lost(store.keys, rid, token="t"))
    go_on.set()
    async with asyncio.timeout(1):
        await runner.server.requests[0].left.wait()
    await running
    log = await said(store, rid)
    assert kinds(log) == ["attempt", "opened", "frame", "round_end"]
    assert end_of(log) == {"how": "lost"}
    assert metrics.value("rounds_stopped_total", reason="fenced") == before + 1


@pytest.mark.parametrize("size", [50_000, 500])
async def test_a_log_that_is_full_says_so_and_the_upstream_is_closed(runner, store, size) -> None:
    block = b'data: {"a":"' + b"x" * size + b'"}\n\n'
    runner.server.play(*[block] * (100_000 // size + 20), End.HANG)
    rid = await made(store)
    log = await runner.run(rid, replace(LIMITS, max_in_bytes=100_000))
    assert end_of(log)["how"] == "too_large"
    assert sum(len(data) for _, data in log) < 102_000
    await asyncio.wait_for(runner.server.requests[0].left.wait(), 1)


async def test_a_log_that_is_full_at_the_very_end_says_so_too(runner: Runner, store) -> None:
    block = b'data: {"a":"' + b"x" * 1_500 + b'"}\n\n'
    runner.server.play(block * 3 + b"data: [DONE]\n\n")
    log = await runner.run(await made(store), replace(LIMITS, max_in_bytes=3_000))
    assert kinds(log) == ["attempt", "opened", "round_end"]
    assert end_of(log)["how"] == "too_large"


async def test_a_block_without_end_is_a_clear_end(runner: Runner, store, monkeypatch) -> None:
    monkeypatch.setattr("translator.protocol.sse.Blocks.__init__.__defaults__", (10_000,))
    runner.server.play(b"data: " + b"x" * 20_000, End.HANG)
    end = end_of(await runner.run(await made(store)))
    assert end["how"] == "too_large"
    assert end["error"]["code"] == "upstream_protocol_error"


async def test_a_hint_too_much_changes_nothing(runner: Runner, store: Store) -> None:
    runner.server.play(*text_stream("a"))
    rid = await made(store)
    log = await runner.run(rid)
    assert await runner.run(rid) == log
    await runner.round("resp_" + "0" * 32).run()
    assert len(runner.server.requests) == 1


async def test_two_takers_make_one_attempt(runner: Runner, store: Store) -> None:
    runner.server.play(*text_stream("a"))
    rid = await made(store)
    await asyncio.gather(*(runner.round(rid).run() for _ in range(5)))
    assert kinds(await said(store, rid)).count("attempt") == 1
    assert len(runner.server.requests) == 1


async def test_a_round_under_a_live_lease_is_not_taken(runner: Runner, store: Store) -> None:
    rid = await made(store)
    await store.writer.do(claim_round(store.keys, rid, round=1, token="a", lease_ms=5_000))
    log = await runner.run(rid)
    assert kinds(log) == ["attempt"]


async def test_a_log_without_its_round_is_left_alone(runner: Runner, store: Store) -> None:
    rid = await made(store)
    await store.connections.command("DEL", store.keys.input(rid))
    refused = metrics.value("claims_refused_total", reason="GAP")
    await runner.round(rid).run()
    assert metrics.value("claims_refused_total", reason="GAP") == refused + 1
    assert runner.server.requests == []


async def test_the_body_of_a_later_round_is_found_behind_many_entries(runner, store) -> None:
    runner.server.play(*text_stream(*"abcdefgh" * 60))
    rid = await made(store)
    await runner.run(rid)
    lease = await store.writer.do(acquire(store.keys, rid, token="t", lease_ms=1_000))
    last = (await entries(store, rid))[-1].n
    await store.writer.do(
        commit(
            store.keys,
            rid,
            fence=lease.fence,
            expected_cursor=0,
            cursor=last,
            first_seq=0,
            frames=[b"x"],
            digest="d",
            lease_ms=1_000,
            retain_ms=1_000,
            max_out_bytes=1 << 20,
            next_round=(2, b'{"round":2}'),
        )
    )
    await runner.run(rid)
    assert runner.server.requests[-1].body == b'{"round":2}'
    assert (await entries(store, rid))[-1].round == 2


async def test_a_round_that_is_given_up_is_lost_at_once(runner: Runner, store: Store) -> None:
    runner.server.play(b'data: {"a":1}\n\n', End.HANG)
    rid = await made(store)
    carried = runner.round(rid)
    running = asyncio.create_task(carried.run())
    await wait_until(lambda: log_has(store, rid, "frame", 1))
    carried.lose()
    async with asyncio.timeout(1):
        await running
    state = await store.logs.state(rid)
    assert state is not None
    assert state.rstate == "lost"
    assert end_of(await said(store, rid)) == {"how": "lost"}


async def test_a_round_given_up_before_it_was_claimed_asks_nobody(runner: Runner, store) -> None:
    rid = await made(store)
    carried = runner.round(rid)
    carried.lose()
    await carried.run()
    assert runner.server.requests == []
    assert end_of(await said(store, rid)) == {"how": "lost"}


async def test_a_round_that_is_gone_cannot_be_lost(runner: Runner, store: Store) -> None:
    """The response is deleted while a drain gives the round up; nothing is written any more."""
    runner.server.play(b'data: {"a":1}\n\n', End.HANG)
    rid = await made(store)
    carried = runner.round(rid)
    running = asyncio.create_task(carried.run())
    await wait_until(lambda: log_has(store, rid, "frame", 1))
    await store.writer.do(delete(store.keys, rid))
    carried.lose()
    async with asyncio.timeout(1):
        await running
    assert await store.logs.state(rid) is None


async def test_a_round_that_has_ended_is_not_lost_while_its_connection_lingers(
    runner: Runner, store: Store
) -> None:
    runner.server.play(*text_stream("a"), End.HANG)
    rid = await made(store)
    carried = runner.round(rid)
    running = asyncio.create_task(carried.run())
    await wait_until(lambda: log_has(store, rid, "round_end", 1))
    before = metrics.value("rounds_ended_total", how="ok")
    carried.lose()
    await running
    assert end_of(await said(store, rid)) == {"how": "ok"}
    assert metrics.value("rounds_ended_total", how="ok") == before + 1


@pytest.mark.parametrize("noise", [b": x\n\n", b"\n", b"event: x\n\n"])
@pytest.mark.parametrize("packed", [True, False])
async def test_a_body_of_comments_alone_ends_and_stops_nobody(
    runner: Runner, store: Store, monkeypatch, noise: bytes, packed: bool
) -> None:
    monkeypatch.setattr("ingest.run.IGNORED_BYTES", 4 << 20)
    body = noise * (20_000_000 // len(noise))
    headers = {"content-encoding": "gzip"} if packed else {}
    runner.server.play(gzip.compress(body, 1) if packed else body, End.HANG, headers=headers)
    rid = await made(store)
    watching = asyncio.create_task(longest_stall())
    log = await runner.run(rid)
    watching.cancel()
    assert await watching < 0.5
    assert kinds(log) == ["attempt", "opened", "round_end"]
    end = end_of(log)
    assert (end["how"], end["error"]["code"]) == ("too_large", "upstream_protocol_error")


async def test_keep_alives_do_not_end_a_round(runner: Runner, store: Store) -> None:
    step = asyncio.Event()
    beats = asyncio.create_task(beat(step))
    runner.server.play(*[b": ping\n\n", step] * 12, *text_stream("a"))
    log = await runner.run(await made(store), replace(LIMITS, idle_timeout_s=0.3))
    beats.cancel()
    assert end_of(log) == {"how": "ok"}


async def test_a_compressed_body_that_decodes_to_nothing_is_silence(runner, store) -> None:
    step = asyncio.Event()
    beats = asyncio.create_task(beat(step))
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(b"") + packer.flush(zlib.Z_SYNC_FLUSH)
    nothing = packer.flush(zlib.Z_FULL_FLUSH)
    headers = {"content-encoding": "gzip"}
    runner.server.play(first, *[nothing or b"\0\0\0\xff\xff", step] * 1000, headers=headers)
    log = await runner.run(await made(store), replace(QUICK, idle_timeout_s=0.3))
    beats.cancel()
    assert end_of(log)["how"] == "timeout"


async def test_an_error_in_a_stream_brings_no_key_and_no_host_into_the_log(runner, store) -> None:
    key = "upstreamkeyhunter22x"
    runner.upstream = replace(runner.upstream, api_key=key)
    host = f"127.0.0.1:{runner.server.port}"
    told = orjson.dumps({"type": "error", "code": key, "message": f"{key} at http://{host}/v1"})
    runner.server.play(b"event: error\ndata: %b\n\n" % told)
    log = await runner.run(await made(store))
    raw = b"".join(data for _, data in log)
    assert b"[removed]" in raw
    assert key.encode() not in raw
    assert host.encode() not in raw
