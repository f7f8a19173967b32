"""The sealer: what it packs, what it leaves alone, and what it costs."""

import asyncio
import dataclasses
import hashlib
import json
import os
from pathlib import Path
from statistics import median

import pytest

from respool.demo_chat import chunks
from respool.demo_upstream import answer
from streams import metrics
from streams.faults import StoreAway
from streams.store import Store
from tests.ingest.made import entries
from tests.stall import longest_stall
from tests.streams.rig import Rig
from tests.translator.drive import fold, upstream
from tests.wait import wait_until
from tests.workers.team import LEASE_MS, seal, stream, translate_limits, translating
from tests.workers.test_sweep import due_at, swept
from translator.protocol.entries import Entry
from translator.protocol.sse import Blocks
from workers import seal as seal_module
from workers.seal import Sealer
from workers.sweep import Sweeper
from workers.verdict import SEAL_AGAIN_MS

SEAL_AFTER_MS = 50


async def ended(store: Store, frames: int = 40, entries: int = 20, size: int = 50) -> Rig:
    rig = await Rig(store).running()
    await rig.append(1, *(("frame", b"said %d" % n + bytes(size)) for n in range(entries)))
    await rig.finish(0, 0, *(b"shown %d" % n + bytes(size) for n in range(frames)))
    return rig


async def sealed(store: Store, rid: str) -> bool:
    state = await store.logs.state(rid)
    return state is not None and state.sealed


async def attended(sealer: Sealer, rig: Rig) -> None:
    """The sealer has done what it does with this one."""
    sealer.take(rig.rid, await rig.state())
    working = asyncio.create_task(sealer.run())
    await wait_until(lambda: rig.rid not in sealer._taken)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


def failures(reason: str) -> float:
    return metrics.value("seals_failed_total", reason=reason)


# ---- when


async def test_a_response_is_sealed_some_time_after_its_end_and_leaves_the_due_set(store):
    limits = dataclasses.replace(translate_limits(), seal_after_ms=SEAL_AFTER_MS)
    rig = Rig(store)
    await rig.create(run_ms=1)
    before = metrics.value("responses_sealed_total")
    async with translating(store, limits):
        await store.due.enter(rig.rid, after_ms=1)
        store.work.offer("translate", rig.rid)
        frames = await stream(store, rig.rid)
        await wait_until(lambda: sealed(store, rig.rid))
        await wait_until(lambda: gone(store, rig.rid))
    state = await rig.state()
    assert await store.logs.now() >= state.ended + SEAL_AFTER_MS
    assert (await store.logs.read_output(rig.rid, -1)).frames == frames
    assert metrics.value("responses_sealed_total") == before + 1


async def gone(store: Store, rid: str) -> bool:
    return await due_at(store, rid) is None


async def test_until_then_it_stays_in_the_due_set(store):
    limits = dataclasses.replace(translate_limits(), seal_after_ms=30_000)
    rig = Rig(store)
    await rig.create(run_ms=1)
    async with translating(store, limits):
        await store.due.enter(rig.rid, after_ms=1)
        store.work.offer("translate", rig.rid)
        await stream(store, rig.rid)
        ended_at = (await rig.state()).ended
        await wait_until(lambda: put_off(store, rig.rid, ended_at + 29_000))
    sweeper = Sweeper(store, lease_ms=LEASE_MS, seal_after_ms=30_000)
    await swept(store, rig.rid, sweeper)
    assert await due_at(store, rig.rid) == ended_at + 30_000
    assert sweeper._sealer._taken == set()
    await swept(store, rig.rid, Sweeper(store, lease_ms=LEASE_MS))
    assert await due_at(store, rig.rid) is None, "by a sweeper that seals nothing"


async def put_off(store: Store, rid: str, until: int) -> bool:
    return (await due_at(store, rid) or 0) >= until


@pytest.mark.parametrize("seal_after_ms", [0, 60_000])
async def test_what_is_never_to_be_sealed_leaves_the_due_set_at_its_end(store, seal_after_ms):
    """Sealing is off, or the response is not kept so long."""
    limits = dataclasses.replace(translate_limits(), seal_after_ms=seal_after_ms)
    rig = Rig(store)
    await rig.create(run_ms=1)
    async with translating(store, limits):
        await store.due.enter(rig.rid, after_ms=1)
        store.work.offer("translate", rig.rid)
        await stream(store, rig.rid)
        await wait_until(lambda: gone(store, rig.rid))


async def test_one_that_waits_is_asked_for_again_and_taken_once(store):
    rig = await ended(store)
    sweeper = Sweeper(store, lease_ms=LEASE_MS, seal_after_ms=1)
    await wait_until(lambda: older(rig))
    await swept(store, rig.rid, sweeper)
    await swept(store, rig.rid, sweeper)
    now = await store.logs.now()
    assert now < await due_at(store, rig.rid) <= now + SEAL_AGAIN_MS
    assert sweeper._sealer._waiting.qsize() == 1


async def older(rig: Rig) -> bool:
    return await rig.store.logs.now() > (await rig.state()).ended + 1


async def test_past_a_bound_they_wait_in_the_due_set(store, monkeypatch):
    monkeypatch.setattr(seal_module, "MAX_WAITING", 1)
    one, other = await ended(store), await ended(store)
    sealer = Sealer(store)
    for rig in (one, other):
        sealer.take(rig.rid, await rig.state())
    assert sealer._taken == {one.rid}


# ---- how


async def test_the_parts_of_a_long_response_are_read_as_one(store, elsewhere, monkeypatch):
    monkeypatch.setattr(seal_module, "CHAPTER_BYTES", 5_000)
    rig = await ended(store, frames=700, entries=450)
    output, log = (await store.logs.read_output(rig.rid, -1, 10_000)).frames, await rig.log()
    await seal(store, rig.rid)
    packed = await store.logs._archive._volume(rig.rid)
    assert len(packed.contents.places) > 2
    found = []
    while page := (await elsewhere.logs.read_output(rig.rid, len(found) - 1)).frames:
        found += page
    assert found == output
    assert await entries(elsewhere, rig.rid) == log


async def test_what_cannot_be_sealed_now_is_left_for_another_time(store, caplog):
    rig = await ended(store)
    await store.due.enter(rig.rid, after_ms=60_000)
    sealer, failed = Sealer(store), failures("StoreAway")

    class Away:
        async def do(self, _: object) -> None:
            raise StoreAway("away")

    sealer._store = dataclasses.replace(store, bulk=Away())
    before = await rig.everything()
    await attended(sealer, rig)
    assert await rig.everything() == before
    assert failures("StoreAway") == failed + 1
    assert "could not be sealed: away" in caplog.text
    assert await due_at(store, rig.rid) is not None
    sealer._store = store
    await attended(sealer, rig)
    assert (await rig.state()).sealed
    assert await due_at(store, rig.rid) is None


@pytest.mark.parametrize("log", ["input", "output"])
async def test_a_log_with_a_hole_lives_on_as_it_is(store, log):
    rig = await ended(store)
    await store.due.enter(rig.rid, after_ms=60_000)
    key = getattr(rig.keys, log)(rig.rid)
    await store.connections.command("XTRIM", key, "MAXLEN", 0)
    before, failed = await rig.everything(), failures("LogLost")
    await attended(Sealer(store), rig)
    assert await rig.everything() == before
    assert failures("LogLost") == failed + 1
    assert await due_at(store, rig.rid) is None


async def test_logs_that_do_not_pack_live_on_as_they_are(store, monkeypatch):
    monkeypatch.setattr(seal_module, "MAX_PACKED_BYTES", 10)
    rig = await ended(store)
    await store.due.enter(rig.rid, after_ms=60_000)
    before, failed = await rig.everything(), failures("LimitPassed")
    await attended(Sealer(store), rig)
    assert await rig.everything() == before
    assert failures("LimitPassed") == failed + 1
    assert await due_at(store, rig.rid) is None


async def test_one_that_is_deleted_meanwhile_is_no_trouble(store, caplog):
    rig = await ended(store)
    state = await rig.state()
    await rig.delete()
    sealer, failed = Sealer(store), failures("MISSING")
    await sealer._attend(rig.rid, state)
    assert await rig.lifetimes() == {}
    assert failures("MISSING") == failed + 1
    assert caplog.text == ""


async def test_a_fault_of_ours_ends_that_sealing_alone(store, monkeypatch, caplog):
    one, other = await ended(store), await ended(store)
    sealer, pack = Sealer(store), Sealer._packed

    async def broken(self, rid, state):
        if rid == one.rid:
            raise KeyError("oh")
        return await pack(self, rid, state)

    monkeypatch.setattr(Sealer, "_packed", broken)
    sealer.take(one.rid, await one.state())
    await attended(sealer, other)
    assert (await other.state()).sealed
    assert not (await one.state()).sealed
    assert "Traceback" in caplog.text


async def test_two_processes_that_seal_one_response_make_one_seal(store, elsewhere):
    rig = await ended(store)
    state = await rig.state()
    before = metrics.value("responses_sealed_total")
    output = (await store.logs.read_output(rig.rid, -1)).frames
    await asyncio.gather(*(Sealer(one)._attend(rig.rid, state) for one in (store, elsewhere)))
    assert metrics.value("responses_sealed_total") == before + 1
    assert (await elsewhere.logs.read_output(rig.rid, -1)).frames == output
    await Sealer(elsewhere)._attend(rig.rid, state)
    assert metrics.value("responses_sealed_total") == before + 1


# ---- what it costs, and what it brings


def hard_to_pack(number: int) -> bytes:
    """A frame that takes the packer its time."""
    return hashlib.shake_128(b"%d" % number).hexdigest(100).encode() + b" and so on" * 20


@pytest.mark.usefixtures("collected_as_served")
@pytest.mark.parametrize("store_url", ["valkey"], indirect=True)
async def test_packing_a_long_log_stops_nobody(store, elsewhere):
    rig = await Rig(elsewhere).running()
    for first in range(1, 16_000, 1_000):
        said = [hard_to_pack(n) for n in range(first, first + 1_000)]
        await rig.append(first, *(("frame", data) for data in said))
        await rig.commit(0, 0, first - 1, *said)
    await rig.finish(0, 16_000, b"end")
    state = await rig.state()
    assert min(state.in_bytes, state.out_bytes) > 5_000_000
    watching = asyncio.create_task(longest_stall())
    await Sealer(store)._attend(rig.rid, state)
    reading = [frame async for more in store.hub.open(rig.rid) for frame in more]
    watching.cancel()
    assert await watching < 0.03
    assert (await rig.state()).sealed
    assert len(reading) == 16_001


def ratio(entries: list[Entry], frames: list[bytes]) -> float:
    """How many times smaller than the data of both logs their packed value is."""
    from streams.scripts.outputs import Frame
    from streams.sealed import Packer

    packer = Packer()
    packer.add(entries, [Frame(seq, data) for seq, data in enumerate(frames)])
    return packer.raw_bytes / len(packer.value())


@pytest.mark.parametrize("model", ["m", "kitchen-sink"])
@pytest.mark.parametrize("chat", [False, True])
def test_even_a_short_stream_becomes_eight_times_smaller(model, chat):
    body = {"model": model, "input": "hi", "tools": [{"type": "function", "name": "look"}]}
    events = list(answer(body))
    log = (
        upstream(*map(json.dumps, chunks(events, model)), "[DONE]", _api="chat")
        if chat
        else upstream(*events)
    )
    assert ratio(log.entries, fold(log.entries).frames) > 8


def recorded(file: Path) -> tuple[list[Entry], list[bytes]]:
    """The logs of a recorded stream, as this gateway would have made them, with times that differ."""
    cutter = Blocks()
    blocks = [bytes(block) for block in [*cutter.feed(file.read_bytes()), *cutter.flush()]]
    api = "chat" if file.parent.name == "chat" else "responses"
    said = [
        entry._replace(t=entry.t + entry.n**2 % 37) for entry in upstream(*blocks, _api=api).entries
    ]
    return said, fold(said).frames


def test_recorded_streams_become_eight_times_smaller():
    folder = os.environ.get("RESPOOL_CORPUS")
    if not folder:
        pytest.skip("RESPOOL_CORPUS does not name the folder of recorded streams")
    ratios = [ratio(*recorded(file)) for file in sorted(Path(folder).glob("*/*.sse"))]
    assert len(ratios) > 100
    assert median(ratios) > 10
    # A few hold mostly what looks like noise: signatures, encrypted reasoning, search results of the provider.
    assert sum(found >= 8 for found in ratios) > 0.95 * len(ratios)
