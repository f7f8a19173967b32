"""Reading the two logs and the state of a response.

Called by the translate worker (refold), ingest (the round's body), api (retrieve, input items) and the hub. Reads go
through a `Writer` of their own, so that those of all responses share round trips too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from streams.keys import Keys
from streams.scripts import outputs
from streams.scripts.call import Call
from streams.scripts.entry import entry_of
from streams.scripts.outputs import Frame, Page
from streams.writer import Writer
from translator.protocol.entries import Entry, RequestEntry
from translator.protocol.errors import RespoolError
from translator.protocol.json import loads

PAGE = 200
"""Entries a read, by default: a few ms of the event loop for parsing, tens of KB in memory."""


@dataclass(frozen=True, slots=True)
class State:
    """The state hash of a response. Times are ms of the server's clock; leases are the moments when they end."""

    tenant: str
    status: str
    created: int
    store: bool
    background: bool
    expires: int
    deadline: int
    round: int
    rstate: str
    """`open`, `running`, `lost`, `ended`, or empty before the first round."""
    attempt: int
    ilease: int
    last: int
    """Number of the last entry of the input log."""
    in_bytes: int
    opened: bool
    refusal: bytes
    """The RoundEnd of a first round that the upstream never opened, or empty."""
    lease: int
    cursor: int
    seq: int
    digest: str
    out_bytes: int
    done: bool
    cancelled: bool
    reader: int
    jobs: int
    """Calls for tool workers that have no result yet."""
    results: dict[tuple[int, int], int]
    """Entry of each call's result, by the call's round and slot."""


class Logs:
    """Reads of one deployment."""

    def __init__(self, keys: Keys, reads: Writer) -> None:
        self._keys = keys
        self._reads = reads

    async def read_input(self, rid: str, after_n: int, count: int = PAGE) -> list[Entry]:
        """Entries after number `after_n`, at most `count`; empty also where the response is gone."""
        return await self._reads.do(read_input(self._keys, rid, after_n, count))

    def request_input(
        self,
        rid: str,
        after_n: int,
        count: int,
        on_reply: Callable[[list[Entry] | RespoolError], None],
    ) -> None:
        """`read_input` with a callback."""
        self._reads.submit(read_input(self._keys, rid, after_n, count), on_reply)

    async def read_request(self, rid: str) -> RequestEntry | None:
        """The first entry, or None where the response is gone."""
        entries = await self.read_input(rid, 0, 1)
        return cast("RequestEntry", loads(entries[0].data)) if entries else None

    async def read_output(self, rid: str, after_seq: int, count: int = PAGE) -> Page:
        """Frames after `after_seq` (-1: from the start) with the state. Refused MISSING; LogLost at a hole."""
        return await self._reads.do(
            outputs.read_output(self._keys, rid, after=after_seq, count=count)
        )

    def request_output(
        self, rid: str, after_seq: int, count: int, on_reply: Callable[[Page | RespoolError], None]
    ) -> None:
        """`read_output` with a callback."""
        call = outputs.read_output(self._keys, rid, after=after_seq, count=count)
        self._reads.submit(call, on_reply)

    async def last_frame(self, rid: str) -> Frame | None:
        """The last committed frame: of a finished response the terminal one."""
        return await self._reads.do(last_frame(self._keys, rid))

    async def state(self, rid: str) -> State | None:
        """The state hash, or None where the response is gone."""
        return await self._reads.do(state(self._keys, rid))

    def request_state(
        self, rid: str, on_reply: Callable[[State | RespoolError | None], None]
    ) -> None:
        """`state` with a callback."""
        self._reads.submit(state(self._keys, rid), on_reply)

    async def now(self) -> int:
        """The server's clock in ms."""
        return await self._reads.do(Call("", None, ("TIME",), (), _now))


def _now(reply: Any) -> int:
    return int(reply[0]) * 1000 + int(reply[1]) // 1000


def read_input(keys: Keys, rid: str, after_n: int, count: int) -> Call[list[Entry]]:
    """Entries of an input log by number."""
    where = (f"{after_n + 1}-1", "+", "COUNT", count)
    return Call(rid, None, ("XRANGE", keys.input(rid)), where, _entries)


def _entries(reply: Any) -> list[Entry]:
    return [entry_of(raw) for raw in reply]


def last_frame(keys: Keys, rid: str) -> Call[Frame | None]:
    """The last frame of an output log."""
    return Call(rid, None, ("XREVRANGE", keys.output(rid)), ("+", "-", "COUNT", 1), _last_frame)


def _last_frame(reply: Any) -> Frame | None:
    return outputs.frame_of(reply[0]) if reply else None


def state(keys: Keys, rid: str) -> Call[State | None]:
    """The whole state hash."""
    return Call(rid, None, ("HGETALL", keys.state(rid)), (), _state)


def _state(reply: Any) -> State | None:
    if not reply:
        return None
    h = {bytes(name): bytes(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}
    return State(
        tenant=h[b"tenant"].decode(),
        status=h[b"status"].decode(),
        created=int(h[b"created"]),
        store=h[b"store"] == b"1",
        background=h[b"background"] == b"1",
        expires=int(h[b"expires"]),
        deadline=int(h[b"deadline"]),
        round=int(h[b"round"]),
        rstate=h[b"rstate"].decode(),
        attempt=int(h[b"attempt"]),
        ilease=int(h[b"ilease"]),
        last=int(h[b"in"]),
        in_bytes=int(h[b"in_bytes"]),
        opened=h[b"opened"] == b"1",
        refusal=h[b"refusal"],
        lease=int(h[b"lease"]),
        cursor=int(h[b"cur"]),
        seq=int(h[b"seq"]),
        digest=h[b"digest"].decode(),
        out_bytes=int(h[b"out_bytes"]),
        done=h[b"done"] == b"1",
        cancelled=h[b"cancel"] == b"1",
        reader=int(h[b"reader"]),
        jobs=int(h.get(b"jobs", 0)),  # a response may be older than this code
        results=_results(h.get(b"results", b"").decode()),
    )


def _results(listed: str) -> dict[tuple[int, int], int]:
    """`<round>.<slot>:<entry>,…`, as tool_result and expire_tools write it."""
    found = {}
    for one in filter(None, listed.split(",")):
        place, _, entry = one.partition(":")
        number, _, slot = place.partition(".")
        found[int(number), int(slot)] = int(entry)
    return found
