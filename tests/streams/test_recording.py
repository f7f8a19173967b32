"""A response read whole, whatever form its logs have, and put into another store."""

import dataclasses

import pytest

from streams import recording
from streams.faults import Gone, LogLost
from streams.recording import Recording, StillRuns, chapters
from streams.scripts.outputs import Frame
from streams.scripts.refused import Reason
from streams.store import Store
from tests.streams.rig import Rig, refused
from tests.streams.test_sealing import chaptered, ended
from translator.protocol.entries import Entry
from translator.protocol.errors import LimitPassed

RETAIN_MS = 60_000


async def read(store: Store, rid: str) -> Recording:
    return await recording.read(store.logs, rid)


@pytest.fixture
async def other(store_url, namespace):
    """An empty store: another namespace of the same server."""
    async with Store.open(store_url, f"{namespace}:other") as opened:
        yield opened


# ---- reading


@pytest.mark.parametrize("sealed", [False, True])
async def test_a_response_is_read_whole_in_pages(rig, monkeypatch, sealed):
    monkeypatch.setattr(recording, "PAGE", 4)
    await ended(rig, frames=10, entries=11)
    said, shown = await rig.log(), (await rig.store.logs.read_output(rig.rid, -1, 10_000)).frames
    if sealed:
        await rig.seal(await chaptered(rig))
    steps: list[tuple[int, int]] = []
    found = await recording.read(rig.store.logs, rig.rid, lambda *step: steps.append(step))
    assert found.entries == said
    assert found.frames == shown
    assert found.state == await rig.state()
    assert found.request["version"] == 1
    assert steps[-1] == (len(said) + 10, len(said) + 10)
    assert steps == sorted(steps)
    assert len(steps) >= 6


async def test_a_response_that_runs_is_read_as_far_as_its_state_says(rig):
    await rig.running()
    await rig.append(1, ("frame", b"one"), ("frame", b"two"))
    await rig.commit(0, 3, 0, b"first", b"second")
    found = await read(rig.store, rig.rid)
    assert [frame.data for frame in found.frames] == [b"first", b"second"]
    assert [entry.n for entry in found.entries] == [1, 2, 3, 4, 5]
    assert not found.state.done


async def test_a_response_that_is_not_there_is_gone(store):
    with pytest.raises(Gone):
        await read(store, "resp_" + "0" * 32)


async def test_a_log_with_a_hole_is_not_read_over(rig):
    await ended(rig)
    await rig.store.connections.command("XDEL", rig.keys.input(rig.rid), "3-1")
    with pytest.raises(LogLost, match="entry 0"):
        await read(rig.store, rig.rid)


async def test_secrets_are_not_read(rig):
    await rig.create(secrets=b'{"authorization":"hunter2"}')
    found = await read(rig.store, rig.rid)
    assert "hunter2" not in repr(found)


# ---- writing


@pytest.mark.parametrize("sealed", [False, True])
async def test_what_is_written_reads_the_same(rig, other, sealed):
    await ended(rig, frames=30, entries=40)
    if sealed:
        await rig.seal()
    found = await read(rig.store, rig.rid)
    done = await recording.write(other, found, retain_ms=RETAIN_MS)
    assert not done.dup
    again = await read(other, rig.rid)
    assert (again.entries, again.frames) == (found.entries, found.frames)
    # What may differ is what belongs to the store: leases, the time when it goes, how it lies there.
    same = {"expires": 0, "sealed": True, "rstate": "", "ilease": 0, "lease": 0, "digest": ""}
    same["in_bytes"] = 0  # of entries without data a store counts nothing
    assert dataclasses.replace(again.state, **same) == dataclasses.replace(found.state, **same)
    assert again.state.expires == done.expires


async def test_all_its_keys_go_together_after_the_retention(rig, other):
    await ended(rig)
    done = await recording.write(other, await read(rig.store, rig.rid), retain_ms=RETAIN_MS)
    lives = await Rig(other, rig.rid).lifetimes()
    assert set(lives) == {"st", "seal"}
    assert abs(lives["st"] - lives["seal"]) <= 1_000  # they are asked for one after the other
    assert RETAIN_MS - 5_000 < lives["st"] <= RETAIN_MS
    assert abs(done.expires - await other.logs.now() - lives["st"]) < 1_000


async def test_writing_it_again_changes_nothing(rig, other):
    await ended(rig)
    found = await read(rig.store, rig.rid)
    first = await recording.write(other, found, retain_ms=RETAIN_MS)
    before = await Rig(other, rig.rid).everything()
    second = await recording.write(other, found, retain_ms=10 * RETAIN_MS)
    assert (second.dup, second.expires) == (True, first.expires)
    assert await Rig(other, rig.rid).everything() == before


async def test_another_response_of_that_id_is_left_alone(rig, other):
    await ended(rig)
    found = await read(rig.store, rig.rid)
    changed = dataclasses.replace(found, frames=[*found.frames[:-1], Frame(9, b"other", True)])
    await recording.write(other, changed, retain_ms=RETAIN_MS)
    assert await refused(recording.write(other, found, retain_ms=RETAIN_MS)) is Reason.EXISTS
    await Rig(other, rig.rid).delete()
    await recording.write(other, found, retain_ms=RETAIN_MS, tenant="umbrella")
    assert (await read(other, rig.rid)).state.tenant == "umbrella"


async def test_what_has_not_ended_is_not_written(rig, other):
    await rig.running()
    with pytest.raises(StillRuns):
        await recording.write(other, await read(rig.store, rig.rid), retain_ms=RETAIN_MS)
    assert await other.logs.state(rig.rid) is None


async def test_what_is_too_large_for_one_call_is_not_written(rig, other, monkeypatch):
    monkeypatch.setattr(recording, "MAX_PACKED_BYTES", 100)
    await ended(rig)
    with pytest.raises(LimitPassed):
        await recording.write(other, await read(rig.store, rig.rid), retain_ms=RETAIN_MS)
    assert await other.logs.state(rig.rid) is None


async def test_chapters_hold_the_same_share_of_both_logs(rig):
    await ended(rig)
    found = await read(rig.store, rig.rid)
    entries = [Entry(n, "frame", n, bytes(1000)) for n in range(1, 2001)]
    frames = [Frame(n, bytes(1000)) for n in range(1000)]
    cut = chapters(dataclasses.replace(found, entries=entries, frames=frames))
    assert [e for said, _ in cut for e in said] == entries
    assert [f for _, shown in cut for f in shown] == frames
    assert {(len(said), len(shown)) for said, shown in cut} == {(333, 166), (333, 167), (334, 167)}
