from dataclasses import replace

from streams.logs import State
from workers.verdict import FIRST_READER_MS, LOST_GRACE_MS, SEAL_AGAIN_MS, SOONEST_MS, Action, judge

NOW, LEASE = 1_000_000, 10_000
STATE = State(
    tenant="",
    status="in_progress",
    created=NOW - 60_000,
    store=True,
    background=False,
    expires=NOW + 10**6,
    deadline=NOW + 10**5,
    round=1,
    rstate="running",
    attempt=1,
    ilease=NOW + 3_000,
    last=9,
    in_bytes=1,
    opened=True,
    refusal=b"",
    lease=NOW + 4_000,
    cursor=9,
    seq=3,
    digest="",
    out_bytes=1,
    done=False,
    ended=0,
    sealed=False,
    cancelled=False,
    reader=0,
    jobs=0,
    results={},
)


def verdict(**changes: object) -> tuple[list[Action], int]:
    found = judge(replace(STATE, **changes), NOW, LEASE)  # type: ignore[arg-type]
    return found.actions, found.next_at


def test_a_response_in_good_hands_is_looked_at_when_its_first_lease_ends():
    assert verdict() == ([], NOW + 3_000 + LOST_GRACE_MS)
    assert verdict(rstate="ended", ilease=0) == ([], NOW + 4_000)
    assert verdict(ilease=NOW + 90_000, lease=NOW + 90_000) == ([], NOW + LEASE)


def test_a_finished_response_is_dropped():
    assert verdict(done=True) == ([Action.DROP], 0)


def test_a_response_without_a_translator_is_offered():
    for lease in (0, NOW - 1, NOW):
        assert verdict(lease=lease) == ([Action.OFFER_TRANSLATE], NOW + 3_000 + LOST_GRACE_MS)


def test_a_round_whose_process_died_is_lost_and_then_translated():
    assert verdict(ilease=NOW) == ([], NOW + LOST_GRACE_MS), "it may only have stood still"
    assert verdict(ilease=NOW - LOST_GRACE_MS) == ([Action.LOST], NOW + 4_000)
    assert verdict(ilease=NOW - LOST_GRACE_MS, lease=NOW - 1) == (
        [Action.LOST, Action.OFFER_TRANSLATE],
        NOW + LEASE,
    )


def test_an_open_round_is_offered_again_unless_it_is_cancelled():
    assert verdict(rstate="open", ilease=0) == ([Action.OFFER_ROUND], NOW + 4_000)
    assert verdict(rstate="open", ilease=0, cancelled=True) == ([], NOW + 4_000)
    assert verdict(rstate="lost", ilease=0) == ([], NOW + 4_000)
    assert verdict(rstate="", round=0, ilease=0) == ([], NOW + 4_000)


def test_the_deadline_is_a_cancel_once():
    assert verdict(deadline=NOW)[0] == [Action.DEADLINE]
    assert verdict(deadline=NOW, cancelled=True)[0] == []
    assert verdict(deadline=NOW + 500) == ([], NOW + 500)


def test_no_response_is_looked_at_all_the_time():
    assert verdict(deadline=NOW + 1) == ([], NOW + SOONEST_MS)


def test_an_unstored_response_goes_with_its_last_reader():
    unstored = {"store": False}
    assert verdict(**unstored, reader=NOW)[0] == [Action.ABANDONED]
    assert verdict(**unstored, reader=NOW, cancelled=True)[0] == []
    assert verdict(**unstored, reader=NOW + 2_000) == ([], NOW + 2_000)
    assert verdict(**unstored, reader=0)[0] == [Action.ABANDONED]
    assert verdict(**unstored, reader=0, created=NOW - LEASE + 1) == ([], NOW + SOONEST_MS)


def test_the_first_reader_of_an_unstored_response_may_take_a_moment_longer_than_a_short_lease():
    state = replace(STATE, store=False, created=NOW - FIRST_READER_MS + 1)
    assert judge(state, NOW, 1_000).actions == []
    assert judge(state, NOW + 1, 1_000).actions == [Action.ABANDONED]


def test_calls_that_have_no_result_are_looked_after_until_the_response_is_cancelled():
    assert verdict(jobs=2) == ([Action.TOOLS], NOW + 3_000 + LOST_GRACE_MS)
    assert verdict(jobs=2, cancelled=True) == ([], NOW + 3_000 + LOST_GRACE_MS)


def ended(seal_after_ms: int = 5_000, **changes: object) -> tuple[list[Action], int]:
    state = replace(STATE, done=True, ended=NOW - 5_000, **changes)  # type: ignore[arg-type]
    found = judge(state, NOW, LEASE, seal_after_ms=seal_after_ms)
    return found.actions, found.next_at


def test_a_finished_response_is_sealed_when_its_time_has_come_and_looked_at_again():
    assert ended(5_001) == ([], NOW + 1)
    assert ended() == ([Action.SEAL], NOW + SEAL_AGAIN_MS)
    assert ended(sealed=True) == ([Action.DROP], 0)


def test_one_that_older_code_ended_is_sealed_at_once():
    state = replace(STATE, done=True, ended=0)
    assert judge(state, NOW, LEASE, seal_after_ms=5_000).actions == [Action.SEAL]


def test_nothing_is_sealed_that_is_not_kept_so_long_or_is_not_to_be():
    never = ([Action.DROP], 0)
    assert ended(0) == never
    assert ended(store=False) == never
    assert ended(expires=NOW) == never
    assert ended(expires=NOW + 1)[0] == [Action.SEAL]
