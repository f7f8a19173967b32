"""Typed callers of the scripts around the output log: acquire, commit, heartbeat, release, read_output, last_frame.

Called by the translate worker (the first four) and `streams.logs` (the last two).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from streams.faults import LogLost
from streams.keys import Keys
from streams.scripts.call import Call, Script
from streams.scripts.entry import entry_of
from translator.protocol.entries import Entry, Kind

ACQUIRE = Script("acquire")
COMMIT = Script("commit")
HEARTBEAT = Script("heartbeat")
RELEASE = Script("release")
READ = Script("read_output")
LAST = Script("last_frame")

FRAME_OVERHEAD = 12
"""Bytes of framing beside each frame's data, for bounds."""


FIRST_ENTRIES = 8
"""Entries that come with a lease: request, round, attempt, opened and a few frames; a longer log is read in pages."""

PAGE_BYTES = 2**20
"""One read, however large the frames are (one frame alone may be larger)."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What a translate worker holds, and what is already committed (`seq` -1: nothing).

    `entries` are the first of the log, where nothing is committed yet: most responses are taken when they are made.
    """

    fence: str
    cursor: int
    seq: int
    digest: str
    dup: bool
    entries: tuple[Entry, ...] = ()


class CommitResult(NamedTuple):
    """A commit is in the log; `seq` is its last frame. `entry` is the `round` entry where it wrote one.

    A tuple, since one is made for every frame.
    """

    seq: int
    t: int
    entry: Entry | None
    dup: bool


@dataclass(frozen=True, slots=True)
class Alive:
    """What a heartbeat heard: the number of the last input entry, whether a cancel is among them, and the end."""

    last: int
    cancelled: bool
    done: bool
    cursor: int
    """The committed one."""


class Frame(NamedTuple):
    """One public frame, exactly as sent to clients. A tuple, since one is made for every frame."""

    seq: int
    data: bytes
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Frames after a sequence number and, of the same moment, the last number, the status and whether it is final.

    `sealed`: the logs are packed, so the frames have to be looked for there. `bytes` is what all frames come to.
    """

    frames: list[Frame]
    seq: int
    done: bool
    status: str
    sealed: bool = False
    bytes: int = 0


def acquire(keys: Keys, rid: str, *, token: str, lease_ms: int) -> Call[Lease]:
    """Take a response for translating. Refuses MISSING, DONE, LEASED."""
    where = (keys.state(rid), keys.input(rid))
    return Call(rid, ACQUIRE, where, (token, lease_ms, FIRST_ENTRIES), _lease)


def _lease(reply: Any) -> Lease:
    fence, cursor, seq, digest, dup, entries = reply
    first = tuple(entry_of(raw) for raw in entries)
    return Lease(fence.decode(), cursor, seq, digest.decode(), bool(dup), first)


def commit(
    keys: Keys,
    rid: str,
    *,
    fence: str,
    expected_cursor: int,
    cursor: int,
    first_seq: int,
    frames: Sequence[bytes],
    digest: str,
    lease_ms: int,
    retain_ms: int,
    max_out_bytes: int,
    status: str | None = None,
    next_round: tuple[int, bytes] | None = None,
    jobs: Sequence[tuple[str, bytes]] = (),
    reopen: bool = False,
    terminal: bool = False,
) -> Call[CommitResult]:
    """Move a response on, in one step. Refuses MISSING, DONE, FENCED, CURSOR, SEQ, GAP, CONFLICT, TOO_LARGE.

    `first_seq` is the number of the first frame, or the next one where there are none. A `next_round` whose number is
    there already changes nothing (the first body wins), nor does a job whose key is there. `reopen` lets a lost round be
    claimed again. `terminal` needs a status and at least one frame (its last is the terminal one), is never too large,
    and takes the jobs away.
    """
    if terminal and not (frames and status):
        raise ValueError("a terminal commit needs a frame and a status")
    number, body = next_round or (0, b"")
    where: tuple[str, ...] = (keys.state(rid), keys.input(rid), keys.output(rid))
    if terminal or jobs:
        where += (keys.secrets(rid), keys.jobs(rid))

    def parse(reply: Any) -> CommitResult:
        seq, t, n, dup = reply
        entry = Entry(n, Kind.ROUND, t, body, number) if n else None
        return CommitResult(seq, t, entry, dup == 1)

    return Call(
        rid,
        COMMIT,
        where,
        (
            fence,
            expected_cursor,
            cursor,
            first_seq,
            digest,
            lease_ms,
            status or "",
            int(terminal),
            retain_ms,
            max_out_bytes,
            int(reopen),
            number,
            body,
            keys.bell_in(rid),
            keys.bell_out(rid),
            len(jobs),
            *(part for job in jobs for part in job),
            *frames,
        ),
        parse,
        size=sum(map(len, frames))
        + FRAME_OVERHEAD * len(frames)
        + len(body)
        + sum(len(data) for _, data in jobs),
    )


def heartbeat(keys: Keys, rid: str, *, fence: str, lease_ms: int) -> Call[Alive]:
    """Silence is not death. Refuses MISSING, FENCED."""
    return Call(rid, HEARTBEAT, (keys.state(rid),), (fence, lease_ms), _alive)


def _alive(reply: Any) -> Alive:
    return Alive(reply[0], bool(reply[1]), bool(reply[2]), reply[3])


def release(keys: Keys, rid: str, *, fence: str) -> Call[None]:
    """Let go, so that a successor may acquire at once. Refuses MISSING, FENCED."""
    return Call(rid, RELEASE, (keys.state(rid),), (fence,), _nothing)


def _nothing(reply: Any) -> None:
    del reply


def read_output(
    keys: Keys, rid: str, *, after: int, count: int, most_bytes: int = PAGE_BYTES
) -> Call[Page]:
    """Frames after number `after` with the state of the same moment. Refuses MISSING; raises LogLost at a hole."""

    def parse(reply: Any) -> Page:
        seq, done, status, sealed, entries, size = reply
        frames = [frame_of(entry) for entry in entries]
        if seq > after and not sealed and not _follow(frames, after):
            raise LogLost(rid, after)
        return Page(frames, seq, done == 1, status.decode(), sealed == 1, size)

    return Call(rid, READ, (keys.state(rid), keys.output(rid)), (after, count, most_bytes), parse)


def _follow(frames: Sequence[Frame], after: int) -> bool:
    """Whether there are frames, and no number between them and `after` is missing."""
    return bool(frames) and (frames[0].seq, frames[-1].seq) == (after + 1, after + len(frames))


def read_frames(keys: Keys, rid: str, *, after: int, count: int) -> Call[list[Frame]]:
    """Frames after number `after` alone, at a seventh of the server's time that the script takes, whatever they weigh.

    None where the log does not go on with the next one, whyever that is: `read_output` tells.
    """

    def parse(reply: Any) -> list[Frame]:
        frames = [frame_of(entry) for entry in reply]
        return frames if _follow(frames, after) else []

    where = (f"{after + 1}-1", "+", "COUNT", count)
    return Call(rid, None, ("XRANGE", keys.output(rid)), where, parse)


class Last(NamedTuple):
    """The last frame of an output log; of packed logs only its number."""

    frame: Frame | None
    sealed_seq: int | None


def last_frame(keys: Keys, rid: str) -> Call[Last]:
    """The last frame, or where to find it; neither where there is none. Refuses MISSING."""
    return Call(rid, LAST, (keys.state(rid), keys.output(rid)), (), _last)


def _last(reply: Any) -> Last:
    sealed, seq, entries = reply
    return Last(frame_of(entries[0]) if entries else None, seq if sealed else None)


def frame_of(entry: Any) -> Frame:
    """One raw stream entry of an output log."""
    name, fields = entry
    return Frame(int(name[:-2]), fields[1], len(fields) > 2)
