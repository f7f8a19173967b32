"""Logs that are packed while others read them: the script, and every read before, during and after it."""

import asyncio
import json

import pytest

from streams import archive, metrics
from streams.archive import Archive, Cache
from streams.faults import Gone, LogLost, SealDamaged
from streams.scripts.outputs import Frame
from streams.scripts.refused import Reason, Refused
from streams.scripts.sealing import read_seal
from streams.sealed import Packer
from tests.streams.rig import Rig, refused, refused_unchanged
from tests.wait import wait_until

REQUEST = json.dumps({"version": 1, "input": [{"id": "msg_1"}]}).encode()


async def ended(rig: Rig, frames: int = 10, entries: int = 10, **changes) -> Rig:
    """A finished response with so many frames and so many upstream frames."""
    await rig.create(request_data=REQUEST, **changes)
    await rig.claim()
    await rig.acquire()
    await rig.append(1, *(("frame", b"said %d" % n) for n in range(entries)))
    await rig.finish(0, 0, *(b"shown %d\n\n" % n for n in range(frames)))
    return rig


async def chaptered(rig: Rig, size: int = 3) -> Packer:
    """Both logs packed into chapters of a few items."""
    said, shown = await rig.log(), (await rig.store.logs.read_output(rig.rid, -1, 10_000)).frames
    packer = Packer()
    for at in range(0, max(len(said), len(shown)), size):
        packer.add(said[at : at + size], shown[at : at + size])
    return packer


# ---- the script


async def test_a_seal_takes_the_place_of_both_logs_and_lives_as_long(rig):
    await ended(rig)
    before = await rig.lifetimes()
    assert await rig.seal() is False
    lives = await rig.lifetimes()
    assert set(before) == {"st", "in", "out"}
    assert set(lives) == {"st", "seal"}
    assert before["st"] - 5_000 < lives["seal"] <= before["st"]
    assert abs(lives["seal"] - lives["st"]) <= 1_000, "asked one after the other"
    state = await rig.state()
    assert (state.sealed, state.done) == (True, True)
    assert state.created < state.ended <= await rig.store.logs.now()


async def test_a_repeated_seal_changes_nothing(rig, elsewhere):
    await ended(rig)
    packer = await rig.packed()
    await rig.seal(packer)
    before = await rig.everything()
    assert await rig.seal(packer) is True
    assert await Rig(elsewhere, rig.rid).seal(packer, value=b"another", entries=1) is True
    assert await rig.everything() == before


async def test_what_is_not_finished_stored_and_whole_is_not_sealed(rig, store):
    assert await refused(rig.seal(Packer())) == Reason.MISSING
    await rig.running()
    await rig.commit(0, 1, 0, b"a")
    assert await refused_unchanged(rig, rig.seal()) == [Reason.OPEN]
    await rig.finish(1, 1, b"b")
    packer = await rig.packed()
    entries, frames = packer.entries, packer.frames
    calls = [
        rig.seal(packer, entries=entries - 1),
        rig.seal(packer, entries=entries + 1),
        rig.seal(packer, frames=frames - 1),
        rig.seal(packer, frames=frames + 1),
    ]
    assert await refused_unchanged(rig, *calls) == [Reason.CHANGED] * 4
    await store.connections.command("XTRIM", rig.keys.output(rig.rid), "MAXLEN", 1)
    assert await refused_unchanged(rig, rig.seal(packer)) == [Reason.CHANGED]
    unstored = await ended(Rig(store), store=False)
    assert await refused_unchanged(unstored, unstored.seal()) == [Reason.UNSTORED]


async def test_a_sealed_response_takes_no_more_than_a_finished_one(rig):
    await ended(rig)
    await rig.seal()
    before = await rig.everything()
    calls = [
        rig.append(11, ("frame", b"x")),
        rig.commit(0, 0, 10, b"x"),
        rig.acquire("other"),
        rig.claim("other"),
        rig.lose(),
        rig.tool_result("1.0"),
    ]
    assert {await refused(call) for call in calls} == {Reason.DONE}
    cancelled = await rig.cancel()
    assert (cancelled.status, cancelled.done, cancelled.entry) == ("completed", True, None)
    assert (await rig.create(request_data=REQUEST)).dup
    assert await refused(rig.create(tenant="other", request_data=REQUEST)) == Reason.EXISTS
    assert await rig.everything() == before


async def test_a_delete_takes_the_seal_as_well(rig):
    await ended(rig)
    await rig.seal()
    logs = rig.store.logs
    await logs.read_output(rig.rid, -1)
    await rig.delete()
    assert await rig.lifetimes() == {}
    assert await refused(logs.read_output(rig.rid, -1)) == Reason.MISSING
    assert await logs.read_input(rig.rid, 0) == []
    assert await refused(logs.last_frame(rig.rid)) == Reason.MISSING


async def test_a_response_that_older_code_made_is_read_and_sealed(rig, store):
    await ended(rig)
    await store.connections.command("HDEL", rig.keys.state(rig.rid), "ended")
    state = await rig.state()
    assert (state.ended, state.sealed) == (0, False)
    before = await store.logs.read_output(rig.rid, -1)
    await rig.seal()
    assert (await store.logs.read_output(rig.rid, -1)).frames == before.frames


# ---- reading


async def reads(store, rid: str, frames: int, entries: int) -> list:
    """Every read there is, from every place."""
    logs = store.logs
    heard: list = []
    for after in range(frames):
        logs.request_output(rid, after - 1, 4, heard.append)
    for after in range(entries + 2):
        logs.request_input(rid, after, 4, heard.append)
    await wait_until(lambda: len(heard) == frames + entries + 2)
    pages = [await logs.read_output(rid, after) for after in range(-1, frames + 2)]
    by_callback = [page.frames if hasattr(page, "frames") else page for page in heard]
    return [
        [(page.seq, page.done, page.status) for page in pages],
        [shown(await joined(logs, rid, after)) for after in range(-1, frames)],
        [await logs.read_input(rid, after, 5) for after in range(entries + 2)],
        sorted(by_callback, key=repr),
        await logs.last_frame(rid),
        await logs.read_request(rid),
    ]


async def joined(logs, rid: str, after: int) -> list[Frame]:
    found: list[Frame] = []
    while page := (await logs.read_output(rid, after + len(found))).frames:
        found += page
    return found


def shown(frames: list[Frame]) -> tuple[bytes, list[int]]:
    return b"".join(frame.data for frame in frames), [f.seq for f in frames if f.terminal]


async def test_every_read_is_the_same_before_and_after_here_and_elsewhere(rig, store, elsewhere):
    await ended(rig)
    one_chapter = 100
    before = await reads(store, rig.rid, 10, 13)
    await rig.seal(await chaptered(rig, one_chapter))
    for reader in (store, elsewhere):
        assert await reads(reader, rig.rid, 10, 13) == before


async def test_chapters_end_pages_and_nothing_else(rig, store, elsewhere):
    await ended(rig)
    input_log, output_log = await rig.log(), await joined(store.logs, rig.rid, -1)
    await rig.seal(await chaptered(rig))
    for reader in (store, elsewhere):
        assert await joined(reader.logs, rig.rid, -1) == output_log
        for after in range(-1, 10):
            assert await joined(reader.logs, rig.rid, after) == output_log[after + 1 :]
        assert await reader.logs.read_input(rig.rid, 0, 10_000) == input_log
        assert await reader.logs.read_input(rig.rid, 1, 9) == input_log[1:10]
        assert await reader.logs.last_frame(rig.rid) == output_log[-1]


async def test_a_reader_goes_on_in_the_seal_where_the_log_left_off(rig, elsewhere):
    """Three pages: the first is read from the log, the others, of which one ends with a chapter, from the seal."""
    await ended(rig, frames=450, entries=450)
    packer = await chaptered(rig, 270)
    readers = [store.hub.open(rig.rid) for store in (rig.store, elsewhere)]
    begun = [await anext(reader) for reader in readers]
    await rig.seal(packer)
    for reader, first in zip(readers, begun, strict=True):
        rest = [[frame.seq for frame in more] async for more in reader]
        assert [len(first), *map(len, rest)] == [200, 70, 180]
        assert sum(rest, [frame.seq for frame in first]) == list(range(450))


@pytest.mark.parametrize("after", range(-1, 9))
async def test_readers_are_sealed_under_in_the_middle_of_a_log(rig, elsewhere, monkeypatch, after):
    """Both have read a page; the next one comes from the seal, for one of them in another process."""
    monkeypatch.setattr("streams.hub.Reader._next", paged(2))
    await ended(rig)
    packer = await chaptered(rig)
    readers = [store.hub.open(rig.rid, after) for store in (rig.store, elsewhere)]
    begun = [await anext(reader) for reader in readers]
    await rig.seal(packer)
    for reader, first in zip(readers, begun, strict=True):
        frames = first + [frame async for more in reader for frame in more]
        assert [frame.data for frame in frames] == [
            b"shown %d\n\n" % n for n in range(after + 1, 10)
        ]
        assert frames[-1].terminal


def paged(count: int):
    """A reader that reads the log itself, so many frames at a time."""

    async def read(reader) -> list[Frame]:
        page = await reader._logs.read_output(reader._feed.rid, reader.after, count)
        reader._feed.learn(page)
        return page.frames

    return read


async def test_readers_at_every_place_of_a_sealed_log_end(rig, elsewhere):
    await ended(rig)
    await rig.seal(await chaptered(rig))
    for store in (rig.store, elsewhere):
        for after in range(-1, 10):
            found = []
            async with store.hub.open(rig.rid, after) as reader:
                async for more in reader:
                    found += more
            assert [frame.seq for frame in found] == list(range(after + 1, 10))


async def test_a_feed_that_waits_behind_is_served_from_the_seal(rig, elsewhere):
    """A reader waits at the tail; the end and the seal come while no bell reaches it."""
    await rig.create()
    await rig.acquire()
    await rig.commit(0, 1, 0, b"a")
    async with elsewhere.hub.open(rig.rid) as reader:
        assert [frame.data for frame in await anext(reader)] == [b"a"]
        waiting = asyncio.create_task(anext(reader))
        await wait_until(lambda: reader._feed._waiters)
        reader._feed.look = lambda: None
        await rig.finish(1, 1, b"b", b"c")
        await rig.seal()
        del reader._feed.look
        reader._feed.look()
        assert [frame.data for frame in await waiting] == [b"b", b"c"]


async def test_a_response_that_goes_between_the_look_and_the_seal_is_gone(rig, store, monkeypatch):
    await ended(rig)
    await rig.seal()
    read = Archive._read

    async def late(self, rid, start, size):
        await store.connections.command("DEL", rig.keys.state(rid), rig.keys.seal(rid))
        return await read(self, rid, start, size)

    monkeypatch.setattr(Archive, "_read", late)
    fields = await store.connections.command("HGETALL", rig.keys.state(rig.rid))
    flat = [part for pair in fields.items() for part in pair]

    async def again() -> None:
        await store.connections.command("HSET", rig.keys.state(rig.rid), *flat)

    heard: list = []
    store.logs.request_output(rig.rid, -1, 4, heard.append)
    await wait_until(lambda: heard)
    assert isinstance(heard[0], Refused)
    await again()
    assert await refused(store.logs.read_output(rig.rid, -1)) == Reason.MISSING
    await again()
    assert await store.logs.read_input(rig.rid, 0) == []
    await again()
    assert await refused(store.logs.last_frame(rig.rid)) == Reason.MISSING
    await again()
    with pytest.raises(Gone):
        await anext(store.hub.open(rig.rid))


async def test_a_damaged_seal_is_a_lost_log_that_names_itself(rig, store, elsewhere, caplog):
    await ended(rig)
    await rig.seal()
    key = rig.keys.seal(rig.rid)
    value = await store.connections.command("GET", key)
    damaged = metrics.value("seals_damaged_total")
    for harm in (
        ("SETRANGE", key, len(value) - 5, b"\0\0\0\0\0"),
        ("SETRANGE", key, 0, b"?"),
        ("DEL", key),
    ):
        await store.connections.command(*harm)
        logs = Archive(rig.keys, elsewhere.reads)
        with pytest.raises(SealDamaged):
            await logs.frames(rig.rid, -1, 10)
        with pytest.raises(LogLost):
            await logs.entries(rig.rid, 0, 10)
    assert metrics.value("seals_damaged_total") == damaged + 6
    assert rig.rid in caplog.text
    await rig.delete()


async def test_a_seal_that_lacks_frames_is_damaged_not_short(rig, store):
    await ended(rig)
    packer = Packer()
    packer.add(await rig.log(), (await store.logs.read_output(rig.rid, -1, 5)).frames)
    await rig.seal(packer, frames=10)
    with pytest.raises(SealDamaged, match="no frame 5"):
        await joined(store.logs, rig.rid, -1)


# ---- the cache


async def test_a_chapter_is_fetched_once_for_all_its_readers(rig, store, monkeypatch):
    monkeypatch.setattr(archive, "LEAD_BYTES", 40)
    await ended(rig)
    await rig.seal(await chaptered(rig, 5))
    fetched: list[int] = []
    read = Archive._read

    async def counted(self, rid, start, size):
        fetched.append(start)
        return await read(self, rid, start, size)

    monkeypatch.setattr(Archive, "_read", counted)
    again = [joined(store.logs, rig.rid, -1) for _ in range(5)]
    whole, *others = await asyncio.gather(*again)
    assert all(other == whole for other in others)
    contents, chapters = sorted(set(fetched))[:2], sorted(set(fetched))[2:]
    assert contents == [0, 40]
    assert [fetched.count(start) for start in chapters] == [1, 1]


async def test_the_cache_is_bounded_and_a_small_one_serves_as_well(rig, store):
    await ended(rig)
    await rig.seal(await chaptered(rig))
    small = Archive(rig.keys, store.reads, cache_bytes=900)
    for after in range(-1, 9):
        assert (await small.frames(rig.rid, after, 1))[0].seq == after + 1
        assert small._chapters.bytes <= 675
    assert small._volumes.bytes <= 225


def test_what_was_used_last_stays():
    cache: Cache[str, int] = Cache(10)
    for name, cost in (("a", 4), ("b", 4)):
        cache.put(name, cost, cost)
    assert cache.get("a") == 4
    cache.put("c", 3, 3)
    assert [cache.get(name) for name in "abc"] == [4, None, 3]
    cache.put("a", 5, 5)
    assert (cache.get("a"), cache.bytes) == (5, 8)
    cache.put("d", 11, 11)
    assert ([cache.get(name) for name in "acd"], cache.bytes) == ([None, None, None], 0)


async def test_a_page_of_a_seal_is_bounded_like_one_of_a_log(rig, store):
    await rig.create()
    await rig.acquire()
    await rig.finish(0, 0, *(bytes(40) for _ in range(10)))
    await rig.seal()
    assert len((await store.logs.read_output(rig.rid, -1, most_bytes=100)).frames) == 2
    assert len((await store.logs.read_output(rig.rid, -1, most_bytes=10)).frames) == 1


async def test_a_part_of_a_value_is_read_as_it_lies(rig, store):
    await ended(rig)
    packer = await rig.packed()
    await rig.seal(packer)
    value = packer.value()
    part = await store.reads.do(read_seal(rig.keys, rig.rid, start=3, size=9))
    assert part == value[3:12]
    rest = await store.reads.do(read_seal(rig.keys, rig.rid, start=5, size=10**6))
    assert rest == value[5:]
