"""What a response needs from outside, judged by its state alone.

In: the state hash, the server's time, the length of a lease, the time from an end to its sealing. Out:
what the sweeper should do now, and when it should look again. Pure; called by `workers.sweep`.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from streams.logs import State

FIRST_READER_MS: Final = 5_000
"""How long an unstored response may be without a reader at its start: its create is on the way."""

SEAL_AGAIN_MS: Final = 60_000
"""When a response that is to be sealed is looked at again: several times what the largest takes, and soon enough for one
that failed."""

LOST_GRACE_MS: Final = 250
"""What a round, or a call of a tool, gets beyond its lease. A translation changes hands and nobody sees it; a round that
is lost may end its response, and the process that stood still a moment longer than its lease may well be alive."""

SOONEST_MS: Final = 100
"""No response is looked at more often, whatever its state says."""


class Action(StrEnum):
    """One thing to do; the order of the members is the order of doing."""

    DROP = "drop"
    SEAL = "seal"
    DEADLINE = "deadline"
    ABANDONED = "abandoned"
    LOST = "lost"
    OFFER_ROUND = "offer_round"
    TOOLS = "tools"
    OFFER_TRANSLATE = "offer_translate"


@dataclass(slots=True)
class Verdict:
    """What to do, and the moment of the next look (0 with DROP)."""

    actions: list[Action] = field(default_factory=list)
    next_at: int = 0


def judge(state: State, now: int, lease_ms: int, *, seal_after_ms: int = 0) -> Verdict:
    """The verdict on a response that exists. With `seal_after_ms` 0 none is ever sealed."""
    if state.done:
        return _judge_ended(state, now, seal_after_ms)
    verdict = Verdict()
    looks = [now + lease_ms]  # whatever is offered now is taken within a lease, or offered again
    _judge_life(state, now, lease_ms, verdict, looks)
    _judge_round(state, now, verdict, looks)
    if state.jobs and not state.cancelled:
        verdict.actions.append(Action.TOOLS)
    if state.lease <= now:
        verdict.actions.append(Action.OFFER_TRANSLATE)
    else:
        looks.append(state.lease)
    verdict.next_at = max(min(looks), now + SOONEST_MS)
    return verdict


def _judge_ended(state: State, now: int, seal_after_ms: int) -> Verdict:
    """Whether it is to be sealed: one that is kept long enough for it, and is not sealed yet."""
    seal_at = state.ended + seal_after_ms
    if not seal_after_ms or not state.store or state.sealed or seal_at >= state.expires:
        return Verdict([Action.DROP])
    if now < seal_at:
        return Verdict([], seal_at)
    return Verdict([Action.SEAL], now + SEAL_AGAIN_MS)


def _judge_life(state: State, now: int, lease_ms: int, verdict: Verdict, looks: list[int]) -> None:
    """Whether it may go on: its deadline, and the readers of an unstored response."""
    if state.cancelled:
        return
    if now >= state.deadline:
        verdict.actions.append(Action.DEADLINE)
        return
    looks.append(state.deadline)
    if state.store:
        return
    read_until = max(state.reader, state.created + max(lease_ms, FIRST_READER_MS))
    if now >= read_until:
        verdict.actions.append(Action.ABANDONED)
    else:
        looks.append(read_until)


def _judge_round(state: State, now: int, verdict: Verdict, looks: list[int]) -> None:
    """Whether somebody runs the round."""
    if state.rstate == "running":
        lost_at = state.ilease + LOST_GRACE_MS
        if lost_at <= now:
            verdict.actions.append(Action.LOST)
        else:
            looks.append(lost_at)
    elif state.rstate == "open" and not state.cancelled:
        verdict.actions.append(Action.OFFER_ROUND)
