"""Typed callers of the scripts on shared keys: work hints, the due set, the places of open responses.

Shared keys carry no response's hash tag, so these calls stand alone: each touches keys of one slot. Called by
`streams.work`, `streams.due` and the translate worker.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from streams.keys import DUE_TTL_MS, WORK_TTL_MS, Keys
from streams.scripts.call import Call, Script

HINT = Script("hint")
GROUP = Script("group")
TAKEN = Script("taken")
DUE_ENTER = Script("due_enter")
DUE_TAKE = Script("due_take")
DUE_BEGIN = Script("due_begin")
DUE_END = Script("due_end")

GROUP_NAME = "respool"

WORK_CAP = 100_000
"""Hints kept at most (some MB). Past that the oldest go: the sweeper finds their responses in the due set."""

DUE_HOLD_MS = 3_000
"""How long a response that a sweeper took is not given to another one: longer than a look takes, the pause after an outage
included (`workers.sweep.RETURN_S`), and all that the death of a sweeper with it in hand costs."""

PLACE_SLACK_MS = 60_000
"""How long a place outlives the longest run. It is given back at the end, by whoever sees it; this is for an end that
nobody can see any more, because the store has lost the response and its entry in the due set."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a response that is about to be created needs room for. A bound of 0 is none."""

    tenant: str
    most: int
    """Responses open at once, of all tenants in all processes."""
    most_of_tenant: int
    run_ms: int


class Taken(NamedTuple):
    """Responses that were due; `next_in_ms` tells when the next one will be, None where there is none."""

    rids: list[str]
    next_in_ms: int | None


def hint(keys: Keys, kind: str, rid: str) -> Call[None]:
    """Put a hint where any process that does such work will read it."""
    return Call(rid, HINT, (keys.work(kind),), (rid, WORK_TTL_MS, WORK_CAP), _nothing)


def group(keys: Keys, kind: str) -> Call[None]:
    """See to it that the consumer group of a kind of work is there."""
    return Call("", GROUP, (keys.work(kind),), (GROUP_NAME, WORK_TTL_MS), _nothing)


def taken(keys: Keys, kind: str, ids: list[bytes]) -> Call[None]:
    """Hints that were read are deleted; the stream holds only those that nobody has."""
    key = keys.work(kind)
    return Call("", TAKEN, (key,), (WORK_TTL_MS, *ids), _nothing)


def due_enter(keys: Keys, rid: str, *, at: int | None, after_ms: int | None) -> Call[None]:
    """Enter (or move) a response: `at` is ms of the server's clock, `after_ms` counts from its now."""
    when, how = (at, "at") if at is not None else (after_ms or 0, "after")
    return Call(rid, DUE_ENTER, (keys.due,), (rid, when, how, DUE_TTL_MS), _nothing)


def due_take(keys: Keys, *, now: int | None, limit: int) -> Call[Taken]:
    """The responses that are due, each held back from others for DUE_HOLD_MS, and when the next one is."""
    moment = "" if now is None else now
    return Call("", DUE_TAKE, (keys.due,), (moment, limit, DUE_HOLD_MS, DUE_TTL_MS), _taken)


def due_begin(keys: Keys, rid: str, *, after_ms: int, place: Place) -> Call[None]:
    """Enter a response that is about to be created, if there is a place for it. Refuses FULL, TENANT_FULL."""
    args = (
        *(rid, after_ms, DUE_TTL_MS, place.tenant, place.most, place.most_of_tenant),
        place.run_ms + PLACE_SLACK_MS,
    )
    return Call(rid, DUE_BEGIN, keys.open, args, _nothing)


def due_end(
    keys: Keys, rid: str, *, at: int | None = None, after_ms: int | None = None
) -> Call[None]:
    """A response has ended, or is gone: its place is free. Look at it again then, or, without a time, never."""
    if at is not None:
        when, how = at, "at"
    else:
        when, how = after_ms or 0, "never" if after_ms is None else "after"
    return Call(rid, DUE_END, keys.open, (rid, when, how, DUE_TTL_MS), _nothing)


def _taken(reply: Any) -> Taken:
    now, next_at, *rids = reply
    return Taken([rid.decode() for rid in rids], next_at - now if next_at else None)


def _nothing(reply: Any) -> None:
    del reply
