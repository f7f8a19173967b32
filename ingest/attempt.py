"""One attempt at a round: the lease on it, and the entries that this process appends under it.

In: entries in the order in which they became true (`add`). Out: fenced, numbered appends to the
input log, one in flight at a time; what comes meanwhile goes with the next (no timer holds a frame
back, and batches grow only under load). Acknowledged entries are handed over to the translator, if
it lives in this process. Called by `ingest.run`; everything here happens in callbacks, no task is
woken for a frame.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from streams import metrics
from streams.faults import StoreFull
from streams.handover import Seer
from streams.scripts.refused import Reason, Refused
from streams.scripts.rounds import (
    LOST_DATA,
    AppendResult,
    Held,
    Wanted,
    append,
    heartbeat_round,
    lost,
)
from streams.store import Store
from translator.protocol.entries import Entry, Kind, RoundEnd
from translator.protocol.errors import RespoolError, StoreError
from translator.protocol.json import dumps

log = logging.getLogger(__name__)

APPEND_ENTRIES: Final = 256
"""What one script call appends at most: it holds the server for a millisecond or two, and the
translator's fold of it holds this event loop for less than five."""

APPEND_BYTES: Final = 1024 * 1024
"""The same in bytes; a single larger frame goes alone."""

PENDING_BYTES: Final = 2 * 1024 * 1024
"""Past this the upstream is not read on until the log has caught up: memory stays bounded and the
upstream feels it."""


LAG: Final = metrics.histogram("append_lag_seconds")
"""By this process's clock, once an append: of the oldest frame in it, which waited longest."""


class Stop(StrEnum):
    """Why an attempt is over before its upstream is."""

    CANCELLED = "cancelled"  # the log has a cancel: the round may still be ended in it
    TOO_LARGE = "too_large"  # the log is full: the round may still be ended in it
    FULL = "full"  # the store is: so may it then
    DONE = "done"
    GONE = "gone"
    FENCED = "fenced"
    STORE = "store"


_BY_REASON: Final = {
    Reason.DONE: Stop.DONE,
    Reason.MISSING: Stop.GONE,
    Reason.FENCED: Stop.FENCED,
    Reason.TOO_LARGE: Stop.TOO_LARGE,
}

TAKES_NO_MORE: Final = frozenset({Stop.TOO_LARGE, Stop.FULL})
"""Nothing fits any more but the end of the round, alone."""
MAY_END: Final = frozenset({Stop.CANCELLED, *TAKES_NO_MORE})


class Attempt:
    """Numbers and appends the entries of one attempt, and keeps its lease."""

    def __init__(
        self,
        store: Store,
        rid: str,
        held: Held,
        *,
        lease_ms: int,
        max_in_bytes: int,
        on_stop: Callable[[Stop], None],
    ) -> None:
        self._store = store
        self._rid = rid
        self._held = held
        self._lease_ms = lease_ms
        self._max_in_bytes = max_in_bytes
        self._on_stop = on_stop
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[str, bytes]] = []  # not yet given to the writer
        self._pending_bytes = 0  # of those and of the ones in flight
        self._flying: list[tuple[str, bytes]] = []  # given to the writer, not yet acknowledged
        self._flying_bytes = 0
        self._seer: Seer | None = None  # who was asked what those lead to
        self._came_at = self._flown_at = 0.0  # the oldest that is pending, that is in flight
        self._beating = False  # a heartbeat is in flight
        self._last = 0  # number of the last acknowledged entry of this attempt
        self._ended = False  # set with the entry that ends the round: nothing follows it
        self._waiters: list[asyncio.Future[None]] = []  # for news of what waits
        self.full = False  # too much waits for the log: then await `room` before adding more
        self.stopped: Stop | None = None
        self.heard_at = self._loop.time()  # when the log last answered

    def add(self, entries: list[tuple[str, bytes]]) -> None:
        """Append these, as soon as what is in flight has returned."""
        if self._take(entries):
            self._flush()

    def add_soon(self, entries: list[tuple[str, bytes]]) -> None:
        """Append these in the next turn of the event loop, or with what is added before that."""
        if self._take(entries):
            self._loop.call_soon(self._flush)

    def _take(self, entries: list[tuple[str, bytes]]) -> bool:
        """Whether entries are still wanted; then they wait for the next flush."""
        if self._ended or (self.stopped and self.stopped not in MAY_END):
            return False
        if not self._pending:
            self._came_at = self._loop.time()
        self._pending.extend(entries)
        for _, data in entries:
            self._pending_bytes += len(data)
        if self._pending_bytes > PENDING_BYTES:
            self.full = True
        return True

    def end(self, end: RoundEnd, last: Sequence[tuple[str, bytes]] = ()) -> None:
        """Append the last entries, and how the round ended; later calls do nothing.

        They go together: what comes of a response's last frame shows when that came (`streams.handover.Seer`).
        """
        self.add([*last, (Kind.ROUND_END, dumps(end))])
        self._ended = True

    async def lose(self) -> None:
        """Let go of the lease and mark the round as lost, so that the fold may open it again.

        A sweeper would do it a lease later; where the log refuses, one will.
        """
        await self.settled()
        self._ended = True
        if self.stopped:
            return
        keys, rid, held, writer = self._store.keys, self._rid, self._held, self._store.writer
        try:
            await writer.do(heartbeat_round(keys, rid, fence=held.fence, lease_ms=0))
            end = await writer.do(lost(keys, rid, token=secrets.token_hex(8)))
        except StoreError as error:
            about = {"response": rid, "round": held.round, "attempt": held.attempt}
            log.info("A round of %s was left to the sweeper: %s", rid, error.message, extra=about)
            return
        entry = Entry(end.n, Kind.ROUND_END, end.t, LOST_DATA, held.round, held.attempt)
        self._store.handover.publish_input(rid, [entry])

    def beat(self, now: float, every_s: float) -> None:
        """Keep the lease through silence, and hear whether the response goes on."""
        waits = self._flying or self._beating or self._ended or self.stopped
        if waits or now - self.heard_at < every_s:
            return
        self._beating = True
        fence, lease_ms = self._held.fence, self._lease_ms
        call = heartbeat_round(self._store.keys, self._rid, fence=fence, lease_ms=lease_ms)
        self._store.writer.submit(call, self._beaten)

    async def room(self) -> None:
        """Return once there is room for more entries, or none are wanted any more."""
        while self.full:
            await self._news()

    async def settled(self) -> None:
        """Return once everything is acknowledged, or given up."""
        while self._flying or self._pending:
            await self._news()

    async def _news(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _flush(self) -> None:
        if self._flying or not self._pending:
            return
        seer = self._store.handover.seer(self._rid)
        if seer is not None and seer.settles(self._flush):
            return
        pending, count, size = self._pending, 0, 0
        for _, data in pending[:APPEND_ENTRIES]:
            more = size + len(data)
            if count and more > APPEND_BYTES:
                break
            count += 1
            size = more
        flying = self._flying = pending[:count]
        del pending[:count]
        self._flying_bytes = size
        outcome = None
        self._seer = seer
        if seer is not None:
            outcome = seer.foresee(flying)
        self._flown_at = self._came_at
        call = append(
            self._store.keys,
            self._rid,
            fence=self._held.fence,
            first_frame_no=self._last + 1,
            items=flying,
            lease_ms=self._lease_ms,
            max_in_bytes=self._max_in_bytes,
            outcome=outcome,
        )
        self._store.writer.submit(call, self._acknowledged)

    def _acknowledged(self, reply: AppendResult | RespoolError) -> None:
        flown, self._flying = self._flying, []
        seer, self._seer = self._seer, None
        self._pending_bytes -= self._flying_bytes
        known = seer is not None and seer.foreseen(reply)
        if isinstance(reply, RespoolError):
            self._refused(reply, flown)
            return
        self.heard_at = self._loop.time()
        LAG.observe(self.heard_at - self._flown_at)
        self._last += len(flown)
        if not known:  # nobody else waits for frames
            self._store.handover.publish_input(self._rid, reply.entries(self._held, flown))
        if reply.cancelled or reply.done:
            self._stop(Stop.DONE if reply.done else Stop.CANCELLED)
        self._flush()
        self._wake()

    def _beaten(self, reply: Wanted | Exception) -> None:
        self._beating = False
        if isinstance(reply, Exception):
            self._refused(reply)
            return
        self.heard_at = self._loop.time()
        if reply.cancelled or reply.done:
            self._stop(Stop.DONE if reply.done else Stop.CANCELLED)

    def _refused(self, error: Exception, flown: Sequence[tuple[str, bytes]] = ()) -> None:
        if isinstance(error, Refused):
            reason = _BY_REASON.get(error.reason)
        else:
            reason = Stop.FULL if isinstance(error, StoreFull) else Stop.STORE
        if reason in TAKES_NO_MORE:
            self._drop_pending()
            self._ended = False  # an end in the refused batch is to be said again, alone
            if len(flown) > 1 and flown[0][0] == Kind.OPENED:
                self._take([flown[0]])  # and so is this: no end of such a round is a refusal
                self._flush()
        # else GAP or CONFLICT: the log is not the one that this attempt wrote
        self._stop(reason or Stop.FENCED)
        self._wake()

    def _drop_pending(self) -> None:
        self._pending_bytes -= sum(len(data) for _, data in self._pending)
        self._pending.clear()

    def _stop(self, reason: Stop) -> None:
        if self.stopped is not None and reason in MAY_END:
            return
        self.stopped = reason
        if reason not in MAY_END:
            self._drop_pending()
        metrics.count("rounds_stopped_total", reason=reason)
        self._wake()
        self._on_stop(reason)

    def _wake(self) -> None:
        if self._pending_bytes <= PENDING_BYTES // 2 or self.stopped:
            self.full = False
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():  # whoever waited may have been cancelled
                    waiter.set_result(None)
