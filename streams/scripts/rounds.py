"""Typed callers of the scripts around one inference round: claim_round, append, heartbeat_round, lost.

Called by `ingest` (the first three) and the sweeper (lost). Results carry the entries that the call wrote, exactly as a
reader of the log would see them, so that they can be handed over inside the process.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from streams.keys import Keys
from streams.scripts.call import Arg, Call, Script
from streams.scripts.outputs import FRAME_OVERHEAD
from translator.protocol.entries import Entry, Kind

CLAIM = Script("claim_round")
APPEND = Script("append")
HEARTBEAT = Script("heartbeat_round")
LOST = Script("lost")

ANY_ROUND = 0
"""In place of a round's number: whichever is open."""

LOST_DATA = b'{"how":"lost"}'


class Held(NamedTuple):
    """An attempt at a round, by whoever claimed it. `fence` goes into each of its calls."""

    round: int
    attempt: int
    fence: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A round is taken. `fence` goes into every later call of this attempt.

    `entry` is the `attempt` entry, for handing it over; `body` what is to be sent upstream, byte for byte; `request` the
    data of the log's first entry, which says to whom.
    """

    round: int
    attempt: int
    fence: str
    entry: Entry
    body: bytes
    request: bytes
    dup: bool

    @property
    def held(self) -> Held:
        """What has to be kept of it for as long as the upstream streams."""
        return Held(self.round, self.attempt, self.fence)


class AppendResult(NamedTuple):
    """Where the appended entries stand: `first`, `first + 1`, … all stamped `t`. A tuple, since one is made for every frame.

    `cancelled` and `done` tell the producer to close its upstream; `committed` that its outcome is in the log as well.
    """

    first: int
    t: int
    cancelled: bool
    done: bool
    dup: bool
    committed: bool

    def entries(self, held: Held, items: Sequence[tuple[str, bytes]]) -> list[Entry]:
        """The entries as the log holds them, given the items that were appended."""
        n, t = self.first, self.t
        return [
            Entry(n + i, kind, t, data)
            if kind == Kind.FRAME
            else Entry(n + i, kind, t, data, held.round, held.attempt)
            for i, (kind, data) in enumerate(items)
        ]


class Outcome(NamedTuple):
    """What entries lead to if they become the log's entries from `first` on: a plain commit, of frames alone.

    `fence`, `expected_cursor`, `cursor`, `first_seq`, `digest`, `lease_ms` and `max_out_bytes` are those of `commit`. A
    tuple, since one is made for every frame.
    """

    first: int
    fence: str
    expected_cursor: int
    cursor: int
    first_seq: int
    frames: Sequence[bytes]
    digest: str
    lease_ms: int
    max_out_bytes: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whether an attempt's work is still wanted."""

    cancelled: bool
    done: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt was ended for its process: the `round_end` entry is number `n`."""

    n: int
    t: int
    dup: bool


def claim_round(
    keys: Keys, rid: str, *, token: str, lease_ms: int, round: int = ANY_ROUND
) -> Call[Claim]:
    """Take the open round, or this one only.

    Refuses MISSING, DONE, LEASED (it runs, or ran and nobody said `lost` yet), STALE, GAP.
    """

    def parse(reply: Any) -> Claim:
        number, attempt, fence, n, t, dup, body, request = reply
        entry = attempt_entry(n, t, number, attempt)
        return Claim(number, attempt, fence.decode(), entry, body, request, bool(dup))

    return Call(
        rid,
        CLAIM,
        (keys.state(rid), keys.input(rid)),
        (round, token, lease_ms, keys.bell_in(rid)),
        parse,
    )


def attempt_entry(n: int, t: int, round: int, attempt: int) -> Entry:
    """The entry that a claim writes."""
    return Entry(n, Kind.ATTEMPT, t, b"{}", round, attempt)


def append(
    keys: Keys,
    rid: str,
    *,
    fence: str,
    first_frame_no: int,
    items: Sequence[tuple[str, bytes]],
    lease_ms: int,
    max_in_bytes: int,
    outcome: Outcome | None = None,
) -> Call[AppendResult]:
    """Append `(kind, data)` items of an attempt, numbered from `first_frame_no` (1 at the attempt's start).

    Kinds are opened, frame and round_end (last of its batch). Refuses MISSING, DONE, FENCED, GAP, CONFLICT, TOO_LARGE;
    a lone round_end is never too large. With an `outcome` all items are frames; where it does not fit the logs any more
    the items are appended all the same, and nothing is committed.
    """
    if not items:
        raise ValueError("an append needs at least one item")
    args: list[Arg] = [
        fence,
        first_frame_no,
        lease_ms,
        max_in_bytes,
        keys.bell_in(rid),
        len(items),
    ]
    size = 0
    for item in items:
        args.extend(item)
        size += len(item[1]) + ITEM_OVERHEAD
    if outcome is None:
        where: tuple[str, ...] = (keys.state(rid), keys.input(rid))
    else:
        where = (keys.state(rid), keys.input(rid), keys.output(rid))
        args += (
            outcome.fence,
            outcome.first,
            outcome.expected_cursor,
            outcome.cursor,
            outcome.first_seq,
            outcome.digest,
            outcome.lease_ms,
            outcome.max_out_bytes,
            keys.bell_out(rid),
            *outcome.frames,
        )
        size += sum(map(len, outcome.frames)) + FRAME_OVERHEAD * len(outcome.frames)
    return Call(rid, APPEND, where, tuple(args), _appended, size=size)


ITEM_OVERHEAD = 20
"""Bytes of kind and framing beside each item's data, for bounds."""


def _appended(reply: Any) -> AppendResult:
    first, t, cancelled, done, dup, committed = reply
    return AppendResult(first, t, cancelled == 1, done == 1, dup == 1, committed == 1)


def heartbeat_round(keys: Keys, rid: str, *, fence: str, lease_ms: int) -> Call[Wanted]:
    """Silence is not death. Refuses MISSING, FENCED."""
    return Call(rid, HEARTBEAT, (keys.state(rid),), (fence, lease_ms), _wanted)


def _wanted(reply: Any) -> Wanted:
    return Wanted(bool(reply[0]), bool(reply[1]))


def lost(keys: Keys, rid: str, *, token: str) -> Call[Lost]:
    """End an attempt whose lease ran out. Refuses MISSING, DONE, STALE (nothing runs), LEASED (it lives).

    Past the response's deadline a live lease protects no longer, nor does a round that nobody ever claimed.
    """
    return Call(
        rid,
        LOST,
        (keys.state(rid), keys.input(rid)),
        (token, LOST_DATA, keys.bell_in(rid)),
        _lost,
    )


def _lost(reply: Any) -> Lost:
    return Lost(reply[0], reply[1], bool(reply[2]))
