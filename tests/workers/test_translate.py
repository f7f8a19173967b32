import asyncio
import gc
import secrets
import weakref
from dataclasses import replace
from types import SimpleNamespace

import orjson
import pytest

from streams import metrics
from streams.faults import StoreAway
from streams.scripts.outputs import acquire
from streams.scripts.responses import cancel, delete
from streams.scripts.rounds import append, claim_round
from streams.store import Store
from tests.ingest.made import entries, made, request_data
from tests.ingest.server import End, Server, text_stream
from tests.wait import wait_until
from tests.workers.team import (
    MAX_BYTES,
    begin,
    committed,
    ingesting,
    lawful,
    payload,
    recomputed,
    stream,
    translate_limits,
    translating,
    types,
)
from translator.protocol.entries import Entry, Kind
from translator.protocol.errors import StoreError
from translator.step import NextRound, Step
from workers.role import Translate
from workers.translate import Translation

WHOLE = [
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
]


async def test_a_response_is_streamed_from_end_to_end(store: Store, server: Server) -> None:
    server.play(*text_stream("Hel", "lo", usage={"input_tokens": 1, "output_tokens": 2}))
    async with translating(store) as role, ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        frames = await stream(store, rid)
        assert types(frames) == WHOLE
        assert frames == await lawful(store, rid)
        assert [frame.data for frame in frames] == await recomputed(store, rid)
        await wait_until(lambda: not role._open)
        assert not store.handover.translating(rid)
        assert store.doorbell.channels == 0


async def test_a_response_that_ended_is_freed_without_the_cyclic_collector(store, server) -> None:
    go_on = asyncio.Event()
    server.play(*text_stream("a")[:3], go_on, *text_stream("a")[3:])
    async with translating(store) as role, ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 3))
        translation = role._open[rid]
        parts = (translation, translation._following, translation._fold._machine)
        left = [weakref.ref(part) for part in (*parts, translation._fold._machine._round)]
        del translation, parts
        gc.disable()
        try:
            go_on.set()
            await stream(store, rid)
            await wait_until(lambda: not any(one() for one in left))
        finally:
            gc.enable()


async def test_the_first_frames_are_there_before_the_upstream_says_anything(store, server) -> None:
    server.play(End.HANG)
    async with translating(store), ingesting(store, server.url):
        rid = await made(store)
        async with store.hub.open(rid, -1) as reader:
            await begin(store, rid)
            seen = []
            async for frames in reader:
                seen += frames
                if len(seen) == 2:
                    break
            assert types(seen) == WHOLE[:2]


async def test_each_frame_is_public_as_soon_as_the_upstream_has_said_it(store, server) -> None:
    steps: list = []
    gates = [asyncio.Event() for _ in text_stream("a", "b")]
    for gate, block in zip(gates, text_stream("a", "b"), strict=True):
        steps += [gate, block]
    server.play(*steps)
    async with translating(store), ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        # The message's own end comes with what ends the response (or with the next item).
        for gate, at_least in zip(gates, (2, 3, 4, 5, 6, 6, 8, 8, 10), strict=True):
            gate.set()
            await wait_until(lambda n=at_least: committed(store, rid, n))


async def test_ingest_and_translator_in_different_processes(
    store: Store, store_url, namespace, server: Server
) -> None:
    go_on = asyncio.Event()
    blocks = text_stream(*"abcdef")
    server.play(*blocks[:4], go_on, *blocks[4:])
    async with (
        Store.open(store_url, namespace) as other,
        translating(other),
        ingesting(store, server.url),
    ):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 5))
        assert other.doorbell.channels == 1  # nobody hands it over: the bell is heard
        go_on.set()
        frames = await stream(store, rid)
        assert types(frames)[-1] == "completed"
        assert [frame.data for frame in frames] == await recomputed(store, rid)


async def test_the_ends_of_many_responses_at_once(store: Store, server: Server) -> None:
    server.play(*text_stream(*("x" * 50 for _ in range(100))))
    async with translating(store), ingesting(store, server.url):
        rids = [await made(store) for _ in range(5)]
        for rid in rids:
            await begin(store, rid)
        for rid in rids:
            await stream(store, rid)
            assert len(await lawful(store, rid)) == 108


@pytest.mark.parametrize(
    ("steps", "fields", "code"),
    [
        ([b"data: {]\n\n"], {}, "server_error"),
        ([b"data: null\n\n", End.CUT], {}, "server_error"),
        ([b"<html>"], {}, "server_error"),
        ([b'data: {"error":{"message":"m","code":"rate_limit_exceeded"}}\n\n'], {}, None),
        ([b'{"error":{"message":"no"}}'], {"status": "400 Bad Request"}, "server_error"),
        ([*text_stream("a")[:-2]], {}, "server_error"),
    ],
)
async def test_whatever_an_upstream_does_the_response_ends_once(
    store: Store, server: Server, steps, fields, code
) -> None:
    server.play(*steps, **fields)
    async with translating(store), ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        frames = await stream(store, rid)
        await lawful(store, rid)
    assert types(frames)[-1] == "failed"
    error = payload(frames[-1])["response"]["error"]
    assert error["code"] == (code or "rate_limit_exceeded")


async def test_a_cancel_ends_the_response_and_the_upstream(store, store_url, namespace, server):
    server.play(*text_stream("a", "b")[:4], End.HANG)
    async with (
        Store.open(store_url, namespace) as elsewhere,
        translating(store),
        ingesting(store, server.url),
    ):
        rid = await made(store, background=True)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 5))
        await elsewhere.writer.do(cancel(elsewhere.keys, rid, reason="client"))
        async with asyncio.timeout(1):
            frames = await stream(store, rid)
            await server.requests[0].left.wait()
    assert types(frames)[:3] == ["created", "queued", "in_progress"]
    assert payload(frames[-1])["response"]["status"] == "cancelled"


async def test_a_deleted_response_is_dropped_everywhere(store: Store, server: Server) -> None:
    server.play(*text_stream("a")[:4], End.HANG)
    before = metrics.value("translations_dropped_total", reason="MISSING")
    async with translating(store) as role, ingesting(store, server.url) as ingest:
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 4))
        await store.writer.do(delete(store.keys, rid))
        await wait_until(lambda: not role._open and not ingest._rounds, 1.5)
    assert metrics.value("translations_dropped_total", reason="MISSING") == before + 1


async def test_a_response_that_is_deleted_while_it_streams_is_no_failed_fold(
    store: Store, server: Server, caplog
) -> None:
    go_on = asyncio.Event()
    server.play(*text_stream("a")[:4], go_on, *text_stream("a")[4:])
    async with translating(store) as role, ingesting(store, server.url) as ingest:
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 4))
        await store.writer.do(delete(store.keys, rid))
        go_on.set()
        await wait_until(lambda: not role._open and not ingest._rounds, 1.5)
    assert "cannot be continued" not in caplog.text


async def test_the_lease_is_kept_through_silence(store: Store, server: Server) -> None:
    server.play(*text_stream("a")[:4], End.HANG)
    limits = translate_limits(lease_ms=300)
    async with translating(store, limits) as role, ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 4))
        fence = role._open[rid]._holding.fence
        first = await store.logs.state(rid)

        async def later() -> bool:
            state = await store.logs.state(rid)
            assert state is not None
            assert first is not None
            assert state.lease > await store.logs.now()
            return state.lease > first.lease + 1_000

        await wait_until(later)
        assert role._open[rid]._holding.fence == fence


async def test_who_lost_the_lease_writes_nothing_more(store: Store, server: Server) -> None:
    go_on = asyncio.Event()
    server.play(*text_stream("a")[:4], go_on, *text_stream("a")[4:])
    before = metrics.value("translations_dropped_total", reason="FENCED")
    async with translating(store) as role, ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 4))
        await store.connections.command("HSET", store.keys.state(rid), "lease", 1)
        lease = await store.writer.do(acquire(store.keys, rid, token="o", lease_ms=60_000))
        go_on.set()
        await wait_until(lambda: not role._open)
        state = await store.logs.state(rid)
        assert state is not None
        assert state.seq == lease.seq
    assert metrics.value("translations_dropped_total", reason="FENCED") == before + 1


async def test_what_was_asked_of_a_create_that_failed_is_forgotten(store: Store) -> None:
    async with translating(store) as role:
        asked = role.ask("resp_a")
        assert role.ask("resp_a") is None, "once"
        asked.answer(None)
        assert len(role._open) == 0
        assert role.ask("resp_a") is not None


async def test_who_has_no_room_asks_nothing_of_a_create(store: Store) -> None:
    async with translating(store, max_open=1) as role:
        assert role.ask("resp_a") is not None
        assert role.ask("resp_b") is None


async def test_a_lease_that_a_create_grants_too_late_is_given_back(store: Store) -> None:
    rid = f"resp_{secrets.token_hex(16)}"
    async with translating(store) as role:
        asked = role.ask(rid)
    await made(store, rid=rid, lease=asked)
    await store.writer.drained()
    assert (await store.writer.do(acquire(store.keys, rid, token="o", lease_ms=1))).fence == "2:o"


async def test_a_hint_for_what_another_one_holds_is_dropped(store: Store) -> None:
    rid = await made(store)
    await store.writer.do(acquire(store.keys, rid, token="o", lease_ms=60_000))
    before = metrics.value("acquires_refused_total", reason="LEASED")
    async with translating(store) as role:
        assert role.take(rid)
        assert role.take(rid)
        assert role.take("resp_" + "0" * 32)
        await wait_until(lambda: not role._open)
    assert metrics.value("acquires_refused_total", reason="LEASED") == before + 1


async def test_what_has_no_room_waits_for_others(store: Store) -> None:
    async with translating(store, max_open=2) as role:
        rids = [await made(store) for _ in range(3)]
        assert [role.take(rid) for rid in rids] == [True, True, False]
        await wait_until(lambda: committed(store, rids[0], 2))
        store.work.offer("translate", rids[2])
        await store.writer.do(delete(store.keys, rids[0]))
        await wait_until(lambda: committed(store, rids[2], 2))


async def test_a_lost_round_is_opened_and_run_again(store: Store, server: Server) -> None:
    server.play(*text_stream("a"))
    async with translating(store):
        rid = await made(store)
        store.work.offer("translate", rid)
        claim = await store.writer.do(
            claim_round(store.keys, rid, round=1, token="dead", lease_ms=1)
        )
        assert claim.attempt == 1
        await store.due.enter(rid, after_ms=0)
        async with ingesting(store, server.url):
            frames = await stream(store, rid)
        assert types(frames)[-1] == "completed"
        kinds = [entry.kind for entry in await entries(store, rid)]
        assert kinds.count("attempt") == 2
        await lawful(store, rid)


async def test_a_lost_round_of_which_something_was_seen_fails(store: Store) -> None:
    async with translating(store):
        rid = await made(store)
        store.work.offer("translate", rid)
        await half_a_round(store, rid, lease_ms=1)
        await wait_until(lambda: committed(store, rid, 4))
        await store.due.enter(rid, after_ms=0)
        frames = await stream(store, rid)
    assert types(frames)[-1] == "failed"
    assert types(frames)[:4] == WHOLE[:4]


async def half_a_round(store: Store, rid: str, lease_ms: int = 60_000) -> None:
    """An attempt whose process died after a few frames."""
    claim = await store.writer.do(
        claim_round(store.keys, rid, round=1, token="dead", lease_ms=lease_ms)
    )
    blocks = [("frame", block[:-2]) for block in text_stream("a", "b")[:4]]
    await store.writer.do(
        append(
            store.keys,
            rid,
            fence=claim.fence,
            first_frame_no=1,
            items=[("opened", b"{}"), *blocks],
            lease_ms=lease_ms,
            max_in_bytes=1 << 20,
        )
    )


async def test_a_successor_goes_on_where_the_predecessor_stood(store, store_url, namespace, server):
    gates = [asyncio.Event() for _ in range(3)]
    blocks = text_stream(*"abcdefghij")
    server.play(
        *blocks[:5], gates[0], *blocks[5:8], gates[1], *blocks[8:10], gates[2], *blocks[10:]
    )
    async with Store.open(store_url, namespace) as other, ingesting(store, server.url):
        rid = await made(store)
        roles = []
        for gate, seen in zip(gates, (5, 9, 11), strict=True):
            async with translating(other if len(roles) % 2 else store) as role:
                roles.append(role)
                await begin(store, rid)
                await wait_until(lambda n=seen: committed(store, rid, n))
            gate.set()  # nobody translates while this is appended
        async with translating(store):
            await begin(store, rid)
            frames = await stream(store, rid)
        assert types(frames)[-1] == "completed"
        assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def test_a_successor_with_other_settings_makes_the_same_bytes(
    store, store_url, namespace, server
):
    """What the fold depends on stands in the log: the settings of the day are nobody's business."""
    gate = asyncio.Event()
    blocks = text_stream(*"abcdefghij")
    server.play(*blocks[:6], gate, *blocks[6:])
    others = replace(translate_limits(), lease_ms=700, max_out_bytes=MAX_BYTES // 2, grace_ms=9_000)
    rid = await made(store, limits={"max_rounds": 3, "max_response_bytes": 1 << 20})
    async with Store.open(store_url, namespace) as other, ingesting(store, server.url):
        async with translating(store):
            await begin(store, rid)
            await wait_until(lambda: committed(store, rid, 6))
        gate.set()
        async with translating(other, others):
            await begin(other, rid)
            frames = await stream(other, rid)
        assert types(frames)[-1] == "completed"
        assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def test_a_log_of_thousands_of_entries_is_folded_from_its_first(store, server) -> None:
    server.play(*text_stream(*("x" for _ in range(2_000))))
    rid = await made(store)
    async with ingesting(store, server.url):
        store.work.offer("rounds", rid)
        await wait_until(lambda: round_ended(store, rid), 20)
    async with translating(store):
        store.work.offer("translate", rid)
        assert len(await stream(store, rid)) == 2_008
        await lawful(store, rid)


async def round_ended(store: Store, rid: str) -> bool:
    state = await store.logs.state(rid)
    return state is not None and state.rstate == "ended"


async def test_other_code_never_splices_a_stream(store: Store, server: Server) -> None:
    blocks = text_stream("a", "b")
    server.play(*blocks[:7], End.HANG)
    before = metrics.value("folds_failed_total", reason="Diverged")
    rid = await made(store)
    async with ingesting(store, server.url):
        async with translating(store):
            await begin(store, rid)
            await wait_until(lambda: committed(store, rid, 8))
        await store.connections.command("HSET", store.keys.state(rid), "digest", "0" * 32)
        async with translating(store):
            store.work.offer("translate", rid)
            frames = await stream(store, rid)
    assert types(frames) == [*WHOLE[:8], "output_item.done", "failed"]
    response = payload(frames[-1])["response"]
    assert (response["id"], response["error"]["code"]) == (rid, "server_error")
    assert [item["status"] for item in response["output"]] == ["incomplete"]
    await lawful(store, rid)
    assert metrics.value("folds_failed_total", reason="Diverged") == before + 1


@pytest.mark.parametrize("cut", [0, 3])
async def test_a_log_that_lost_entries_ends_clearly(store: Store, server: Server, cut: int) -> None:
    server.play(*text_stream("a")[:5], End.HANG)
    rid = await made(store)
    async with ingesting(store, server.url), translating(store):
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 5))
    key = store.keys.input(rid)
    ids = [f"{entry.n}-1" for entry in (await entries(store, rid))[cut:]]
    await store.connections.command("XDEL", key, *ids)
    async with translating(store):
        store.work.offer("translate", rid)
        frames = await stream(store, rid)
    assert types(frames)[-1] == "failed"
    await lawful(store, rid)


async def test_a_foreign_log_is_ended_with_what_can_be_said(store: Store) -> None:
    rid = await made(store, data=orjson.dumps({"version": 99}))
    async with translating(store):
        store.work.offer("translate", rid)
        frames = await stream(store, rid)
    assert types(frames) == ["created", "failed"]
    response = payload(frames[-1])["response"]
    assert (response["id"], response["status"]) == (rid, "failed")


async def test_a_fold_that_breaks_commits_what_it_had_before(store: Store, caplog) -> None:
    """An entry that no ingest writes: the fold refuses it, what came before stands."""
    rid = await made(store)
    async with translating(store):
        store.work.offer("translate", rid)
        await wait_until(lambda: committed(store, rid, 2))
        await store.connections.command(
            *("XADD", store.keys.input(rid), "3-1", "k", "cancel", "t", "1", "d", "no json"),
        )
        await store.connections.command("HSET", store.keys.state(rid), "in", 3)
        frames = await stream(store, rid)
    assert types(frames) == ["created", "in_progress", "failed"]
    assert "cannot be continued" in caplog.text


async def test_an_output_log_that_is_full_ends_the_response(store: Store, server: Server) -> None:
    server.play(*text_stream(*("x" * 500 for _ in range(50)))[:40], End.HANG)
    limits = translate_limits(max_out_bytes=8_000)
    async with translating(store, limits), ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        frames = await stream(store, rid)
        await lawful(store, rid)
    assert types(frames)[-1] == "failed"


async def test_a_rollback_of_the_state_under_a_translator_is_not_written_over(store, server):
    go_on = asyncio.Event()
    blocks = text_stream("a", "b")
    server.play(*blocks[:4], go_on, *blocks[4:])
    async with translating(store), ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 5))
        kept = (await store.logs.read_output(rid, -1)).frames[:-1]
        await store.connections.command("HINCRBY", store.keys.state(rid), "seq", -1)
        await store.connections.command("DEL", store.keys.output(rid))
        for frame in kept:
            name = f"{frame.seq}-1"
            await store.connections.command("XADD", store.keys.output(rid), name, "d", frame.data)
        go_on.set()
        await wait_until(lambda: done(store, rid))
    state = await store.logs.state(rid)
    assert state is not None
    assert state.status == "failed"


@pytest.mark.parametrize("grown", [False, True])
async def test_a_translator_whose_log_was_taken_back_in_silence_does_not_hold_it_for_ever(
    store, server, grown: bool
):
    """A failover loses the last entry; where another one has taken its number, only the cursor tells."""
    go_on = asyncio.Event()
    server.play(*text_stream("a", "b")[:4], go_on, text_stream("a", "b")[4], End.HANG)
    async with translating(store), ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 5))
        older = await store.connections.command("HGETALL", store.keys.state(rid))
        last = (await store.logs.state(rid)).last
        go_on.set()
        await wait_until(lambda: committed(store, rid, 6))
        command, keys = store.connections.command, store.keys
        for key, kept in ((keys.input(rid), last), (keys.output(rid), 5)):
            found = await command("XRANGE", key, "-", "+")
            await command("DEL", key)
            for name, fields in found[:kept]:
                await command("XADD", key, name, *(x for pair in fields.items() for x in pair))
        await command("HSET", keys.state(rid), *(x for pair in older.items() for x in pair))
        if grown:
            await command(
                "XADD", keys.input(rid), f"{last + 1}-1", "k", "cancel", "t", "1", "d", "{}"
            )
            await command("HINCRBY", keys.state(rid), "in", 1)
        async with asyncio.timeout(5):
            frames = await stream(store, rid)
    assert types(frames)[-1] == "failed"
    await lawful(store, rid)


async def done(store: Store, rid: str) -> bool:
    state = await store.logs.state(rid)
    return state is not None and state.done


async def test_an_unstored_response_keeps_its_logs_for_the_grace_only(store: Store, server) -> None:
    server.play(*text_stream("a"))
    async with translating(store), ingesting(store, server.url):
        ids = {stored: await made(store, store=stored) for stored in (True, False)}
        for rid in ids.values():
            await begin(store, rid)
            await stream(store, rid)
    life = {
        stored: await store.connections.command("PTTL", store.keys.output(rid))
        for stored, rid in ids.items()
    }
    assert life[False] <= 5_000 < life[True]


async def test_letting_go_lets_a_successor_go_on_at_once(store, store_url, namespace, server):
    server.play(*text_stream("a")[:4], End.HANG)
    async with (
        Store.open(store_url, namespace) as other,
        ingesting(store, server.url),
        Translate(store, translate_limits(lease_ms=60_000)) as role,
    ):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 4))
        async with translating(other) as successor:
            await wait_until(lambda: group_made(store))
            await role.stop()
            await wait_until(lambda: other.handover.translating(rid), 0.5)
            assert rid in successor._open
            assert not store.handover.translating(rid)


async def group_made(store: Store) -> bool:
    """Somebody reads the hints."""
    try:
        return bool(
            await store.connections.command("XINFO", "GROUPS", store.keys.work("translate"))
        )
    except StoreError:
        return False


async def test_retiring_keeps_what_this_process_still_ingests(store, store_url, namespace, server):
    go_on = asyncio.Event()
    blocks = text_stream("a")
    server.play(*blocks[:4], go_on, *blocks[4:])
    async with (
        Store.open(store_url, namespace) as other,
        ingesting(store, server.url),
        Translate(store, translate_limits()) as role,
        translating(other) as successor,
    ):
        here, there = await made(store), await made(store)
        store.work.offer("translate", there)  # its round is not run here
        await begin(store, here)
        await wait_until(lambda: committed(store, here, 4))
        await wait_until(lambda: committed(store, there, 2))
        await role.retire()
        assert list(role._open) == [here]
        await wait_until(lambda: there in successor._open)
        go_on.set()
        assert types(await stream(store, here))[-1] == "completed"


async def test_letting_go_before_the_lease_came_gives_it_back(store: Store) -> None:
    rid = await made(store)
    async with translating(store) as role:
        role.take(rid)
        await role.stop()
        await wait_until(lambda: free(store, rid))


async def free(store: Store, rid: str) -> bool:
    state = await store.logs.state(rid)
    epoch = await store.connections.command("HGET", store.keys.state(rid), "epoch")
    return state is not None and state.lease == 0 and epoch == b"1"


async def test_a_store_that_stays_away_drops_the_translation(store: Store) -> None:
    rid = await made(store)
    async with translating(store) as role:
        store.work.offer("translate", rid)
        await wait_until(lambda: committed(store, rid, 2))
        translation = role._open[rid]
        translation._holding._beaten(StoreAway("away"))
        assert role._open == {}
        translation._holding._beaten(StoreAway("away"))  # late replies of a dropped one
        translation._following._pulled([])
        translation._following._slice()
        translation._following.read()
        translation.flush()
        assert not store.handover.translating(rid)


async def test_a_translator_that_lags_reads_the_log_instead_of_holding_it(
    store: Store, server: Server, monkeypatch
) -> None:
    monkeypatch.setattr("workers.follow.PENDING_BYTES", 2_000)
    server.play(*text_stream(*("x" * 400 for _ in range(400))))
    async with translating(store), ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        assert len(await stream(store, rid)) == 408
        await lawful(store, rid)


async def test_the_request_of_a_response_that_is_deleted_while_it_is_acquired(store) -> None:
    rid = await made(store, data=request_data("resp_" + "b" * 32))
    async with translating(store) as role:
        role.take(rid)
        await store.writer.do(delete(store.keys, rid))
        await wait_until(lambda: not role._open, 2)


async def opened(store: Store, role: Translate, frames: int = 2) -> Translation:
    """A translation that has committed its first frames."""
    rid = await made(store)
    role.take(rid)
    await wait_until(lambda: committed(store, rid, frames))
    return role._open[rid]


async def test_a_next_round_is_written_by_the_commit_and_offered(store: Store) -> None:
    offers: list[str] = []
    store.work.register("rounds", lambda rid: bool(offers.append(rid)) or True)
    async with translating(store) as role:
        translation = await opened(store, role)
        step = Step([], [NextRound(2, b'{"round":2}')])
        translation._fold._keep(step, translation._fold.fed, 0)
        translation.flush()
        await wait_until(lambda: offers == [translation.rid])
        last = (await entries(store, translation.rid))[-1]
        assert (last.kind, last.round, last.data) == ("round", 2, b'{"round":2}')
        await wait_until(lambda: translation.fed == last.n)


async def test_a_commit_too_large_for_the_store_fails_that_response(store, monkeypatch) -> None:
    async with translating(store) as role:
        translation = await opened(store, role)
        translation._fold._keep(Step(frames=[b"x" * 100_000]), translation._fold.fed, 0)
        monkeypatch.setattr("streams.writer.MAX_CALL_BYTES", 50_000)
        translation.flush()
        frames = await stream(store, translation.rid)
    assert types(frames) == ["created", "in_progress", "failed"]


async def test_a_broken_fold_takes_nothing_more(store: Store) -> None:
    async with translating(store) as role:
        translation = await opened(store, role)
        translation._break(ValueError("first"))
        translation._break(ValueError("second"))
        assert translation._broken == "ValueError"
        assert translation.take([Entry(3, Kind.CANCEL, 1, b"{}")], 0, None) == 1
        assert translation.fed == 2
        translation.flush()
        assert types(await stream(store, translation.rid))[-1] == "failed"


@pytest.mark.parametrize("trouble", [StoreAway("away"), ZeroDivisionError()])
async def test_one_that_cannot_be_ended_is_left_to_another(store, caplog, trouble) -> None:
    async with translating(store) as role:
        translation = await opened(store, role)

        async def state(_: str) -> None:
            raise trouble

        translation._store = replace(store, logs=SimpleNamespace(state=state))
        translation._break(ValueError("first"))
        translation.flush()
        await wait_until(lambda: translation.rid not in role._open)
    assert "could not be ended" in caplog.text


async def test_one_that_is_gone_needs_no_end(store: Store) -> None:
    async with translating(store) as role:
        translation = await opened(store, role)
        await store.writer.do(delete(store.keys, translation.rid))
        translation._break(ValueError("first"))
        translation.flush()
        await wait_until(lambda: not role._open)


async def test_replies_that_come_too_late_change_nothing(store: Store) -> None:
    async with translating(store) as role:
        translation = await opened(store, role)
        translation._following.read()
        translation._following._pulled(StoreAway("away"))
        assert role._open == {}
        translation._committed(StoreAway("away"))
        await translation.let_go()
        assert translation._over


async def test_a_lease_that_cannot_be_given_back_runs_out(store: Store, caplog) -> None:
    async with translating(store) as role:
        translation = await opened(store, role)
        await store.writer.do(delete(store.keys, translation.rid))
        with caplog.at_level("INFO"):
            await translation.let_go()
    assert "left to run out" in caplog.text
