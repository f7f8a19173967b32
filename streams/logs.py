"""Reading the two logs and the state of a response.

Called by the translate worker (refold), ingest (the round's body), api (retrieve, input items), the hub and the sealer.
Reads go through a `Sender` of their own, so that those of all responses share round trips too. Logs that are packed by
then read the same (`streams.archive`): a read that finds nothing tells in the same step whether the log is packed, so a
sealing between two pages is seen, and never taken for an end or a loss.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from streams.archive import Archive
from streams.archive import page as fitting
from streams.keys import Keys
from streams.scripts import outputs
from streams.scripts.call import Call
from streams.scripts.inputs import InputPage, follow_input, read_input
from streams.scripts.outputs import PAGE_BYTES, Frame, Page
from streams.scripts.refused import Refused
from streams.writer import Sender
from translator.protocol.entries import Entry, RequestEntry
from translator.protocol.errors import RespoolError
from translator.protocol.json import loads

T = TypeVar("T")

PAGE = 200
"""Entries a read, by default: a few ms of the event loop for parsing, tens of KB in memory."""

LONG_PAGE = 1_000
"""Frames a read for whoever catches up: two ms of the event loop, a ms of the server's."""

QUICK_BYTES = 4 * 2**20
"""Logs up to this are read in pages of LONG_PAGE frames whatever these weigh: the largest page is then no larger."""


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
    ended: int
    """When the terminal frame was committed; 0 before, or where older code committed it."""
    sealed: bool
    """Both logs are packed."""
    cancelled: bool
    reader: int
    jobs: int
    """Calls for tool workers that have no result yet."""
    results: dict[tuple[int, int], int]
    """Entry of each call's result, by the call's round and slot."""
    epoch: int = 0
    """How often the response was taken for translating: more than once where a translator was lost or stopped."""

    @property
    def took_ms(self) -> int | None:
        """From the creation to the end; None before it."""
        return self.ended - self.created if self.ended else None


class Logs:
    """Reads of one deployment. Whether a response's logs are packed is seen here, and nowhere above."""

    def __init__(self, keys: Keys, reads: Sender) -> None:
        self._keys = keys
        self._reads = reads
        self._archive = Archive(keys, reads)
        self._looking: set[asyncio.Task[None]] = set()
        """Callbacks' reads of packed logs; each leaves when it has answered."""

    async def read_input(self, rid: str, after_n: int, count: int = PAGE) -> list[Entry]:
        """Entries after number `after_n`, at most `count` or PAGE_BYTES; empty also where the response is gone."""
        return await self._input(rid, after_n, count, PAGE_BYTES)

    def request_input(
        self,
        rid: str,
        after_n: int,
        count: int,
        on_reply: Callable[[list[Entry] | RespoolError], None],
    ) -> None:
        """`read_input` with a callback; a page shorter than `count` is the end of a log, since nothing else bounds it.

        This is how live logs are followed, so it asks for the entries alone. Only where there are none it asks again, for
        the state as well: what is packed stays packed, so a log that was packed before is found to be so now.
        """

        def replied(reply: list[Entry] | RespoolError) -> None:
            if reply == []:
                self._look(self._input(rid, after_n, count, 0), on_reply)
            else:
                on_reply(reply)

        self._reads.submit(follow_input(self._keys, rid, after=after_n, count=count), replied)

    async def _input(self, rid: str, after_n: int, count: int, most_bytes: int) -> list[Entry]:
        call = read_input(self._keys, rid, after=after_n, count=count, most_bytes=most_bytes)
        return await self._entries(rid, after_n, count, await self._reads.do(call))

    async def _entries(self, rid: str, after_n: int, count: int, page: InputPage) -> list[Entry]:
        """The entries of a page, wherever they are."""
        if not page.sealed:
            return page.entries
        found: list[Entry] = []
        try:
            while len(found) < count:  # a page of the archive ends with its chapter
                at = after_n + len(found)
                more = await self._archive.entries(rid, at, count - len(found))
                if not more:
                    break
                found += more
        except Refused:
            return []  # it went after its state was read
        return found

    async def read_request(self, rid: str) -> RequestEntry | None:
        """The first entry, or None where the response is gone."""
        entries = await self.read_input(rid, 0, 1)
        return cast("RequestEntry", loads(entries[0].data)) if entries else None

    async def read_output(
        self, rid: str, after_seq: int, count: int = PAGE, most_bytes: int = PAGE_BYTES
    ) -> Page:
        """Frames after `after_seq` (-1: from the start) with the state. Refused MISSING; LogLost at a hole."""
        call = outputs.read_output(
            self._keys, rid, after=after_seq, count=count, most_bytes=most_bytes
        )
        return await self._page(rid, after_seq, count, most_bytes, await self._reads.do(call))

    async def read_on(self, rid: str, page: Page, after_seq: int) -> Page:
        """`read_output` for a reader that `page`, an earlier one, has told of more frames: larger pages, at less cost.

        The bytes of a whole log of QUICK_BYTES may be in memory for a moment; of a larger one only those of a page.
        """
        if page.sealed or page.bytes > QUICK_BYTES:
            return await self.read_output(rid, after_seq, LONG_PAGE if page.sealed else PAGE)
        call = outputs.read_frames(self._keys, rid, after=after_seq, count=LONG_PAGE)
        frames = fitting(await self._reads.do(call), PAGE_BYTES)
        if not frames:  # packed by now, or gone, or with a hole
            return await self.read_output(rid, after_seq)
        return replace(page, frames=frames)

    def request_output(
        self, rid: str, after_seq: int, count: int, on_reply: Callable[[Page | RespoolError], None]
    ) -> None:
        """`read_output` with a callback."""

        def replied(reply: Page | RespoolError) -> None:
            if isinstance(reply, Page) and reply.sealed:
                self._look(self._page(rid, after_seq, count, PAGE_BYTES, reply), on_reply)
            else:
                on_reply(reply)

        call = outputs.read_output(self._keys, rid, after=after_seq, count=count)
        self._reads.submit(call, replied)

    async def _page(
        self, rid: str, after_seq: int, count: int, most_bytes: int, page: Page
    ) -> Page:
        """A page with its frames, wherever they are."""
        if not page.sealed or after_seq >= page.seq:
            return page
        frames = await self._archive.frames(rid, after_seq, count, most_bytes)
        return replace(page, frames=frames)

    async def last_frame(self, rid: str) -> Frame | None:
        """The last committed frame, if there is one: of a finished response the terminal one. Refused MISSING."""
        last = await self._reads.do(outputs.last_frame(self._keys, rid))
        if last.sealed_seq is None:
            return last.frame
        return (await self._archive.frames(rid, last.sealed_seq - 1, 1))[0]

    def _look(
        self, work: Coroutine[Any, Any, T], on_reply: Callable[[T | RespoolError], None]
    ) -> None:
        """Do for a callback what takes more than one exchange."""

        async def look() -> None:
            result: T | RespoolError
            try:
                result = await work
            except RespoolError as error:
                result = error
            on_reply(result)

        task = asyncio.get_running_loop().create_task(look())
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

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
        ended=int(h.get(b"ended", 0)),
        sealed=b"sealed" in h,
        cancelled=h[b"cancel"] == b"1",
        reader=int(h[b"reader"]),
        jobs=int(h.get(b"jobs", 0)),  # a response may be older than this code, here and above
        results=results_of(h.get(b"results", b"").decode()),
        epoch=int(h.get(b"epoch", 0)),
    )


def results_of(listed: str) -> dict[tuple[int, int], int]:
    """`<round>.<slot>:<entry>,…`, as tool_result and expire_tools write it."""
    found = {}
    for one in filter(None, listed.split(",")):
        place, _, entry = one.partition(":")
        number, _, slot = place.partition(".")
        found[int(number), int(slot)] = int(entry)
    return found


def results_text(results: dict[tuple[int, int], int]) -> str:
    """The reverse of `results_of`."""
    return ",".join(f"{number}.{slot}:{entry}" for (number, slot), entry in results.items())
