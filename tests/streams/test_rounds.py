"""claim_round, append, heartbeat_round, lost."""

import pytest

from streams.scripts.refused import Reason
from streams.scripts.rounds import Outcome
from tests.streams.rig import refused, refused_unchanged
from tests.wait import wait_until
from translator.protocol.entries import Entry, Kind

OPENED = ("opened", b'{"status":200}')
ENDED = ("round_end", b'{"how":"ok"}')


def frames(*texts: bytes) -> list[tuple[str, bytes]]:
    return [("frame", text) for text in texts]


async def test_a_claim_begins_an_attempt_and_brings_the_body(rig):
    await rig.create()
    claim = await rig.claim("tok")
    assert (claim.round, claim.attempt, claim.fence, claim.dup) == (1, 1, "1.1:tok", False)
    assert claim.body == b'{"round":1}'
    assert claim.entry == Entry(3, Kind.ATTEMPT, claim.entry.t, b"{}", 1, 1)
    assert (await rig.log())[2:] == [claim.entry]
    state = await rig.state()
    assert (state.rstate, state.attempt) == ("running", 1)
    assert state.ilease > claim.entry.t


async def test_a_repeated_claim_is_the_same_claim(rig):
    await rig.create()
    claim = await rig.claim("tok")
    before = await rig.everything()
    again = await rig.claim("tok")
    assert again.dup
    assert (again.fence, again.entry, again.body) == (claim.fence, claim.entry, claim.body)
    assert await rig.everything() == before


async def test_a_claimed_round_is_leased_whatever_its_lease_until_it_is_lost(rig):
    await rig.create()
    await rig.claim("a", lease_ms=0)
    assert await refused_unchanged(rig, rig.claim("b"), rig.claim("b", round=2)) == [
        Reason.LEASED,
        Reason.STALE,
    ]
    await rig.lose()
    assert await refused_unchanged(rig, rig.claim("b")) == [Reason.STALE]


async def test_an_ended_round_or_response_is_not_claimed(rig):
    await rig.running()
    await rig.append(1, ENDED)
    assert await refused(rig.claim("b")) is Reason.STALE
    await rig.finish(0, 0, b"end")
    assert await refused(rig.claim("c")) is Reason.DONE


async def test_a_round_whose_body_the_log_lost_is_not_claimed(rig):
    await rig.create()
    await rig.store.connections.command("XDEL", rig.keys.input(rig.rid), "2-1")
    assert await refused(rig.claim()) is Reason.GAP


async def test_appends_are_entries_in_order_as_the_result_tells(rig):
    await rig.running()
    first = [OPENED, *frames(b"a", b"b")]
    one = await rig.append(1, *first)
    two = await rig.append(4, *frames(b"c"), ENDED)
    assert (one.first, one.dup, one.cancelled, one.done) == (4, False, False, False)
    assert (await rig.log())[3:] == [
        *one.entries(rig.claimed, first),
        *two.entries(rig.claimed, [*frames(b"c"), ENDED]),
    ]
    assert [entry.n for entry in await rig.log()] == list(range(1, 9))
    state = await rig.state()
    assert (state.opened, state.rstate, state.ilease, state.last) == (True, "ended", 0, 8)
    assert state.refusal == b""


async def test_an_append_extends_the_lease(rig):
    await rig.running()
    await rig.append(1, OPENED, lease_ms=1)
    short = (await rig.state()).ilease
    await rig.append(2, *frames(b"a"), lease_ms=500_000)
    assert (await rig.state()).ilease > short + 400_000


async def test_a_first_round_that_never_opened_leaves_its_refusal(rig):
    await rig.running()
    await rig.append(1, ("round_end", b'{"how":"http"}'))
    state = await rig.state()
    assert (state.opened, state.refusal) == (False, b'{"how":"http"}')


async def test_a_later_round_that_never_opened_is_no_refusal(rig):
    await rig.running()
    await rig.append(1, OPENED, ENDED)
    await rig.commit(0, 5, 0, b"a", next_round=(2, b"body 2"))
    await rig.claim(round=2)
    await rig.append(1, ("round_end", b'{"how":"refused"}'))
    assert (await rig.state()).refusal == b""


@pytest.mark.parametrize("size", [1, 3, 150])
async def test_a_repeated_append_changes_nothing_and_tells_the_same(rig, size):
    await rig.running()
    await rig.append(1, OPENED)
    batch = frames(*(b"frame %d" % i for i in range(size)))
    first = await rig.append(2, *batch)
    await rig.cancel()
    later = await rig.append(2 + size, *frames(b"later"))
    before = await rig.everything()
    again = await rig.append(2, *batch)
    assert (again.first, again.t, again.dup, again.cancelled) == (first.first, first.t, True, True)
    once = await rig.append(2 + size, *frames(b"later"))
    assert (once.first, once.t, once.dup) == (later.first, later.t, True)
    assert await rig.everything() == before


async def test_the_end_of_a_round_is_recognised_after_the_end_of_the_response(rig):
    await rig.running()
    first = await rig.append(1, ENDED)
    await rig.finish(0, 0, b"end")
    again = await rig.append(1, ENDED)
    assert (again.first, again.t, again.dup, again.done) == (first.first, first.t, True, True)


async def test_the_same_numbers_with_other_bytes_are_a_conflict(rig):
    await rig.running()
    await rig.append(1, OPENED, *frames(b"a", b"b"))
    await rig.append(4, *frames(b"c"))
    assert (
        await refused_unchanged(
            rig,
            rig.append(2, *frames(b"a", b"x")),
            rig.append(2, *frames(b"a"), ("opened", b"b")),
            rig.append(3, *frames(b"b", b"c", b"d")),
            rig.append(1, OPENED, *frames(b"a", b"b", b"c", b"d")),
        )
        == [Reason.CONFLICT] * 4
    )


async def test_a_repeat_that_spans_two_batches_torn_apart_is_a_conflict(rig):
    await rig.running()
    await rig.append(1, *frames(b"a"))
    await rig.cancel()
    await rig.append(2, *frames(b"b"))
    assert await refused(rig.append(1, *frames(b"a", b"b"))) is Reason.CONFLICT


async def test_a_repeat_is_believed_where_the_log_no_longer_holds_it(rig):
    await rig.running()
    await rig.append(1, *frames(b"a", b"b"))
    await rig.store.connections.command("XTRIM", rig.keys.input(rig.rid), "MAXLEN", 0)
    assert (await rig.append(1, *frames(b"a", b"b"))).dup


async def test_a_gap_is_refused(rig):
    await rig.running()
    await rig.append(1, OPENED)
    assert await refused_unchanged(rig, rig.append(3, *frames(b"x"))) == [Reason.GAP]


async def test_only_the_attempt_that_holds_the_round_appends(rig):
    await rig.running()
    await rig.append(1, OPENED)
    assert (
        await refused_unchanged(
            rig,
            rig.append(1, OPENED, fence="1.1:other"),
            rig.append(2, *frames(b"x"), fence="1.2:ingest"),
        )
        == [Reason.FENCED] * 2
    )


async def test_nothing_is_appended_after_the_end_of_a_round_or_response(rig):
    await rig.running()
    await rig.append(1, ENDED)
    assert await refused_unchanged(rig, rig.append(2, *frames(b"x"))) == [Reason.FENCED]
    await rig.finish(0, 0, b"end")
    assert await refused_unchanged(rig, rig.append(2, *frames(b"x"))) == [Reason.DONE]


async def test_a_log_that_is_full_takes_nothing_but_the_end_of_its_round(rig):
    await rig.running()
    room = (await rig.state()).in_bytes + 10
    await rig.append(1, *frames(b"12345"), max_in_bytes=room)
    assert (
        await refused_unchanged(
            rig,
            rig.append(2, *frames(b"123456"), max_in_bytes=room),
            rig.append(2, *frames(b"1"), ENDED, max_in_bytes=room),
        )
        == [Reason.TOO_LARGE] * 2
    )
    await rig.append(2, ("round_end", b'{"how":"too_large"}'), max_in_bytes=room)
    assert (await rig.state()).rstate == "ended"


async def test_an_append_of_nothing_is_a_mistake_of_its_caller(rig):
    await rig.running()
    with pytest.raises(ValueError, match="at least one"):
        rig.appending(1)


async def test_a_heartbeat_keeps_the_lease_and_hears_of_a_cancel(rig):
    await rig.create()
    await rig.claim(lease_ms=1)
    short = (await rig.state()).ilease
    wanted = await rig.beat_round(lease_ms=500_000)
    assert (wanted.cancelled, wanted.done) == (False, False)
    assert (await rig.state()).ilease > short + 400_000
    await rig.cancel()
    assert (await rig.beat_round()).cancelled
    assert await refused_unchanged(rig, rig.beat_round("1.1:other")) == [Reason.FENCED]


async def test_a_heartbeat_after_the_end_takes_no_lease(rig):
    await rig.running()
    await rig.append(1, ENDED)
    await rig.beat_round()
    assert (await rig.state()).ilease == 0
    await rig.finish(0, 0, b"end")
    assert (await rig.beat_round()).done


async def test_an_attempt_that_lives_is_not_lost(rig):
    await rig.running()
    assert await refused_unchanged(rig, rig.lose()) == [Reason.LEASED]


async def test_an_attempt_whose_lease_ran_out_is_lost_once_and_fenced_off(rig):
    await rig.running()
    await rig.append(1, OPENED, lease_ms=0)
    lost = await rig.lose("s")
    assert (await rig.log())[-1] == Entry(lost.n, Kind.ROUND_END, lost.t, b'{"how":"lost"}', 1, 1)
    state = await rig.state()
    assert (state.rstate, state.refusal, state.last) == ("lost", b"", 5)
    before = await rig.everything()
    again = await rig.lose("s")
    assert (again.n, again.t, again.dup) == (lost.n, lost.t, True)
    assert await rig.everything() == before
    assert await refused_unchanged(
        rig,
        rig.lose("t"),
        rig.append(2, *frames(b"late")),
        rig.append(1, OPENED),
        rig.beat_round(),
    ) == [Reason.STALE, Reason.FENCED, Reason.FENCED, Reason.FENCED]


async def test_past_the_deadline_no_lease_protects_and_an_unclaimed_round_is_lost_too(rig):
    await rig.create(run_ms=0)
    await rig.claim()
    await rig.lose()
    assert (await rig.state()).rstate == "lost"


async def test_an_unclaimed_round_is_lost_only_past_the_deadline(rig):
    await rig.create()
    assert await refused_unchanged(rig, rig.lose()) == [Reason.STALE]


async def test_a_round_that_nobody_claimed_till_the_deadline_is_lost(rig):
    await rig.create(run_ms=0)
    await rig.lose()
    assert (await rig.state()).rstate == "lost"


async def test_nothing_is_lost_where_nothing_runs_or_all_is_over(rig):
    await rig.running()
    await rig.append(1, ENDED)
    assert await refused(rig.lose()) is Reason.STALE
    await rig.finish(0, 0, b"end")
    assert await refused(rig.lose()) is Reason.DONE


async def test_a_lost_round_is_claimed_again_once_it_is_reopened(rig):
    await rig.running()
    await rig.append(1, OPENED, lease_ms=0)
    await rig.lose()
    await rig.commit(0, 5, 0, reopen=True)
    claim = await rig.claim("second")
    assert (claim.attempt, claim.fence, claim.body) == (2, "1.2:second", b'{"round":1}')
    result = await rig.append(1, OPENED)
    assert result.first == claim.entry.n + 1
    assert await refused(rig.append(2, *frames(b"x"), fence="1.1:ingest")) is Reason.FENCED


def outcome(rig, *frames: bytes, **changes):
    """What frames lead to after OPENED is entry 4 and frames 0 and 1 were committed at cursor 1."""
    given = {
        "first": 5,
        "fence": rig.lease.fence,
        "expected_cursor": 1,
        "cursor": 5,
        "first_seq": 2,
        "frames": frames,
        "digest": "after",
        "lease_ms": 500_000,
        "max_out_bytes": 10**9,
    } | changes
    return Outcome(**given)


async def shown(rig) -> list[bytes]:
    return [frame.data for frame in (await rig.store.logs.read_output(rig.rid, -1)).frames]


async def begun(rig) -> None:
    await rig.running()
    await rig.append(1, OPENED)
    await rig.commit(0, 1, 0, b"created", b"in_progress")


async def test_an_append_commits_what_it_leads_to(rig):
    await begun(rig)
    before = await rig.state()
    reply = await rig.append(2, *frames(b"a", b"b"), outcome=outcome(rig, b"A", cursor=6))
    assert (reply.first, reply.committed, reply.dup) == (5, True, False)
    assert [entry.data for entry in (await rig.log())[4:]] == [b"a", b"b"]
    assert await shown(rig) == [b"created", b"in_progress", b"A"]
    state = await rig.state()
    assert (state.cursor, state.seq, state.digest) == (6, 2, "after")
    assert (state.last, state.out_bytes) == (6, before.out_bytes + 1)
    assert state.lease > before.lease + 400_000
    await rig.commit(6, 6, 3, b"B")


async def test_entries_that_are_committed_with_their_frames_ring_the_bell_of_outputs_alone(
    rig, elsewhere
):
    await begun(rig)
    rung: list[str] = []
    bells = {"in": rig.keys.bell_in(rig.rid), "out": rig.keys.bell_out(rig.rid)}
    for name, bell in bells.items():
        elsewhere.doorbell.subscribe(bell, lambda name=name: rung.append(name))
    await wait_until(lambda: len(rung) == 2)  # once each, as it stands
    await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"A"))
    await wait_until(lambda: rung[2:] == ["out"])
    await rig.append(3, *frames(b"b"))
    await wait_until(lambda: rung[2:] == ["out", "in"])


async def test_a_repeated_append_with_its_outcome_changes_nothing_and_tells_the_same(rig):
    await begun(rig)
    first = await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"A", b"B"))
    before = await rig.everything()
    again = await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"A", b"B"))
    assert again == first._replace(dup=True)
    assert await rig.everything() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"fence": "1:another"},
        {"expected_cursor": 0},
        {"first_seq": 1},
        {"first_seq": 3},
        {"first": 4},
        {"first": 6},
        {"max_out_bytes": 10},
    ],
)
async def test_an_outcome_that_does_not_fit_leaves_the_append_alone(rig, changes):
    await begun(rig)
    reply = await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"A", **changes))
    assert (reply.first, reply.committed) == (5, False)
    assert [entry.data for entry in (await rig.log())[4:]] == [b"a"]
    assert await shown(rig) == [b"created", b"in_progress"]
    again = await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"A", **changes))
    assert again == reply._replace(dup=True)
    state = await rig.state()
    assert (state.cursor, state.seq, state.last) == (1, 1, 5)


async def test_an_outcome_foreseen_without_a_cancel_is_not_committed_behind_it(rig):
    await begun(rig)
    await rig.cancel()
    reply = await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"A"))
    assert (reply.first, reply.committed, reply.cancelled) == (6, False, True)
    assert await shown(rig) == [b"created", b"in_progress"]


async def test_nothing_is_foreseen_before_the_first_commit(rig):
    await rig.running()
    await rig.append(1, OPENED)
    changes = {"expected_cursor": 0, "first_seq": 0}
    reply = await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"A", **changes))
    assert not reply.committed


async def test_a_refused_append_commits_nothing_either(rig):
    await begun(rig)
    call = rig.append(3, *frames(b"a"), outcome=outcome(rig, b"A"))
    other = rig.append(2, *frames(b"a"), fence="1.1:other", outcome=outcome(rig, b"A"))
    assert await refused_unchanged(rig, call, other) == [Reason.GAP, Reason.FENCED]


async def test_an_outcome_of_other_bytes_is_no_repeat(rig):
    """The append is; whose outcome is not in the log commits it by itself, and is refused there."""
    await begun(rig)
    await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"A"))
    again = await rig.append(2, *frames(b"a"), outcome=outcome(rig, b"X", digest="other"))
    assert (again.dup, again.committed) == (True, False)
