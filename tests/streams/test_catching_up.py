"""Readers that are told of more frames than they have: long pages without the script, and the script where it is needed."""

import pytest

from streams import logs
from streams.faults import Gone, LogLost
from streams.scripts.outputs import PAGE_BYTES, Frame
from tests.streams.test_sealing import ended


async def everything(store, rid, after=-1) -> list[Frame]:
    async with store.hub.open(rid, after) as reader:
        return [frame async for frames in reader for frame in frames]


@pytest.fixture
def scripts(monkeypatch, elsewhere):
    """How often another process's reader asked the script, and for how many frames."""
    asked: list[int] = []
    read = elsewhere.logs.read_output

    async def counting(rid, after, count=logs.PAGE, **bounds):
        asked.append(count)
        return await read(rid, after, count, **bounds)

    monkeypatch.setattr(elsewhere.logs, "read_output", counting)
    return asked


async def test_a_long_log_is_read_in_long_pages(rig, elsewhere, scripts, monkeypatch):
    monkeypatch.setattr(logs, "LONG_PAGE", 7)
    await ended(rig, frames=500)
    frames = (await rig.store.logs.read_output(rig.rid, -1, 500)).frames
    for after in (-1, 0, 250, 497, 498):
        scripts.clear()
        assert await everything(elsewhere, rig.rid, after) == frames[after + 1 :]
        assert len(scripts) == 1


async def test_a_packed_one_too(rig, elsewhere, scripts, monkeypatch):
    monkeypatch.setattr(logs, "LONG_PAGE", 100)
    await ended(rig, frames=500)
    frames = (await rig.store.logs.read_output(rig.rid, -1, 500)).frames
    await rig.seal()
    assert await everything(elsewhere, rig.rid) == frames
    assert scripts == [logs.PAGE, 100, 100, 100]


async def test_a_page_that_was_read_before_spares_the_first_look(rig, elsewhere, scripts):
    await ended(rig, frames=20)
    page = await elsewhere.logs.read_output(rig.rid, -1, 1)
    scripts.clear()
    async with elsewhere.hub.open(rig.rid, -1, page) as reader:
        found = [frame async for frames in reader for frame in frames]
    assert [frame.seq for frame in found] == list(range(20))
    assert scripts == []


async def test_what_is_in_memory_is_bounded(rig, elsewhere, scripts, monkeypatch):
    """A long page is cut to what a page may weigh; a log that could weigh more is left to the script."""
    await rig.running()
    large = b"x" * (PAGE_BYTES // 2 + 1)
    await rig.finish(0, 0, b"small", large, b"small", large, b"small", large, b"end")
    page = await elsewhere.logs.read_output(rig.rid, -1, 1)
    sizes = []
    after = 0
    while after < page.seq:
        found = await elsewhere.logs.read_on(rig.rid, page, after)
        sizes.append(sum(len(frame.data) for frame in found.frames))
        after = found.frames[-1].seq
    assert max(sizes) <= PAGE_BYTES
    assert len(sizes) == 3
    assert scripts == [1], "all of them without the script"
    monkeypatch.setattr(logs, "QUICK_BYTES", PAGE_BYTES)
    await elsewhere.logs.read_on(rig.rid, page, 0)
    assert scripts == [1, logs.PAGE]


async def test_what_happens_under_a_reader_is_seen(rig, elsewhere, monkeypatch):
    monkeypatch.setattr(logs, "LONG_PAGE", 3)
    await ended(rig, frames=12)
    frames = (await rig.store.logs.read_output(rig.rid, -1, 500)).frames
    page = await elsewhere.logs.read_output(rig.rid, -1, 1)
    async with elsewhere.hub.open(rig.rid, -1, page) as reader:
        assert await anext(reader) == frames[:3]
        await rig.seal()
        assert [frame async for found in reader for frame in found] == frames[3:]


async def test_a_hole_or_a_delete_ends_a_reader(rig, elsewhere, monkeypatch):
    monkeypatch.setattr(logs, "LONG_PAGE", 3)
    await ended(rig, frames=12)
    page = await elsewhere.logs.read_output(rig.rid, -1, 1)
    async with elsewhere.hub.open(rig.rid, -1, page) as reader:
        assert len(await anext(reader)) == 3
        await rig.store.connections.command("XDEL", rig.keys.output(rig.rid), "4-1")
        with pytest.raises(LogLost):
            await anext(reader)
    async with elsewhere.hub.open(rig.rid, 5, page) as reader:
        assert len(await anext(reader)) == 3
        await rig.delete()
        with pytest.raises(Gone):
            await anext(reader)
    assert elsewhere.hub.feeds == 0
