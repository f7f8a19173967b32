"""Group commit: at most two pipelines in flight, and everything that comes meanwhile gathers for the next one.

In: `Call`s of all responses of this process, by `submit` (callback) or `do` (await). Out: each call's parsed result, or
its own exception. There is no linger timer: at rest a call leaves at once, under load pipelines grow. Two in flight, so
that the server works on one while this process handles the replies of the other; both on one connection, so calls are
carried out in the order of their submission.

Every script knows its own repeat, so calls whose replies were lost are simply sent again. Called by ingest (append), the
translate worker (commit), api (create, cancel, delete); a second instance, on its own connection, serves reads. In a
cluster there is one a node, and `streams.cluster_writer` decides which gets a call and where it is sent again.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from redis.exceptions import AskError, NoScriptError, RedisError, ResponseError

from streams import metrics
from streams.client import (
    ANSWER_TIMEOUT_S,
    DEMOTED,
    TRANSIENT,
    Connections,
    Link,
    as_store_error,
    word_of,
)
from streams.faults import StoreAway
from streams.scripts.call import SCRIPTS, Call
from streams.scripts.refused import Refused
from translator.protocol.errors import LimitPassed, RespoolError

T = TypeVar("T")
OnReply = Callable[[Any], None]
Item = tuple[Call[Any], OnReply]

DEPTH = 2
"""Pipelines in flight: one at the server, one whose replies are being handled."""
MAX_PIPELINE_BYTES = 2 * 2**20
"""One pipeline: some ms on the wire and at the server, so that nobody's heartbeat waits long behind another's burst."""
MAX_PIPELINE_CALLS = 512
"""Some ms of Lua at the server, for the same reason."""
BREATH = 64
"""Replies handled before others get a turn of the event loop: with the work that they cause, a few ms."""
MAX_CALL_BYTES = 64 * 2**20
"""One call: far below what the server takes in one argument (512 MB), far above any frame that is let through."""

RETRY_FOR_S = 10.0
"""How long an outage may last before calls fail: a restart or a failover fits, a lease's length is not much longer."""
FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5
"""Between attempts while the store is away; doubling from the first to the longest."""
MAX_RELOADS = 3
"""Times in a row that scripts are loaded again: a server that forgets them at once is not ours to serve."""

Bounced = Callable[[list[Item], Exception | dict[str, ResponseError]], None]
"""Takes back calls that were not carried out, in their order: with the trouble of the connection, or with the error reply
that each response (by id) got first."""


class Sender(Protocol):
    """What calls are given to: a `Writer`, or the one of a cluster."""

    def submit(self, call: Call[T], on_reply: Callable[[T | RespoolError], None]) -> None:
        """See `Writer.submit`."""

    def send(self, call: Call[T]) -> "asyncio.Future[T]":
        """See `Writer.send`."""

    async def do(self, call: Call[T]) -> T:
        """See `Writer.do`."""

    async def drained(self) -> None:
        """See `Writer.drained`."""

    async def run(self) -> None:
        """See `Writer.run`."""

    @property
    def trouble_at(self) -> float:
        """When the store was last found away, on the loop's clock."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of calls that have no reply yet; whoever makes them stops past a bound of its own."""

    @property
    def pipelines(self) -> int:
        """Pipelines so far; `calls / pipelines` tells how well calls group."""

    @property
    def calls(self) -> int:
        """Calls so far."""


ROUND_TRIP = metrics.histogram("store_round_trip_seconds")


class Writer:
    """One per process and purpose; `run` must be running for anything to happen."""

    def __init__(
        self,
        connections: Connections,
        *,
        retry_for_s: float = RETRY_FOR_S,
        bounced: Bounced | None = None,
    ) -> None:
        """`bounced` takes back whatever must be sent again, in place of the tries here."""
        self._connections = connections
        self._link: Link = connections.link()
        self._retry_for_s = retry_for_s
        self._bounced = bounced
        self._waiting: deque[Item] = deque()
        self._news = asyncio.Event()
        """Set by `submit`, cleared by `run` when nothing waits and nothing is in flight."""
        self._idle = asyncio.Event()
        """The reverse of `_news`."""
        self._idle.set()
        self._down_since: float | None = None
        """Set at the first trouble, cleared by the first exchange without any."""
        self._pause = FIRST_PAUSE_S
        self.trouble_at = -math.inf
        """When the store was last found away, on the loop's clock."""
        self._load_scripts = True
        """Set at the start, after every trouble and at NOSCRIPT; cleared when the scripts are loaded."""
        self._reloads = 0
        """Rounds of loading in a row that ended in NOSCRIPT; cleared by an exchange without one."""
        self.pending_bytes = 0
        """Bytes of calls that have no reply yet; whoever makes them stops past a bound of its own."""
        self.pipelines = 0
        """Pipelines so far; `calls / pipelines` tells how well calls group."""
        self.calls = 0

    def submit(self, call: Call[T], on_reply: Callable[[T | RespoolError], None]) -> None:
        """Send a call with the next pipeline; `on_reply` gets its result or its exception, and must not raise.

        Raises LimitPassed, at once, for a call that is too large for any pipeline.
        """
        if call.size > MAX_CALL_BYTES:
            raise LimitPassed("a single call to the store is too large")
        self.pending_bytes += call.size
        self._waiting.append((call, on_reply))
        if not self._news.is_set():
            self._news.set()
            self._idle.clear()

    def send(self, call: Call[T]) -> "asyncio.Future[T]":
        """Send a call with the next pipeline, now; await the future for its result or its exception."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(call, into(future))
        return future

    async def do(self, call: Call[T]) -> T:
        """Send a call and wait for its result. A caller that is cancelled leaves the call under way."""
        return await self.send(call)

    async def drained(self) -> None:
        """Wait until every call has its reply."""
        await self._idle.wait()

    async def run(self) -> None:
        """The loop; ends only by cancellation, and then fails every call that has no reply."""
        try:
            while True:
                await self._news.wait()
                await self._exchange()
                if not self._waiting:
                    self._news.clear()
                    self._idle.set()
        finally:
            self._give_up(None, StoreAway("the process is closing its store"))
            self._idle.set()
            await self._link.drop()

    async def _exchange(self) -> None:
        """Send and receive until nothing waits, or until something must be put right first."""
        exchange = Exchange(redirected=self._bounced is not None)
        try:
            async with asyncio.timeout(None) as limit:
                await self._pump(exchange, limit)
        except (RedisError, OSError, TimeoutError) as error:
            await self._link.drop()
            self._take_back(exchange)
            if self._bounced is not None:
                self._load_scripts = True
                self._bounce(self._bounced, error, None)
                return
            await self._trouble(error, progress=exchange.answered > 0)
        except BaseException:
            self._take_back(exchange)
            raise
        else:
            self._take_back(exchange)
            await self._put_right(exchange)

    async def _pump(self, exchange: "Exchange", limit: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        limit.reschedule(loop.time() + ANSWER_TIMEOUT_S)
        if self._load_scripts:
            await self._load()
        while True:
            if self._waiting and exchange.may_send:
                if exchange.flights and not self._link.connected:  # a new one would answer for it
                    raise ConnectionResetError("the connection was dropped between two replies")
                batch = self._take()
                now = loop.time()
                exchange.flights.append(deque(batch))
                exchange.sent.append(now)
                self.pipelines += 1
                limit.reschedule(now + ANSWER_TIMEOUT_S)
                if len(batch) == 1 and batch[0][0].size > MAX_PIPELINE_BYTES:
                    await self._link.send_large(batch[0][0].command)
                else:
                    await self._link.send([call.command for call, _ in batch])
            if not exchange.flights:
                return
            try:
                reply = await self._link.read()
            except ResponseError as error:
                reply = error
            self.calls += 1
            if len(exchange.flights[0]) == 1:
                ROUND_TRIP.observe(loop.time() - exchange.sent.popleft())
            settled = exchange.replied(reply)  # first: its callback may submit the next call
            self.pending_bytes -= settled
            if exchange.answered % BREATH == 0:
                await asyncio.sleep(0)
                limit.reschedule(loop.time() + ANSWER_TIMEOUT_S)

    def _take_back(self, exchange: "Exchange") -> None:
        """What has no reply that counts goes back to the front, in its order."""
        self._waiting.extendleft(reversed(exchange.left()))

    async def _put_right(self, exchange: "Exchange") -> None:
        """The connection is sound; some calls may have to be sent again all the same."""
        if exchange.transient is not None and self._bounced is not None:
            self._bounce(self._bounced, exchange.errors, set(exchange.errors))
        elif exchange.transient is not None:
            # A replica that was a primary keeps the old connections: only new ones find the new primary.
            if word_of(exchange.transient) == DEMOTED:
                await self._connections.leave()
            await self._link.drop()
            await self._trouble(exchange.transient, progress=False, rids=exchange.held)
            return
        self._down_since, self._pause = None, FIRST_PAUSE_S
        if not exchange.noscript:
            self._reloads = 0
            return
        self._load_scripts = True
        self._reloads += 1
        if self._reloads > MAX_RELOADS:
            self._reloads = 0
            self._give_up(exchange.held, StoreAway("the store does not keep its scripts"))

    def _take(self) -> list[Item]:
        waiting, size = self._waiting, 0
        batch: list[Item] = []
        while waiting and size < MAX_PIPELINE_BYTES and len(batch) < MAX_PIPELINE_CALLS:
            item = waiting.popleft()
            size += item[0].size
            batch.append(item)
        return batch

    async def _load(self) -> None:
        errors: list[ResponseError] = []
        await self._link.send([("SCRIPT", "LOAD", script.source) for script in SCRIPTS])
        for _ in SCRIPTS:
            try:
                await self._link.read()
            except ResponseError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        self._load_scripts = False

    async def _trouble(
        self, error: Exception, *, progress: bool, rids: set[str] | None = None
    ) -> None:
        """Pause and let the loop try again, or give up past the bound (all that waits, or only what is of `rids`)."""
        now = self.trouble_at = asyncio.get_running_loop().time()
        if self._down_since is None or progress:
            self._down_since = now
        # A server that comes back may have forgotten the scripts: loading them costs one exchange.
        self._load_scripts = True
        if now - self._down_since >= self._retry_for_s:
            self._give_up(rids, as_store_error(error))
            return
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)

    def _bounce(
        self, bounced: Bounced, error: Exception | dict[str, ResponseError], rids: set[str] | None
    ) -> None:
        """Give back all that waits, or only what is of `rids`."""
        items = self._pull(rids)
        for call, _ in items:
            self.pending_bytes -= call.size
        bounced(items, error)

    def _pull(self, rids: set[str] | None) -> list[Item]:
        waiting, self._waiting = self._waiting, deque()
        pulled: list[Item] = []
        for item in waiting:
            kept = rids is not None and item[0].rid not in rids
            (self._waiting if kept else pulled).append(item)
        return pulled

    def _give_up(self, rids: set[str] | None, error: RespoolError) -> None:
        for call, on_reply in self._pull(rids):
            self.pending_bytes -= call.size
            deliver(call, on_reply, error)


class Exchange:
    """Pipelines sent over one connection: who gets which reply, and which calls must be sent again."""

    __slots__ = (
        *("_kept", "_redirected", "answered", "errors", "flights", "held"),
        *("noscript", "sent", "transient"),
    )

    def __init__(self, *, redirected: bool = False) -> None:
        self._redirected = redirected
        """Whether MOVED and ASK are for somebody to follow; else they are errors of their calls."""
        self.flights: deque[deque[Item]] = deque()
        """Pipelines whose replies are not all there, oldest first, without the calls that have theirs."""
        self.sent: deque[float] = deque()
        """When each of `flights` left."""
        self.answered = 0
        self.held: set[str] = set()
        """Responses one of whose calls was not carried out: their later calls are sent again too, in order."""
        self.noscript = False
        self.transient: ResponseError | None = None
        self.errors: dict[str, ResponseError] = {}
        """What passes by itself, or points elsewhere, by response: its first such error."""
        self._kept: list[Item] = []

    @property
    def may_send(self) -> bool:
        """Whether another pipeline may go: not past DEPTH, nor past calls that must go again first."""
        return len(self.flights) < DEPTH and not self.held

    def replied(self, reply: Any) -> int:
        """Deliver the next reply, or keep its call to be sent again; the bytes that are settled."""
        flight = self.flights[0]
        item = call, on_reply = flight.popleft()
        if not flight:
            self.flights.popleft()
        self.answered += 1
        if isinstance(reply, ResponseError):
            self._look_at(call, reply)
        if self.held and call.rid in self.held:
            self._kept.append(item)
            return 0
        deliver(call, on_reply, read(call, reply))
        return call.size

    def _look_at(self, call: Call[Any], error: ResponseError) -> None:
        if isinstance(error, NoScriptError):
            self.noscript = True
            self.held.add(call.rid)
        elif word_of(error) in TRANSIENT or (self._redirected and isinstance(error, AskError)):
            self.transient = error
            self.errors.setdefault(call.rid, error)
            self.held.add(call.rid)

    def left(self) -> list[Item]:
        """Calls without a reply that counts, in their order."""
        return [*self._kept, *(item for flight in self.flights for item in flight)]


def into(future: "asyncio.Future[T]") -> Callable[[T | RespoolError], None]:
    """A callback that puts a call's result, or its exception, into a future that may be cancelled by then."""

    def on_reply(result: T | RespoolError) -> None:
        if future.done():
            return
        if isinstance(result, RespoolError):
            future.set_exception(result)
        else:
            future.set_result(result)

    return on_reply


def read(call: Call[T], reply: Any) -> T | RespoolError:
    """The result of a call, or its own exception."""
    if isinstance(reply, ResponseError):
        refused = Refused.of(str(reply), call.rid)
        if refused is None:
            return as_store_error(reply)
        if call.script is not None:
            metrics.count("script_refusals_total", script=call.script.name, reason=refused.reason)
        return refused
    try:
        result = call.parse(reply)
    except RespoolError as error:
        return error
    if call.script is not None and getattr(result, "dup", False):
        metrics.count("repeats_total", script=call.script.name)
    return result


def deliver(call: Call[Any], on_reply: OnReply, result: Any) -> None:
    """Give a result to its caller. A callback that raises is a bug of its module, never the end of others' writes."""
    try:
        on_reply(result)
    except Exception as error:  # noqa: BLE001 - reported, not swallowed
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"a writer's callback failed for {call.rid}", "exception": error}
        )
