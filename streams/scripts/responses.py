"""Typed callers of the scripts that concern a response as a whole: create, cancel, delete, keep.

Called by `api` (and the sweeper, for cancel). Each returns a `Call` for `Writer.do` or `Writer.submit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streams.asked import Asked
from streams.keys import Keys
from streams.scripts.call import Call, Script
from streams.scripts.outputs import Lease
from streams.scripts.rounds import Claim, attempt_entry
from translator.protocol.entries import Entry, Kind

CREATE = Script("create")
CANCEL = Script("cancel")
DELETE = Script("delete")
KEEP = Script("keep")

NOT_ASKED = ("", 0)
"""In place of a token and its ms."""


@dataclass(frozen=True, slots=True)
class Created:
    """A response is there. `created` is ms of the server's clock; `last` the number of its last entry (1 to 3).

    `lease` and `claim` are what was asked for and granted: the same that `acquire` and `claim_round` would have given.
    """

    created: int
    last: int
    dup: bool
    lease: Lease | None
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancel found. `entry` is the cancel entry where this call wrote it, for handing it over."""

    status: str
    done: bool
    entry: Entry | None
    dup: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """How long the readers of an unstored response still have."""

    done: bool
    expires: int


def create(
    keys: Keys,
    rid: str,
    *,
    tenant: str,
    store: bool,
    background: bool,
    request_data: bytes,
    round_body: bytes | None,
    run_ms: int,
    retention_ms: int,
    jobs: Sequence[tuple[str, bytes]] = (),
    secrets: bytes | None = None,
    placed: bool = False,
    lease: Asked[Lease] | None = None,
    claim: Asked[Claim] | None = None,
) -> Call[Created]:
    """The state, the `request` entry and, where `round_body` is given, round 1. Refuses EXISTS.

    `lease` and `claim` (of round 1) are granted in the same step; `Created` says what came of it. Raises ValueError for
    a claim without a round.

    `placed`: see that it has a place among the open responses (`hints.due_begin`), in the same step; refuses FULL. Not in a
    cluster, where places are in another slot: there the answer of `due_begin` comes first.

    `jobs` are `(key, data)` for tool workers (see `streams.scripts.tools`), `secrets` what they need to know for them.
    """
    if claim is not None and round_body is None:
        raise ValueError("there is no round to claim")

    def parse(reply: Any) -> Created:
        created, last, dup, fence, claimed = reply
        entries = [Entry(1, Kind.REQUEST, created, request_data)]
        if round_body is not None:
            entries.append(Entry(2, Kind.ROUND, created, round_body, 1))
        granted = None
        if claimed:
            entry = attempt_entry(last, created, 1, 1)
            entries.append(entry)
            granted = Claim(
                1, 1, claimed.decode(), entry, round_body or b"", request_data, bool(dup)
            )
        leased = Lease(fence.decode(), 0, -1, "", bool(dup), tuple(entries)) if fence else None
        return Created(created, last, bool(dup), leased, granted)

    return Call(
        rid,
        CREATE,
        (
            *(keys.state(rid), keys.input(rid), keys.jobs(rid), keys.secrets(rid)),
            *(keys.open[1:2] if placed else ()),
        ),
        (
            tenant,
            int(store),
            int(background),
            request_data,
            run_ms,
            retention_ms,
            int(round_body is not None),
            round_body or b"",
            secrets or b"",
            *((lease.token, lease.lease_ms) if lease else NOT_ASKED),
            *((claim.token, claim.lease_ms) if claim else NOT_ASKED),
            *(part for job in jobs for part in job),
        ),
        parse,
        size=len(request_data)
        + len(round_body or b"")
        + len(secrets or b"")
        + sum(len(data) for _, data in jobs),
    )


def cancel(keys: Keys, rid: str, *, reason: str, reader: str = "") -> Call[Cancelled]:
    """A `cancel` entry, once; of a finished response only its state is told. Refuses MISSING.

    `reader` is who of `keep` has left: then nothing is written while others read.
    `reason` is one of ours ("client", "abandoned", "deadline"), never text of a client.
    """
    data = b'{"reason":"%s"}' % reason.encode()

    def parse(reply: Any) -> Cancelled:
        n, t = reply[2], reply[3]
        entry = Entry(n=n, kind=Kind.CANCEL, t=t, data=data) if n else None
        return Cancelled(reply[0].decode(), bool(reply[1]), entry, bool(reply[4]))

    where = (keys.state(rid), keys.input(rid))
    return Call(rid, CANCEL, where, (data, keys.bell_in(rid), reader), parse)


def delete(keys: Keys, rid: str) -> Call[None]:
    """All its keys go at once. Refuses MISSING (also when a lost reply is repeated)."""
    return Call(
        rid,
        DELETE,
        (
            keys.state(rid),
            keys.input(rid),
            keys.output(rid),
            keys.secrets(rid),
            keys.jobs(rid),
            keys.seal(rid),
        ),
        (keys.bell_in(rid), keys.bell_out(rid)),
        _nothing,
    )


def _nothing(reply: Any) -> None:
    del reply


def keep(keys: Keys, rid: str, *, reader: str, lease_ms: int, grace_ms: int) -> Call[Kept]:
    """A reader of an unstored response is there; changes nothing of a stored one. Refuses MISSING.

    `reader` tells it from others that read the same: a word of ours without ':' and ','.
    """
    return Call(
        rid,
        KEEP,
        (keys.state(rid), keys.input(rid), keys.output(rid)),
        (lease_ms, grace_ms, reader),
        _kept,
    )


def _kept(reply: Any) -> Kept:
    return Kept(bool(reply[0]), reply[1])
