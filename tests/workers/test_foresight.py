"""Frames that are folded before they are appended, by the process that runs the round: both logs in one step."""

from collections.abc import Callable, Sequence

import pytest

from ingest.attempt import Attempt
from streams import metrics
from streams.doorbell import Ring
from streams.faults import StoreAway, StoreFull
from streams.scripts.refused import Reason, Refused
from streams.scripts.responses import cancel
from streams.scripts.rounds import claim_round, lost
from streams.store import Store
from tests.ingest.made import entries, made
from tests.ingest.server import Server, text_stream
from tests.wait import wait_until
from tests.workers.team import (
    begin,
    committed,
    ingesting,
    lawful,
    payload,
    recomputed,
    stream,
    translating,
    types,
)
from translator.machine import Machine
from translator.protocol.entries import Entry
from translator.protocol.errors import StoreError
from translator.step import Step
from workers.fold import Batch
from workers.role import Translate


async def attempt_at(
    role: Translate, store: Store, rid: str, lease_ms: int = 60_000, *, opened: bool = True
) -> Attempt:
    """An attempt of this process, without an upstream, at a response that is translated here."""
    store.work.offer("translate", rid)
    await wait_until(lambda: committed(store, rid, 2))
    store.handover.begin_ingesting(rid)
    call = claim_round(store.keys, rid, round=1, token="t", lease_ms=lease_ms)
    claim = await store.writer.do(call)
    mine = Attempt(
        store, rid, claim.held, lease_ms=lease_ms, max_in_bytes=1 << 24, on_stop=lambda _: None
    )
    store.handover.publish_input(rid, [claim.entry])
    if opened:
        mine.add([("opened", b'{"status":200}')])
    await mine.settled()
    await wait_until(lambda: role._open[rid]._following.live)
    return mine


def frames_of(*blocks: bytes) -> list[tuple[str, bytes]]:
    return [("frame", block.strip(b"\n")) for block in blocks]


async def lease_over(store: Store, rid: str) -> bool:
    state = await store.logs.state(rid)
    return state is not None and state.ilease < await store.logs.now()


async def test_a_frame_that_is_run_and_translated_here_costs_one_exchange(store: Store) -> None:
    blocks = text_stream(*"abcdef")
    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid)
        seen = 2
        for block in blocks[1:8]:  # the first says nothing new
            before = store.writer.calls
            async with store.hub.open(rid, seen - 1) as reader:
                mine.add(frames_of(block))
                async for frames in reader:
                    seen += len(frames)
                    break
            await mine.settled()
            assert store.writer.calls == before + 1
        mine.end({"how": "ok"}, frames_of(*blocks[8:]))
        assert types(await stream(store, rid))[-1] == "completed"
        assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def test_what_an_upstream_says_with_its_first_breath_is_one_exchange(store: Store) -> None:
    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid, opened=False)
        before = store.writer.calls
        mine.add_soon([("opened", b'{"status":200}')])
        mine.add(frames_of(*text_stream("a")[:4]))
        await mine.settled()
        assert await committed(store, rid, 5)
        assert store.writer.calls == before + 1
        mine.end({"how": "ok"}, frames_of(*text_stream("a")[4:]))
        assert types(await stream(store, rid))[-1] == "completed"
        assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def behind_a_commit(role: Translate, store: Store, rid: str) -> Attempt:
    """An attempt whose next frame comes while the last one, which nobody foresaw, is being committed."""
    blocks = text_stream("a", "b", "c")
    mine = await attempt_at(role, store, rid)
    mine.add(frames_of(*blocks[:4]))
    await mine.settled()
    store.handover.begin_translating(rid)
    mine.add(frames_of(blocks[4]))
    store.handover.begin_translating(rid, role._open[rid])
    mine.add(frames_of(blocks[5]))
    return mine


async def test_frames_that_come_under_a_commit_go_in_one_exchange_when_it_is_through(store) -> None:
    """Appended at once they would need a commit of their own, beside which the next are appended, and so on."""
    async with translating(store) as role:
        rid = await made(store)
        mine = await behind_a_commit(role, store, rid)
        before = store.writer.calls
        await mine.settled()
        assert await committed(store, rid, 6)
        assert store.writer.calls == before + 3  # two of the first frame, one of the second
        mine.end({"how": "ok"}, frames_of(*text_stream("a", "b", "c")[6:]))
        assert types(await stream(store, rid))[-1] == "completed"
        assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


@pytest.mark.parametrize("trouble", [StoreAway("away"), Refused(Reason.FENCED), StoreFull("full")])
async def test_frames_that_wait_for_a_commit_are_appended_whatever_becomes_of_it(
    store: Store, trouble: StoreError
) -> None:
    async with translating(store) as role:
        rid = await made(store)
        mine = await behind_a_commit(role, store, rid)
        translation = role._open[rid]
        heard = translation._committed
        translation._committed = lambda _: heard(trouble)
        await mine.settled()
    logged = [entry.data for entry in await entries(store, rid) if entry.kind == "frame"]
    assert logged == [data for _, data in frames_of(*text_stream("a", "b", "c")[:6])]


async def test_nobody_listens_for_what_may_follow_the_end(store: Store, monkeypatch) -> None:
    listens: list[str] = []
    subscribe = store.doorbell.subscribe

    def noted(channel: str, ring: Ring) -> Callable[[], None]:
        listens.append(channel)
        return subscribe(channel, ring)

    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid)
        monkeypatch.setattr(store.doorbell, "subscribe", noted)
        mine.add(frames_of(*text_stream("a")[:4]))
        await mine.settled()
        translation = role._open[rid]
        commit = translation._commit

        def over_with_it(batch: Batch) -> None:
            commit(batch)
            if batch.terminal:
                store.handover.end_ingesting(rid)  # the frames are on their way

        monkeypatch.setattr(translation, "_commit", over_with_it)
        mine.end({"how": "ok"}, frames_of(*text_stream("a")[4:]))
        await wait_until(lambda: not role._open)
    assert listens == []


async def test_a_cancel_that_comes_before_a_foreseen_frame_wins(store: Store) -> None:
    blocks = text_stream("a", "b", "c")
    before = metrics.value("foresights_failed_total")
    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid)
        mine.add(frames_of(*blocks[:4]))
        await mine.settled()
        cancelled = store.writer.send(cancel(store.keys, rid, reason="client"))
        mine.add(frames_of(blocks[4]))  # folded now, appended behind the cancel
        await cancelled
        frames = await stream(store, rid)
    assert payload(frames[-1])["response"]["status"] == "cancelled"
    assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)
    assert metrics.value("foresights_failed_total") == before + 1


async def test_a_cancel_that_is_handed_over_before_a_foreseen_frame_is_known_wins(store) -> None:
    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid)
        cancelled = store.writer.send(cancel(store.keys, rid, reason="client"))
        cancelled.add_done_callback(
            lambda reply: store.handover.publish_input(rid, [reply.result().entry])
        )
        mine.add(frames_of(*text_stream("a")[:4]))
        frames = await stream(store, rid)
    assert types(frames) == ["created", "in_progress", "incomplete"]
    assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def test_a_foreseen_frame_of_a_round_that_was_lost_meanwhile_is_forgotten(
    store: Store, server: Server
) -> None:
    server.play(*text_stream("again"))
    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid, lease_ms=1)
        await wait_until(lambda: lease_over(store, rid))
        gone = store.writer.send(lost(store.keys, rid, token="sweeper"))
        mine.add(frames_of(*text_stream("never seen")))
        await gone
        async with ingesting(store, server.url):
            store.work.offer("translate", rid)
            frames = await stream(store, rid)
    assert payload(frames[-1])["response"]["output"][0]["content"][0]["text"] == "again"
    assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def test_a_response_is_left_to_another_where_the_store_goes_away_under_a_foreseen_frame(
    store: Store,
) -> None:
    before = metrics.value("translations_dropped_total", reason="store")
    async with translating(store) as role:
        rid = await made(store)
        await attempt_at(role, store, rid)
        translation = role._open[rid]
        assert translation.foresee(frames_of(*text_stream("a")[:4])) is not None
        assert translation.foresee(frames_of(text_stream("a")[4])) is None  # one at a time
        translation.foreseen(StoreAway("away"))
        assert rid not in role._open
    assert metrics.value("translations_dropped_total", reason="store") == before + 1


@pytest.mark.parametrize("refusal", [Refused(Reason.TOO_LARGE), StoreFull("no memory")])
async def test_a_foreseen_frame_that_the_log_does_not_take_is_forgotten(
    store: Store, refusal: StoreError
) -> None:
    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid)
        translation = role._open[rid]
        assert translation.foresee(frames_of(*text_stream("never seen")[:4])) is not None
        assert not translation.foreseen(refusal)
        mine.end({"how": "too_large"})
        frames = await stream(store, rid)
    assert types(frames) == ["created", "in_progress", "failed"]
    assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def test_an_answer_in_one_piece_shows_the_time_at_which_it_was_appended(store, server):
    """The block is the response's end before any round_end: it was folded without a time."""
    server.play(b'{"object":"response","status":"completed","output":[]}')
    async with translating(store), ingesting(store, server.url):
        rid = await made(store)
        await begin(store, rid)
        frames = await stream(store, rid)
    end = (await entries(store, rid))[4]
    assert payload(frames[-1])["response"]["completed_at"] == end.t // 1000
    assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def test_a_frame_that_breaks_the_fold_behind_one_that_did_not_ends_the_response(
    store: Store, monkeypatch
) -> None:
    folded = Machine.feed_on

    def broken(machine: Machine, entries: Sequence[Entry], start: int, _: int) -> tuple[Step, int]:
        if start:
            raise RuntimeError(f"entry {entries[start].n}")
        return folded(machine, entries, start, start + 1)

    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid)
        mine.add(frames_of(text_stream("a")[0]))
        await mine.settled()
        monkeypatch.setattr(Machine, "feed_on", broken)
        mine.add(frames_of(*text_stream("a")[1:4]))
        frames = await stream(store, rid)
    assert types(frames)[-1] == "failed"
    await lawful(store, rid)


async def test_a_frame_that_breaks_the_fold_before_it_is_appended_ends_the_response(
    store: Store, monkeypatch
) -> None:
    def broken(_: Machine, entries: Sequence[Entry], start: int, __: int) -> Step:
        raise RuntimeError(f"entry {entries[start].n}")

    async with translating(store) as role:
        rid = await made(store)
        mine = await attempt_at(role, store, rid)
        monkeypatch.setattr(Machine, "feed_on", broken)
        mine.add(frames_of(*text_stream("a")[:4]))
        frames = await stream(store, rid)
    assert types(frames) == ["created", "in_progress", "failed"]
    await lawful(store, rid)
