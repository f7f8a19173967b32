"""Readers of output logs: order, resumption, ends, hand-over, lost bells, garbage."""

import asyncio
import random

import pytest

from streams import feed as feeding
from streams import hub as hubs
from streams.faults import Gone, LogLost
from streams.scripts.outputs import Frame
from streams.store import Store
from tests.streams.rig import Rig
from tests.wait import wait_until


async def read(store: Store, rid: str, after: int = -1) -> list[Frame]:
    async with store.hub.open(rid, after) as reader:
        return [frame async for frames in reader for frame in frames]


def start(store: Store, rid: str, after: int = -1) -> "asyncio.Task[list[Frame]]":
    return asyncio.create_task(read(store, rid, after))


class Writing:
    """The translate side of a response: commits, and hands over what is acknowledged."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.seq = -1

    async def begin(self) -> "Writing":
        await self.rig.create()
        await self.rig.acquire()
        self.rig.store.handover.begin_translating(self.rig.rid)
        return self

    async def commit(self, *frames: bytes, terminal: bool = False, hand_over: bool = True) -> None:
        first = self.seq + 1
        if terminal:
            await self.rig.finish(0, first, *frames)
        else:
            await self.rig.commit(0, 0, first, *frames)
        self.seq += len(frames)
        if hand_over:
            self.rig.store.handover.publish_output(self.rig.rid, first, list(frames), terminal)

    def end(self) -> None:
        self.rig.store.handover.end_translating(self.rig.rid)


async def commit_unheard(rig: Rig, seq: int, data: bytes) -> None:
    """Frames whose doorbell was lost: what the script does, without its PUBLISH."""
    command = rig.store.connections.command
    await command("XADD", rig.keys.output(rig.rid), f"{seq}-1", "d", data)
    await command("PEXPIRE", rig.keys.output(rig.rid), 60_000)
    await command("HSET", rig.keys.state(rig.rid), "seq", seq)


def waits(store: Store) -> bool:
    """Whether there are readers, all of them at the end of their log."""
    feeds = store.hub._feeds.values()
    return bool(feeds) and all(feed._waiters for feed in feeds)


async def test_a_reader_elsewhere_gets_every_frame_in_order_and_ends(rig, elsewhere):
    await rig.create()
    await rig.acquire()
    reading = start(elsewhere, rig.rid)
    for n in range(20):
        await rig.commit(0, 0, 2 * n, b"%d" % (2 * n), b"%d" % (2 * n + 1))
    await rig.finish(0, 40, b"end")
    frames = await reading
    assert frames == [
        *(Frame(n, b"%d" % n) for n in range(40)),
        Frame(40, b"end", terminal=True),
    ]
    await wait_until(lambda: (elsewhere.hub.feeds, elsewhere.doorbell.channels) == (0, 0))


async def test_any_prefix_and_its_resumption_are_the_whole(rig, elsewhere, monkeypatch):
    monkeypatch.setattr(feeding, "PAGE", 3)
    await rig.finished(*(b"%d" % n for n in range(11)), b"end")
    whole = await read(elsewhere, rig.rid)
    assert [frame.seq for frame in whole] == list(range(12))
    for after in range(-1, 12):
        assert whole[: after + 1] + await read(elsewhere, rig.rid, after) == whole


@pytest.mark.parametrize("after", [1, 2, 99])
async def test_resuming_a_finished_response_at_or_beyond_its_end_ends_at_once(rig, after):
    await rig.finished(b"a", b"end")
    assert await read(rig.store, rig.rid, after) == []


async def test_a_reader_beyond_the_end_of_a_running_response_waits_for_its_place(rig):
    await rig.create()
    await rig.acquire()
    await rig.commit(0, 0, 0, b"a")
    reading = start(rig.store, rig.rid, 2)
    await wait_until(lambda: waits(rig.store))
    await rig.commit(0, 0, 1, b"b", b"c", b"d")
    await rig.finish(0, 4, b"end")
    assert [frame.seq for frame in await reading] == [3, 4]


async def test_inside_one_process_frames_come_by_hand_over_alone(rig):
    store, writing = rig.store, await Writing(rig).begin()
    reading = start(store, rig.rid)
    await wait_until(lambda: waits(store))
    reads = store.reads.calls
    for n in range(10):
        await writing.commit(b"%d" % n)
    await writing.commit(b"end", terminal=True)
    writing.end()
    assert len(await reading) == 11
    assert store.reads.calls == reads
    assert store.doorbell.rings == 0
    assert store.doorbell.channels == 0


async def test_a_hand_over_that_does_not_continue_the_reader_makes_it_read_the_log(rig):
    store, writing = rig.store, await Writing(rig).begin()
    reading = start(store, rig.rid)
    await wait_until(lambda: waits(store))
    await writing.commit(b"0", b"1", hand_over=False)
    await writing.commit(b"2")
    await writing.commit(b"3", b"end", terminal=True)
    assert [frame.data for frame in await reading] == [b"0", b"1", b"2", b"3", b"end"]


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_is_handed_over_readers_get_the_log(rig, seed, monkeypatch):
    """Dropped, repeated, overlapping and late hand-overs; a ring and pages too small; slow and fast readers."""
    monkeypatch.setattr(feeding, "RING_BYTES", 40)
    monkeypatch.setattr(feeding, "BATCH_BYTES", 16)
    monkeypatch.setattr(feeding, "PAGE", 4)
    dice = random.Random(seed)  # noqa: S311 - a game
    store, writing = rig.store, await Writing(rig).begin()

    async def slow_read(pause: float) -> list[int]:
        async with store.hub.open(rig.rid) as reader:
            got = []
            async for frames in reader:
                got.extend(frame.seq for frame in frames)
                await asyncio.sleep(pause)
            return got

    readings = [asyncio.create_task(slow_read(pause)) for pause in (0, 0, 0.001, 0.004)]
    everything: list[bytes] = []
    for _ in range(40):
        some = [b"%03d" % (len(everything) + i) for i in range(dice.randint(1, 5))]
        everything += some
        await writing.commit(*some, hand_over=False)
        if dice.random() < 0.8:
            first = max(0, len(everything) - len(some) - dice.choice([0, 0, 0, 1, 3, 9]))
            last = len(everything) - dice.choice([0, 0, 1])
            if first < last:
                store.handover.publish_output(rig.rid, first, everything[first:last], False)
        await asyncio.sleep(dice.choice([0, 0, 0.002]))
    await writing.commit(b"end", terminal=True)
    for got in await asyncio.gather(*readings):
        assert got == list(range(len(everything) + 1))


async def test_when_hand_over_ends_readers_follow_the_log(rig, elsewhere):
    store, writing = rig.store, await Writing(rig).begin()
    reading = start(store, rig.rid)
    await wait_until(lambda: waits(store))
    await writing.commit(b"here")
    await rig.release()
    writing.end()
    there = Rig(elsewhere, rig.rid)
    await there.acquire("there")
    await there.commit(0, 0, 1, b"there")
    await there.finish(0, 2, b"end")
    assert [frame.data for frame in await reading] == [b"here", b"there", b"end"]


async def test_a_process_that_will_translate_itself_asks_for_no_channel_at_first(rig):
    store = rig.store
    store.work.register("translate", lambda _: True)
    await rig.create()
    reading = start(store, rig.rid)
    await wait_until(lambda: waits(store))
    assert store.doorbell.channels == 0
    await wait_until(lambda: store.doorbell.channels == 1)
    store.handover.begin_translating(rig.rid)
    assert store.doorbell.channels == 0
    reading.cancel()


async def test_a_lost_bell_costs_no_more_than_the_poll(rig, elsewhere):
    await rig.create()
    async with elsewhere.hub.open(rig.rid) as reader:
        reading = asyncio.create_task(anext(reader))
        await wait_until(lambda: readers_wait(elsewhere, 1))
        await commit_unheard(rig, 0, b"quiet")
        async with asyncio.timeout(1.5):
            assert await reading == [Frame(0, b"quiet")]


async def test_one_read_serves_all_readers_of_a_response(rig, elsewhere):
    await rig.create()
    await rig.acquire()
    readings = [start(elsewhere, rig.rid) for _ in range(100)]
    await wait_until(lambda: readers_wait(elsewhere, 100))
    reads = elsewhere.reads.calls
    await rig.commit(0, 0, 0, b"a")
    await rig.finish(0, 1, b"end")
    whole = [Frame(0, b"a"), Frame(1, b"end", terminal=True)]
    assert await asyncio.gather(*readings) == [whole] * 100
    assert elsewhere.reads.calls - reads <= 4


def readers_wait(store: Store, count: int) -> bool:
    return sum(len(feed._waiters) for feed in store.hub._feeds.values()) == count


async def test_a_reader_that_does_not_read_costs_nothing_but_its_cursor(rig, monkeypatch):
    monkeypatch.setattr(feeding, "RING_BYTES", 10_000)
    store, writing = rig.store, await Writing(rig).begin()
    stopped = store.hub.open(rig.rid)
    fast = start(store, rig.rid)
    await wait_until(lambda: waits(store))
    for n in range(50):
        await writing.commit(*(b"%05d" % (20 * n + i) + b"x" * 95 for i in range(20)))
        (feed,) = store.hub._feeds.values()
        assert feed._ring_bytes <= 10_000
    await writing.commit(b"end", terminal=True)
    assert len(await fast) == 1_001
    assert [frame.seq async for frames in stopped for frame in frames] == list(range(1_001))
    assert store.hub.feeds == 0


async def test_frames_larger_than_ring_and_batch_pass_all_the_same(rig, monkeypatch):
    monkeypatch.setattr(feeding, "RING_BYTES", 100)
    monkeypatch.setattr(feeding, "BATCH_BYTES", 100)
    store, writing = rig.store, await Writing(rig).begin()
    reading = start(store, rig.rid)
    await wait_until(lambda: waits(store))
    await writing.commit(b"x" * 500, b"y" * 500)
    await writing.commit(b"z" * 500, b"end", terminal=True)
    assert [len(frame.data) for frame in await reading] == [500, 500, 500, 3]


async def test_a_response_that_is_not_there_is_gone(store):
    with pytest.raises(Gone):
        await read(store, "resp_" + "0" * 32)
    assert store.hub.feeds == 0


async def test_a_response_that_is_deleted_under_its_readers_is_gone(rig, elsewhere):
    await rig.create()
    readings = [start(elsewhere, rig.rid), start(elsewhere, rig.rid)]
    await wait_until(lambda: readers_wait(elsewhere, 2))
    await rig.delete()
    for reading in readings:
        with pytest.raises(Gone):
            await reading
    assert elsewhere.hub.feeds == 0


async def test_a_response_that_expires_under_its_reader_is_gone(rig, elsewhere):
    await rig.create()
    reading = start(elsewhere, rig.rid)
    await wait_until(lambda: readers_wait(elsewhere, 1))
    await rig.store.connections.command("DEL", rig.keys.state(rig.rid))
    with pytest.raises(Gone):
        await reading


async def test_a_hole_is_never_skipped(rig, elsewhere):
    await rig.finished(b"a", b"b", b"end")
    await rig.store.connections.command("XDEL", rig.keys.output(rig.rid), "1-1")
    with pytest.raises(LogLost):
        await read(elsewhere, rig.rid, 0)


async def test_a_hole_is_seen_by_a_reader_that_waits(rig, elsewhere):
    await rig.create()
    reading = start(elsewhere, rig.rid)
    await wait_until(lambda: readers_wait(elsewhere, 1))
    await commit_unheard(rig, 3, b"after a hole")
    with pytest.raises(LogLost):
        await reading


async def test_a_reader_that_ended_or_was_closed_gives_nothing_more(rig):
    await rig.finished(b"a", b"end")
    reader = rig.store.hub.open(rig.rid)
    assert [frame.seq for frame in await anext(reader)] == [0, 1]
    assert reader.after == 1
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
    closed = rig.store.hub.open(rig.rid)
    closed.close()
    closed.close()
    with pytest.raises(StopAsyncIteration):
        await anext(closed)
    assert rig.store.hub.feeds == 0


async def test_a_reader_that_leaves_while_it_waits_leaves_nothing_behind(rig):
    await rig.create()
    reading = start(rig.store, rig.rid)
    await wait_until(lambda: readers_wait(rig.store, 1))
    reading.cancel()
    await asyncio.wait([reading])
    assert (rig.store.hub.feeds, rig.store.doorbell.channels) == (0, 0)


async def test_a_long_page_is_given_out_in_batches_and_read_once(rig, elsewhere, monkeypatch):
    monkeypatch.setattr(hubs, "BATCH_BYTES", 100)
    await rig.finished(*(bytes([65 + n]) * 40 for n in range(9)), b"end")
    reads = elsewhere.reads.calls
    async with elsewhere.hub.open(rig.rid) as reader:
        batches = [[frame.seq for frame in frames] async for frames in reader]
    assert batches == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert elsewhere.reads.calls == reads + 1
    assert elsewhere.hub.ahead_bytes == 0


async def test_what_all_readers_have_read_ahead_is_bounded_and_given_back(
    rig, elsewhere, monkeypatch
):
    """Past the bound pages are as short as a batch; nobody misses a frame, and who leaves gives its part back."""
    monkeypatch.setattr(hubs, "BATCH_BYTES", 100)
    monkeypatch.setattr(hubs, "AHEAD_BYTES", 500)
    await rig.finished(*(bytes([65 + n]) * 40 for n in range(9)), b"end")
    readers = [elsewhere.hub.open(rig.rid) for _ in range(5)]
    for reader in readers:
        assert [frame.seq for frame in await anext(reader)] == [0, 1]
    assert 0 < elsewhere.hub.ahead_bytes <= 500
    for reader in readers[1:]:
        rest = [frame.seq async for frames in reader for frame in frames]
        assert rest == list(range(2, 10))
    readers[0].close()
    assert elsewhere.hub.ahead_bytes == 0
