"""Group commit over the nodes of a cluster: one `Writer` a node, and every call at the node that has its key.

In: `Call`s, as a `Writer` takes them. Out: each call's result, or its own exception, within the same bound. What a node
does not carry out comes back here and is sent again: where it says (MOVED, ASK), or after a pause where the map says by
then (a node that is away, a slot in the middle of a move, a cluster without a majority).

Calls of one response are carried out in the order of their submission, also where they go to several nodes: the due set
and the work queues are keys of their own, so a create waits for its due entry's reply, and its hint for the create's.
Made by `streams.store`; one per purpose, like `Writer`.
"""

import asyncio
import math
from collections import deque
from typing import Any, Final, TypeVar

from redis.exceptions import AskError, MovedError, ResponseError

from streams.client import as_store_error, word_of
from streams.cluster import Cluster, Place, slot_of, target
from streams.faults import StoreAway
from streams.scripts.call import Call
from streams.writer import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MAX_CALL_BYTES,
    RETRY_FOR_S,
    Item,
    OnReply,
    Writer,
    deliver,
    into,
)
from translator.protocol.errors import LimitPassed, RespoolError

T = TypeVar("T")

TRYAGAIN: Final = "TRYAGAIN"
"""A slot is in the middle of its move and some keys of the call are on either side: no fault of the node's."""

ASKING: Final[Call[None]] = Call("", None, ("ASKING",), (), lambda _: None)
"""Before a call that follows ASK: the connection's next command is let in, and no other."""


class Line:
    """The calls of one response (or, where they are nobody's, of one key), in their order."""

    __slots__ = (
        *("asked", "asking", "held", "name", "pause_s", "place", "since", "tries"),
        *("under_way", "waiting"),
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: deque[Item] = deque()
        self.under_way = 0
        """Calls that a node has and that have no reply yet."""
        self.place: Place | None = None
        """The node that has them, or had the last ones."""
        self.asking: Place | None = None
        """Where ASK pointed to, for the next `asked` calls."""
        self.asked = 0
        self.held = False
        """Until the end of a pause."""
        self.pause_s = FIRST_PAUSE_S
        self.tries = 0
        """Times in a row that calls came back."""
        self.since: float | None = None
        """When the first of those was; cleared, as the two before, by a reply."""


class Reply:
    """What a node's writer is given to call: it knows the way back."""

    __slots__ = ("call", "lane", "line", "on_reply", "to")

    def __init__(
        self, to: "ClusterWriter", lane: "Lane", line: Line, call: Call[Any], on_reply: OnReply
    ) -> None:
        self.to = to
        self.lane = lane
        self.line = line
        self.call = call
        self.on_reply = on_reply

    def __call__(self, result: Any) -> None:
        self.to.replied(self, result)


class Lane:
    """One node's writer."""

    __slots__ = ("down_since", "place", "trouble_at", "writer")

    def __init__(self, place: Place, writer: Writer) -> None:
        self.place = place
        self.writer = writer
        self.down_since: float | None = None
        """Set at the first trouble, cleared by the first reply."""
        self.trouble_at = 0.0
        """When there was trouble last."""


class ClusterWriter:
    """One per process and purpose; `run` must be running for anything to happen."""

    def __init__(self, cluster: Cluster, *, retry_for_s: float = RETRY_FOR_S) -> None:
        self._cluster = cluster
        self._retry_for_s = retry_for_s
        self._lines: dict[str, Line] = {}
        """Those that have calls; an empty one goes."""
        self._lanes: dict[Place, Lane] = {}
        self._group: asyncio.TaskGroup | None = None
        """Set while `run` is running: each lane's loop is a task of it."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self.trouble_at = -math.inf
        """See `Sender`."""
        self.pending_bytes = 0
        """See `Sender`."""

    @property
    def pipelines(self) -> int:
        """See `Sender`."""
        return sum(lane.writer.pipelines for lane in self._lanes.values())

    @property
    def calls(self) -> int:
        """See `Sender`."""
        return sum(lane.writer.calls for lane in self._lanes.values())

    def submit(self, call: Call[T], on_reply: Any) -> None:
        """See `Writer.submit`."""
        if call.size > MAX_CALL_BYTES:
            raise LimitPassed("a single call to the store is too large")
        self.pending_bytes += call.size
        self._idle.clear()
        name = call.rid or call.key
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = Line(name)
        line.waiting.append((call, on_reply))
        self._advance(line)

    def send(self, call: Call[T]) -> "asyncio.Future[T]":
        """See `Writer.send`."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(call, into(future))
        return future

    async def do(self, call: Call[T]) -> T:
        """See `Writer.do`."""
        return await self.send(call)

    async def drained(self) -> None:
        """Wait until every call has its reply."""
        await self._idle.wait()

    async def run(self) -> None:
        """The loop; ends only by cancellation, and then fails every call that has no reply."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for lane in self._lanes.values():
                    group.create_task(lane.writer.run())
                try:
                    await asyncio.Event().wait()
                finally:
                    self._closing = True  # before its lanes end: what they fail lets nothing follow
        finally:
            self._group = None
            for line in list(self._lines.values()):
                self._fail(line, StoreAway("the process is closing its store"))

    # ---- from a line to a node ------------------------------------------------------------------

    def _advance(self, line: Line) -> None:
        """Give nodes what may go now: what follows calls at another node waits for their replies."""
        while line.waiting and not line.held and not self._closing:
            call, on_reply = line.waiting[0]
            place = line.asking or self._place_of(call)
            if place is None:
                self._cluster.stale()
                self._put_off(line, StoreAway("no node of the store serves this slot"), None)
                return
            if line.under_way and place != line.place:
                return
            line.waiting.popleft()
            line.place = place
            line.under_way += 1
            lane = self._lane(place)
            if line.asking is not None:
                line.asked -= 1
                if not line.asked:
                    line.asking = None
                lane.writer.submit(ASKING, _ignore)
            lane.writer.submit(call, Reply(self, lane, line, call, on_reply))

    def _place_of(self, call: Call[Any]) -> Place | None:
        if key := call.key:
            return self._cluster.owner(slot_of(key))
        return next(iter(self._cluster.primaries), None)

    def _lane(self, place: Place) -> Lane:
        lane = self._lanes.get(place)
        if lane is None:

            def bounced(items: list[Item], error: Exception | dict[str, ResponseError]) -> None:
                self._bounced(made, items, error)

            writer = Writer(
                self._cluster.node(place), retry_for_s=self._retry_for_s, bounced=bounced
            )
            lane = made = self._lanes[place] = Lane(place, writer)
            if self._group is not None:
                self._group.create_task(writer.run())
        return lane

    # ---- and back -------------------------------------------------------------------------------

    def replied(self, reply: Reply, result: Any) -> None:
        """A node has answered (called by its writer)."""
        line = reply.line
        reply.lane.down_since = None
        line.under_way -= 1
        line.tries, line.since, line.pause_s = 0, None, FIRST_PAUSE_S
        self._advance(line)
        self._leave(line)
        self._settle(reply.call, reply.on_reply, result)

    def _bounced(
        self, lane: Lane, items: list[Item], error: Exception | dict[str, ResponseError]
    ) -> None:
        """A node has not carried these out: back to the front of their lines, then each its own way."""
        lines: dict[str, tuple[Line, list[Item]]] = {}
        for _, reply in items:
            if isinstance(reply, Reply):  # else it is ASKING
                line = reply.line
                line.under_way -= 1
                lines.setdefault(line.name, (line, []))[1].append((reply.call, reply.on_reply))
        if isinstance(error, Exception):
            self._suspect(lane)
        for line, back in lines.values():
            line.waiting.extendleft(reversed(back))
            line.asking, line.asked = None, 0
            if isinstance(error, Exception):
                self._put_off(line, error, lane.down_since)
            else:
                self._redirect(lane, line, len(back), error[back[0][0].rid])

    def _redirect(self, lane: Lane, line: Line, count: int, error: ResponseError) -> None:
        """Calls that are nobody's share an error reply, which is about the slot of one of them only."""
        since = None
        if isinstance(error, MovedError):
            self._cluster.moved(error, lane.place)
        elif isinstance(error, AskError):
            if (key := line.waiting[0][0].key) and slot_of(key) == error.slot_id:
                line.asking, line.asked = target(error, lane.place), count
        elif word_of(error) != TRYAGAIN:
            self._suspect(lane)
            since = lane.down_since
        if isinstance(error, AskError) and not line.tries:
            line.tries = 1
            self._advance(line)
        else:
            self._put_off(line, error, since)

    def _suspect(self, lane: Lane) -> None:
        now = self.trouble_at = asyncio.get_running_loop().time()
        if lane.down_since is None or now - lane.trouble_at > self._retry_for_s:
            lane.down_since = now
        lane.trouble_at = now
        self._cluster.stale()

    def _put_off(self, line: Line, error: Exception, since: float | None) -> None:
        """Try again after a pause, or give up past the bound, counted from `since` where that is earlier."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if line.since is None:
            line.since = now
        if now - min(line.since, since or now) >= self._retry_for_s:
            self._fail(line, fault_of(error))
            return
        line.tries += 1
        line.held = True
        loop.call_later(line.pause_s, self._resume, line)
        line.pause_s = min(line.pause_s * 2, LONGEST_PAUSE_S)

    def _resume(self, line: Line) -> None:
        line.held = False
        self._advance(line)
        self._leave(line)

    def _fail(self, line: Line, error: RespoolError) -> None:
        failing, line.waiting = line.waiting, deque()
        self._leave(line)
        for call, on_reply in failing:
            self._settle(call, on_reply, error)

    def _leave(self, line: Line) -> None:
        """An empty line goes."""
        if not line.waiting and not line.under_way and self._lines.get(line.name) is line:
            del self._lines[line.name]

    def _settle(self, call: Call[Any], on_reply: OnReply, result: Any) -> None:
        """Give a result to its caller; only then its bytes are no longer pending."""
        deliver(call, on_reply, result)
        self.pending_bytes -= call.size
        if not self._lines:
            self._idle.set()


def fault_of(error: Exception) -> RespoolError:
    """What a caller is told past the bound. A slot that is still moving is away, whatever its nodes say of it."""
    if isinstance(error, RespoolError):
        return error
    if isinstance(error, AskError):
        return StoreAway(f"the store refused a command: {word_of(error)}")
    return as_store_error(error)


def _ignore(reply: object) -> None:
    """The answer to ASKING: what it is for has an answer of its own."""
    del reply
