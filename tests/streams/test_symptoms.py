"""Failures that similar systems had at their store, which no other test here is named after (docs/failures.md)."""

import asyncio

import pytest

from streams.client import Link
from streams.scripts.refused import Reason
from tests.streams.rig import Rig, refused, refused_unchanged
from tests.streams.test_hub import commit_unheard, start, waits
from tests.wait import wait_until


async def test_frames_that_came_between_two_empty_looks_are_not_skipped(
    rig, elsewhere, monkeypatch
):
    """A reader that asks for "what comes from now on", again and again, misses what comes between."""
    for module in ("hub", "feed", "doorbell"):
        monkeypatch.setattr(f"streams.{module}.POLL_S", 0.01)
    await rig.create()
    await rig.acquire()
    reading = start(elsewhere, rig.rid)
    for seq in range(0, 10, 2):  # with no bell at all: only the looks find them
        await wait_until(lambda: waits(elsewhere))
        for n in (seq, seq + 1):
            await commit_unheard(rig, n, b"%d" % n)
            await asyncio.sleep(0.004)
    await rig.finish(0, 10, b"end")
    assert [frame.seq for frame in await reading] == list(range(11))


async def test_a_write_repeated_after_another_writer_wrote_is_not_written_twice(rig):
    """A, then B of another writer, then A again because its reply was lost: the log is A, B."""
    await rig.running()
    append = rig.appending(1, ("frame", b"A"))
    first = await rig.do(append)
    await rig.cancel()
    again = await rig.do(append)
    assert (again.first, again.dup) == (first.first, True)
    kinds = [entry.kind for entry in await rig.log()]
    assert kinds == ["request", "round", "attempt", "frame", "cancel"]


class Failover:
    """A replica that has missed what comes after its making, and is then made the primary."""

    def __init__(self, rig: Rig, state: dict[bytes, bytes], entries: int) -> None:
        self._rig, self._state, self._entries = rig, state, entries

    @classmethod
    async def lagging(cls, rig: Rig) -> "Failover":
        state = await rig.store.connections.command("HGETALL", rig.keys.state(rig.rid))
        return cls(rig, state, len(await rig.log()))

    async def happens(self) -> None:
        command, keys, rid = self._rig.store.connections.command, self._rig.keys, self._rig.rid
        state, log = keys.state(rid), keys.input(rid)
        life, entries = await command("PTTL", state), await self._rig.log()
        await command("DEL", state, log)
        await command("HSET", state, *(part for pair in self._state.items() for part in pair))
        for one in entries[: self._entries]:
            fields = ("k", one.kind, "t", one.t, "d", one.data, "r", one.round, "a", one.attempt)
            await command("XADD", log, f"{one.n}-1", *fields)
        for key in (state, log):
            await command("PEXPIRE", key, life)


async def test_an_epoch_that_a_failover_repeats_is_another_fence_for_who_translates(rig):
    await rig.create()
    failover = await Failover.lagging(rig)
    mine = await rig.acquire("mine")
    await failover.happens()
    theirs = await rig.acquire("theirs")
    assert mine.fence.partition(":")[0] == theirs.fence.partition(":")[0], "the same epoch"
    assert (
        await refused_unchanged(
            rig,
            rig.commit(0, 1, 0, b"mine", fence=mine.fence),
            rig.beat(mine.fence),
            rig.release(mine.fence),
        )
        == [Reason.FENCED] * 3
    )
    await rig.commit(0, 1, 0, b"theirs", fence=theirs.fence)


async def test_an_attempt_that_a_failover_repeats_is_another_fence_for_who_ingests(rig):
    await rig.create()
    failover = await Failover.lagging(rig)
    mine = await rig.claim("mine")
    await failover.happens()
    theirs = await rig.claim("theirs")
    assert (mine.round, mine.attempt) == (theirs.round, theirs.attempt)
    assert mine.fence != theirs.fence
    late = rig.appending(1, ("frame", b"mine"), fence=mine.fence)
    assert await refused(rig.do(late)) is Reason.FENCED
    await rig.append(1, ("frame", b"theirs"))
    assert [entry.data for entry in await rig.log()][-1] == b"theirs"


async def test_a_quiet_run_outlives_three_retentions_and_its_keys_go_together(rig):
    """A life that only writes renew deletes the history of a run that is silent for long."""
    retention_ms = 100
    await rig.create(run_ms=60_000, retention_ms=retention_ms)
    await rig.claim()
    await rig.acquire()
    await rig.append(1, ("frame", b"early"))
    await rig.commit(0, 4, 0, b"early")
    await asyncio.sleep(3 * retention_ms / 1000)
    assert len(await rig.log()) == 4
    assert (await rig.store.logs.read_output(rig.rid, -1)).frames[0].data == b"early"
    lives = await rig.lifetimes()
    assert set(lives) == {"st", "in", "out"}
    assert min(lives.values()) > 50_000
    await rig.finish(4, 1, b"end", retain_ms=retention_ms)
    ends = await rig.lifetimes()
    assert set(ends) == {"st", "in", "out"}
    assert max(ends.values()) <= retention_ms

    async def gone() -> bool:
        return not await rig.lifetimes()

    await wait_until(gone)


async def test_a_blocked_read_that_is_cancelled_leaves_no_reply_for_the_next_one(store):
    """Elsewhere the reply came in to whoever used the connection next, or froze it."""
    key = f"{store.keys.ns}:blocked"
    link: Link = store.connections.link(key)
    for _ in range(3):
        reading = asyncio.ensure_future(link.call("XREAD", "BLOCK", 60_000, "STREAMS", key, "0"))
        await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await link.drop()
        async with asyncio.timeout(2):
            assert await link.call("ECHO", "mine") == b"mine"
    async with asyncio.timeout(2):
        assert await store.logs.now() > 0
