"""Typed callers of the scripts around the calls that tool workers run, and what is said about such calls.

A job is `(key, data)`: `list.<i>` lists the tools of the request's i-th MCP server, `<round>.<slot>` is one call; data is
JSON (`workers.tools.job`) of which the scripts read `kind` and `idempotent`. `create` and `commit` write jobs; a hash holds
them: `order` (keys, comma separated), `job:<key>`, `claim:<key>` = `<token>:<lease until>:<tries>`, `done:<key>` =
`<entry>:<t>`. Called by `workers.tools.role` (all but expire_tools) and the sweeper (expire_tools).
"""

from dataclasses import dataclass
from typing import Any

from streams.keys import Keys
from streams.scripts.call import Call, Script
from streams.scripts.rounds import Wanted
from translator.protocol.entries import Entry, Kind

CLAIM = Script("claim_tool")
HEARTBEAT = Script("heartbeat_tool")
RELEASE = Script("release_tool")
RESULT = Script("tool_result")
EXPIRE = Script("expire_tools")

MAX_TRIES = 3
"""Claims that a job which may run again gets before it counts as the cause of its workers' deaths."""

ALWAYS_FITS = 4096
"""A result of so many bytes enters a log that is full: it is a failure, told in a sentence."""

NO_BOUND = 2**53
"""In place of a bound in bytes."""

NO_WAIT_BOUND = 2**53
"""In place of a wait for a worker, in ms."""


def _failure(why: bytes, text: bytes) -> tuple[bytes, bytes]:
    """The data of a failed result, and of a failed list, each behind its key. `why` is for who reads the log."""
    result = (
        b'"ok":false,"failed":"%s","content":"{\\"error\\":\\"%s\\"}","output":null,'
        b'"error":{"type":"mcp_protocol_error","code":-32000,"message":"%s"},"sources":[],'
        b'"started":0,"ended":0}'
    ) % (why, text, text)
    return result, b'"tools":[],"error":"%s"}' % text


LOST = _failure(b"worker lost", b"The worker that ran this call was lost.")
UNTAKEN = _failure(b"not taken", b"No tool worker has taken this call.")


@dataclass(frozen=True, slots=True)
class Job:
    """A job is taken. `fence` goes into every later call; `t` is the server's time; `free` tells of more work."""

    key: str
    data: bytes
    fence: str
    t: int
    free: int
    dup: bool


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """A result is in the log: `entry`, for handing it over, is None where another result came first.

    `left` jobs of the response have no result yet.
    """

    n: int
    t: int
    left: int
    entry: Entry | None

    @property
    def dup(self) -> bool:
        """Whether the log had one already."""
        return self.entry is None


@dataclass(frozen=True, slots=True)
class Expired:
    """What the sweeper found: the failures it wrote, when to look again (0: no claim lives), and jobs to offer."""

    entries: list[Entry]
    next_at: int
    free: int


def claim_tool(
    keys: Keys, rid: str, *, token: str, lease_ms: int, limit: int, max_tries: int = MAX_TRIES
) -> Call[Job]:
    """Take the first free job. Refuses MISSING, DONE, LEASED (`limit` run), NOTHING (none is free, or cancelled).

    `token` is new for each claim and holds no colon.
    """
    where = (keys.state(rid), keys.jobs(rid))
    return Call(rid, CLAIM, where, (token, lease_ms, limit, max_tries), _job)


def _job(reply: Any) -> Job:
    key, data, fence, t, free, dup = reply
    return Job(key.decode(), data, fence.decode(), t, free, bool(dup))


def heartbeat_tool(keys: Keys, rid: str, *, fence: str, lease_ms: int) -> Call[Wanted]:
    """Silence is not death. Refuses MISSING, FENCED (somebody else has it, or it has a result)."""
    where = (keys.state(rid), keys.jobs(rid))
    return Call(rid, HEARTBEAT, where, (fence, lease_ms), _wanted)


def _wanted(reply: Any) -> Wanted:
    return Wanted(bool(reply[0]), bool(reply[1]))


def release_tool(keys: Keys, rid: str, *, fence: str) -> Call[None]:
    """Give a job back unrun; only where it may run again. Refuses MISSING, FENCED."""
    return Call(rid, RELEASE, (keys.state(rid), keys.jobs(rid)), (fence,), _nothing)


def _nothing(reply: Any) -> None:
    del reply


def tool_result(
    keys: Keys, rid: str, *, key: str, data: bytes, kind: Kind, max_in_bytes: int = NO_BOUND
) -> Call[ToolEnd]:
    """Append what a job came to; the first one wins. Refuses MISSING, DONE, GAP (no such job), TOO_LARGE.

    `kind` is tool_result or tools_listed. Data of at most ALWAYS_FITS bytes is never too large.
    """

    def parse(reply: Any) -> ToolEnd:
        n, t, left, dup = reply
        return ToolEnd(n, t, left, None if dup else Entry(n, kind, t, data))

    return Call(
        rid,
        RESULT,
        (keys.state(rid), keys.input(rid), keys.jobs(rid)),
        (key, kind, data, max_in_bytes, ALWAYS_FITS, keys.bell_in(rid)),
        parse,
        size=len(data),
    )


def expire_tools(
    keys: Keys, rid: str, *, max_tries: int = MAX_TRIES, wait_ms: int = NO_WAIT_BOUND
) -> Call[Expired]:
    """Jobs that nobody will run get a failed result. Refuses MISSING, DONE.

    Those are jobs whose worker died and which must not run again; and all that are left, where none of the response's
    has been taken or has ended for `wait_ms`.

    A repeat finds what is left to do, which is nothing: its entries then come by the log alone.
    """
    return Call(
        rid,
        EXPIRE,
        (keys.state(rid), keys.input(rid), keys.jobs(rid)),
        (max_tries, *LOST, keys.bell_in(rid), wait_ms, *UNTAKEN),
        _expired,
    )


def _expired(reply: Any) -> Expired:
    now, next_at, free, *rest = reply
    entries = [
        Entry(n, kind.decode(), now, data)
        for n, kind, data in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    ]
    return Expired(entries, next_at, free)


def read_secrets(keys: Keys, rid: str) -> Call[bytes]:
    """What `create` was given as secrets; empty where there are none (any more)."""
    return Call(rid, None, ("HGET", keys.secrets(rid), "d"), (), _secrets)


def _secrets(reply: Any) -> bytes:
    return reply or b""
