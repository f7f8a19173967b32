"""acquire, commit, heartbeat, release, read_output."""

import pytest

from streams.faults import LogLost
from streams.scripts.outputs import PAGE_BYTES, Frame, acquire, commit
from streams.scripts.refused import Reason
from tests.ingest.made import made
from tests.streams.rig import refused, refused_unchanged
from translator.protocol.entries import Entry, Kind


async def test_who_acquires_learns_what_is_committed(rig):
    await rig.create()
    lease = await rig.acquire("a")
    assert (lease.fence, lease.cursor, lease.seq, lease.digest) == ("1:a", 0, -1, "")
    await rig.commit(0, 2, 0, b"x", b"y", digest="d")
    await rig.release()
    again = await rig.acquire("b")
    assert (again.fence, again.cursor, again.seq, again.digest) == ("2:b", 2, 1, "d")
    assert (await rig.state()).epoch == 2


async def test_a_response_has_one_holder(rig):
    await rig.create()
    await rig.acquire("a")
    assert await refused_unchanged(rig, rig.acquire("b")) == [Reason.LEASED]


async def test_a_repeated_acquire_is_the_same_lease(rig):
    await rig.create()
    lease = await rig.acquire("a")
    before = await rig.everything()
    again = await rig.acquire("a")
    assert (again.fence, again.dup) == (lease.fence, True)
    assert await rig.everything() == before


async def test_a_lease_that_ran_out_goes_to_the_next(rig):
    await rig.create()
    await rig.acquire("a", lease_ms=0)
    old = rig.lease
    await rig.acquire("b")
    assert (
        await refused_unchanged(
            rig,
            rig.commit(0, 1, 0, b"x", fence=old.fence),
            rig.beat(old.fence),
            rig.release(old.fence),
        )
        == [Reason.FENCED] * 3
    )


async def test_an_expired_lease_that_nobody_took_still_commits(rig):
    await rig.create()
    await rig.acquire(lease_ms=0)
    await rig.commit(0, 1, 0, b"x")
    assert await refused(rig.acquire("b")) is Reason.LEASED


async def test_a_finished_response_is_not_acquired(rig):
    await rig.finished()
    assert await refused(rig.acquire("b")) is Reason.DONE


async def test_frames_have_their_sequence_numbers_as_ids(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a", b"b", status="in_progress")
    await rig.commit(1, 2, 2, b"c")
    result = await rig.finish(2, 3, b"d", b"end")
    assert (result.seq, result.dup, result.entry) == (4, False, None)
    raw = await rig.store.connections.command("XRANGE", rig.keys.output(rig.rid), "-", "+")
    assert raw == [
        (b"0-1", {b"d": b"a"}),
        (b"1-1", {b"d": b"b"}),
        (b"2-1", {b"d": b"c"}),
        (b"3-1", {b"d": b"d"}),
        (b"4-1", {b"d": b"end", b"e": b"1"}),
    ]


async def test_outputs_cursor_digest_and_status_move_together(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"abc", digest="d1", status="in_progress")
    state = await rig.state()
    assert (state.cursor, state.seq, state.digest, state.status, state.out_bytes) == (
        1,
        0,
        "d1",
        "in_progress",
        3,
    )
    await rig.commit(1, 2, 1, digest="d1")
    state = await rig.state()
    assert (state.cursor, state.seq, state.status) == (2, 0, "in_progress")


async def test_a_commit_extends_the_lease(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a", lease_ms=1)
    short = (await rig.state()).lease
    await rig.commit(1, 2, 1, b"b", lease_ms=500_000)
    assert (await rig.state()).lease > short + 400_000


async def test_the_output_log_lives_as_long_as_the_rest(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a")
    lives = await rig.lifetimes()
    assert set(lives) == {"st", "in", "out"}
    assert max(lives.values()) - min(lives.values()) < 1_000


async def test_at_the_end_all_keys_get_one_expiry_and_secrets_go(rig):
    await rig.running()
    await rig.store.connections.command("HSET", rig.keys.secrets(rig.rid), "authorization", "x")
    await rig.commit(0, 1, 0, b"a")
    await rig.finish(1, 1, b"end", retain_ms=30_000)
    lives = await rig.lifetimes()
    assert set(lives) == {"st", "in", "out"}
    assert all(20_000 < life <= 30_000 for life in lives.values())
    state = await rig.state()
    assert (state.done, state.status, state.lease, state.ilease) == (True, "completed", 0, 0)


async def test_a_response_that_ends_with_its_first_commit_gets_that_expiry_too(rig):
    await rig.finished()
    assert set(await rig.lifetimes()) == {"st", "in", "out"}


async def test_a_repeated_commit_changes_nothing(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a")
    await rig.commit(1, 2, 1, b"b", b"c")
    before = await rig.everything()
    again = await rig.commit(1, 2, 1, b"b", b"c")
    assert (again.seq, again.dup) == (2, True)
    assert await rig.everything() == before


async def test_a_repeated_cursor_alone_changes_nothing(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a")
    await rig.commit(1, 3, 1, digest="d")
    assert (await rig.commit(1, 3, 1, digest="d")).dup


async def test_a_commit_of_nothing_at_all_is_no_repeat(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a", digest="d")
    assert not (await rig.commit(1, 1, 1, digest="d", status="in_progress")).dup
    assert (await rig.state()).status == "in_progress"


async def test_a_repeated_last_commit_is_recognised_after_the_end_and_the_release(rig):
    await rig.running()
    await rig.finish(0, 0, b"end")
    await rig.release()
    before = await rig.everything()
    assert (await rig.finish(0, 0, b"end")).dup
    assert await rig.everything() == before


async def test_the_same_place_with_another_digest_is_a_conflict(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a", digest="one")
    assert await refused_unchanged(rig, rig.commit(0, 1, 0, b"b", digest="two")) == [
        Reason.CONFLICT
    ]


async def test_cursors_and_numbers_that_do_not_continue_the_log_are_refused(rig):
    await rig.running()
    await rig.commit(0, 2, 0, b"a")
    assert await refused_unchanged(
        rig,
        rig.commit(1, 3, 1, b"b"),
        rig.commit(2, 1, 1, b"b"),
        rig.commit(2, 4, 1, b"b"),
        rig.commit(2, 3, 2, b"b"),
        rig.commit(2, 3, 0, b"b"),
        rig.commit(2, 3, 1, b"b", next_round=(3, b"body")),
    ) == [Reason.CURSOR] * 3 + [Reason.SEQ] * 2 + [Reason.GAP]


async def test_nothing_follows_the_end(rig):
    await rig.running()
    await rig.finish(0, 0, b"end")
    assert await refused_unchanged(rig, rig.commit(0, 1, 1, b"more")) == [Reason.DONE]


async def test_a_log_that_is_full_takes_nothing_but_its_end(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"12345", max_out_bytes=8)
    assert await refused_unchanged(rig, rig.commit(1, 2, 1, b"1234", max_out_bytes=8)) == [
        Reason.TOO_LARGE
    ]
    await rig.finish(1, 1, b"a long end", max_out_bytes=8)


async def test_an_end_needs_a_frame_and_a_status(rig):
    await rig.running()
    with pytest.raises(ValueError, match="terminal"):
        rig.committing(0, 1, 0, terminal=True, status="completed")
    with pytest.raises(ValueError, match="terminal"):
        rig.committing(0, 1, 0, b"end", terminal=True)


async def test_the_next_round_is_written_by_the_commit_and_can_be_claimed(rig):
    await rig.running()
    await rig.append(1, ("round_end", b'{"how":"ok"}'))
    result = await rig.commit(0, 4, 0, b"a", next_round=(2, b"body 2"))
    assert result.entry == Entry(5, Kind.ROUND, result.t, b"body 2", 2)
    assert (await rig.log())[-1] == result.entry
    again = await rig.commit(0, 4, 0, b"a", next_round=(2, b"body 2"))
    assert (again.dup, again.entry) == (True, result.entry)
    claim = await rig.claim(round=2)
    assert (claim.attempt, claim.fence, claim.body) == (1, "2.1:ingest", b"body 2")


async def test_the_first_body_of_a_round_wins(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a", next_round=(2, b"first"))
    result = await rig.commit(1, 2, 1, b"b", next_round=(2, b"second"))
    assert result.entry is None
    assert [entry.data for entry in await rig.log() if entry.kind == Kind.ROUND] == [
        b'{"round":1}',
        b"first",
    ]


async def test_a_first_round_may_come_from_a_commit(rig):
    await rig.create(round_body=None)
    await rig.acquire()
    await rig.commit(0, 1, 0, b"a", next_round=(1, b"body"))
    assert (await rig.claim()).body == b"body"


async def test_an_end_starts_no_round(rig):
    await rig.running()
    result = await rig.finish(0, 0, b"end", next_round=(2, b"body"), reopen=True)
    assert result.entry is None
    assert (await rig.state()).round == 1


async def test_only_a_lost_round_is_reopened(rig):
    await rig.running()
    await rig.commit(0, 1, 0, b"a", reopen=True)
    assert (await rig.state()).rstate == "running"


async def test_a_heartbeat_tells_how_long_the_input_is(rig):
    await rig.running()
    alive = await rig.beat()
    assert (alive.last, alive.cancelled, alive.done) == (3, False, False)
    await rig.cancel()
    alive = await rig.beat()
    assert (alive.last, alive.cancelled) == (4, True)
    await rig.finish(0, 0, b"end")
    assert (await rig.beat()).done
    assert (await rig.state()).lease == 0


async def test_what_is_released_is_acquired_at_once(rig):
    await rig.create()
    await rig.acquire("a")
    await rig.release()
    await rig.release()
    assert (await rig.acquire("b")).fence == "2:b"


async def test_a_page_holds_frames_and_the_state_of_the_same_moment(rig):
    await rig.running()
    page = await rig.store.logs.read_output(rig.rid, -1)
    assert (page.frames, page.seq, page.done, page.status) == ([], -1, False, "queued")
    await rig.commit(0, 1, 0, b"a", b"b", status="in_progress")
    await rig.finish(1, 2, b"end")
    page = await rig.store.logs.read_output(rig.rid, 0)
    assert page.frames == [Frame(1, b"b"), Frame(2, b"end", terminal=True)]
    assert (page.seq, page.done, page.status) == (2, True, "completed")
    assert (await rig.store.logs.read_output(rig.rid, -1, 1)).frames == [Frame(0, b"a")]
    assert (await rig.store.logs.read_output(rig.rid, 2)).frames == []
    assert (await rig.store.logs.read_output(rig.rid, 99)).seq == 2


async def test_a_page_is_bounded_in_bytes_but_holds_a_frame(rig):
    await rig.running()
    large = b"x" * (PAGE_BYTES // 2 + 1)
    await rig.commit(0, 1, 0, large, b"small", large, b"more")
    page = await rig.store.logs.read_output(rig.rid, -1)
    assert [frame.seq for frame in page.frames] == [0, 1]
    await rig.commit(1, 2, 4, b"y" * (PAGE_BYTES + 1), b"z")
    assert [f.seq for f in (await rig.store.logs.read_output(rig.rid, 3)).frames] == [4]


@pytest.mark.parametrize("lost", [["0-1"], ["1-1"], ["2-1"], ["0-1", "1-1", "2-1"]])
async def test_a_hole_is_never_taken_for_emptiness(rig, lost):
    await rig.running()
    await rig.commit(0, 1, 0, b"a", b"b", b"c", b"d")
    await rig.store.connections.command("XDEL", rig.keys.output(rig.rid), *lost, "3-1")

    async def follow() -> None:
        for after in range(-1, 3):
            await rig.store.logs.read_output(rig.rid, after)

    with pytest.raises(LogLost):
        await follow()


async def test_the_last_frame_is_read_alone(rig):
    await rig.create()
    assert await rig.store.logs.last_frame(rig.rid) is None
    await rig.acquire()
    await rig.finish(0, 0, b"a", b"end")
    assert await rig.store.logs.last_frame(rig.rid) == Frame(1, b"end", terminal=True)


async def test_a_repeated_commit_before_the_first_round_names_no_round(store):
    """While a server's tools are listed there is none: a translator that was told of one waited for ever."""
    rid = await made(store, round_body=None)
    lease = await store.writer.do(acquire(store.keys, rid, token="a", lease_ms=60_000))
    first = {"fence": lease.fence, "expected_cursor": 0, "cursor": 1, "first_seq": 0}
    bounds = {"lease_ms": 60_000, "retain_ms": 60_000, "max_out_bytes": 1 << 20}
    call = commit(store.keys, rid, frames=[b"a"], digest="d", **first, **bounds)
    assert [(await store.writer.do(call)).dup, (await store.writer.do(call)).dup] == [False, True]
    assert (await store.writer.do(call)).entry is None
