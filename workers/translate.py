"""One response translated: its input log followed, folded, and committed (step 3 of the data's way).

In: entries of the input log, handed over by the ingest of this process, else read when the bell
rings. Out: commits of frames, cursor, digest, status and the next round, in one step each; then the
hand-over to readers. One commit is in flight at a time; what is folded meanwhile goes with the next.
Called by `workers.role`. Everything happens in callbacks: from the acknowledgement of an append to
the next commit no task is woken.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from streams import metrics
from streams.scripts.hints import due_drop
from streams.scripts.outputs import (
    Alive,
    CommitResult,
    Lease,
    acquire,
    commit,
    heartbeat,
    release,
)
from streams.scripts.refused import Reason, Refused
from streams.store import Store
from translator.protocol.entries import Entry
from translator.protocol.errors import LimitPassed, RespoolError, StoreError
from workers.fold import Fold
from workers.slices import SLICE_S, Slices
from workers.translate_end import committed_frames, ending

log = logging.getLogger(__name__)

PAGE: Final = 200
"""Entries read at once."""

LIVE_ENTRIES: Final = 32
"""A page up to this is folded at once: it is the log's tail, and waiting a turn would only cost."""

PENDING_BYTES: Final = 4 * 1024 * 1024
"""Frames of one response that are folded and not committed; past it the log is not followed until
commits have caught up, and then it is read: it holds everything anyway."""

LISTEN_S: Final = 0.5
"""A translator hears from its response at least so often; a lost bell costs no more."""

TICK_S: Final = 0.05
"""Between two looks while a heartbeat is under way."""

LEASE_BEATS: Final = 3
"""Heartbeats a lease: one or two may be late without another process taking over."""


@dataclass(frozen=True, slots=True)
class TranslateLimits:
    """What bounds a response's translation, and how long its logs are kept."""

    lease_ms: int
    retention_ms: int
    grace_ms: int
    """How long the logs of an unstored response outlive its end."""
    max_out_bytes: int

    @property
    def beat_s(self) -> float:
        """How often the store is heard at least."""
        return min(self.lease_ms / 1000 / LEASE_BEATS, LISTEN_S)


class Translation:
    """The translator of one response, from `begin` until it has called `on_over`."""

    def __init__(
        self,
        store: Store,
        rid: str,
        limits: TranslateLimits,
        slices: Slices,
        on_over: Callable[["Translation"], None],
    ) -> None:
        self.rid = rid
        self._store = store
        self._limits = limits
        self._slices = slices
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._over = False  # set once, by `_close`
        self._fence = ""  # set when the lease is granted
        self._fold: Fold | None = None  # set when the lease is granted
        self._refolded = False  # set once the log was read to its end
        self._page: Sequence[Entry] = ()  # what was read and is being folded, from `_at` on
        self._at = 0
        self._reading = False  # a page is asked for, or not yet folded
        self._again = False  # something came that was not taken: read on as soon as that is over
        self._broken = ""  # why the fold cannot go on
        self._ending: asyncio.Task[None] | None = None  # set when a broken fold is ended
        self._status = ""  # as last committed
        self._frames = 0  # committed and not yet counted: once a tick, not a frame
        self._beating = False  # a heartbeat is in flight
        self._heard_at = self._loop.time()  # when the store last answered
        self._timer: asyncio.TimerHandle | None = None
        self._unfollow: Callable[[], None] | None = None  # the hand-over of this process
        self._unlisten: Callable[[], None] | None = None  # the bell, while ingest is elsewhere

    def begin(self) -> None:
        """Ask for the lease."""
        call = acquire(
            self._store.keys,
            self.rid,
            token=secrets.token_hex(8),
            lease_ms=self._limits.lease_ms,
        )
        self._store.writer.submit(call, self._acquired)

    async def let_go(self) -> None:
        """Give the lease back, so that a successor goes on at once; commits in flight come first."""
        held = self._fold is not None and not self._over
        self._close("released")
        if held:
            try:
                await self._store.writer.do(release(self._store.keys, self.rid, fence=self._fence))
            except StoreError as error:
                log.info("A lease was left to run out: %s", error.message)
            self._store.work.offer("translate", self.rid)

    # ---- what the hand-over calls ---------------------------------------------------------------

    def entries_appended(self, entries: Sequence[Entry]) -> None:
        """Entries that this process appended to the input log."""
        fold = self._fold
        if fold is None or self._over or self._broken:
            return
        if not self._refolded or entries[0].n > fold.fed + 1 or fold.pending_bytes > PENDING_BYTES:
            metrics.count("handovers_missed_total")
            self._read()
            return
        self._take(entries, 0)
        self._flush()

    def ingesting_changed(self) -> None:
        """Listen to the bell while the round is run elsewhere; a subscription rings when it stands."""
        if self._over or self._fold is None:
            return
        if not self._store.handover.ingesting(self.rid):
            if self._unlisten is None:
                channel = self._store.keys.bell_in(self.rid)
                self._unlisten = self._store.doorbell.subscribe(channel, self._read)
        elif self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    # ---- the lease ------------------------------------------------------------------------------

    def _acquired(self, reply: Lease | RespoolError) -> None:
        if isinstance(reply, RespoolError):
            reason = reply.reason if isinstance(reply, Refused) else "store"
            metrics.count("acquires_refused_total", reason=reason)
            self._close("")
            return
        if self._over:  # let go of before it was had
            call = release(self._store.keys, self.rid, fence=reply.fence)
            self._store.writer.submit(call, _ignore)
            return
        metrics.count(
            "translations_acquired_total", how="anew" if reply.cursor == 0 else "taken over"
        )
        self._fence = reply.fence
        self._fold = Fold(self.rid, reply)
        self._heard_at = self._loop.time()
        self._store.handover.begin_translating(self.rid)
        self._unfollow = self._store.handover.subscribe_input(self.rid, self)
        self.ingesting_changed()
        self._read()
        self._tick()

    def _tick(self) -> None:
        now, every_s = self._loop.time(), self._limits.beat_s
        if now - self._heard_at >= every_s and not self._beating:
            self._beating = True
            call = heartbeat(
                self._store.keys, self.rid, fence=self._fence, lease_ms=self._limits.lease_ms
            )
            self._store.writer.submit(call, self._beaten)
        self._count()
        wait_s = self._heard_at + every_s - now
        self._timer = self._loop.call_later(max(wait_s, TICK_S), self._tick)

    def _beaten(self, reply: Alive | RespoolError) -> None:
        self._beating = False
        if self._over:
            return
        if isinstance(reply, RespoolError):
            self._refused(reply)
            return
        self._heard_at = self._loop.time()
        if self._fold is not None and reply.last > self._fold.fed:
            self._read()

    # ---- reading and folding --------------------------------------------------------------------

    def _read(self) -> None:
        """Read the log from where the fold stands to its end."""
        fold = self._fold
        if fold is None or self._over or self._broken:
            return
        if self._reading or fold.pending_bytes > PENDING_BYTES:
            self._again = True
            return
        self._reading, self._again = True, False
        self._store.logs.request_input(self.rid, fold.fed, PAGE, self._read_page)

    def _read_page(self, reply: list[Entry] | RespoolError) -> None:
        if self._over:
            return
        if isinstance(reply, RespoolError):
            self._close("store")
            return
        self._page, self._at = reply, 0
        if len(reply) <= LIVE_ENTRIES:
            self._slice()
        else:
            self._slices.add(self._slice)

    def _slice(self) -> None:
        """Fold for a few ms; what is left of the page waits for the next slice."""
        if self._over:
            return
        page = self._page
        self._at = self._take(page, self._at, until=perf_counter() + SLICE_S)
        if self._at < len(page):
            self._slices.add(self._slice)
        else:
            self._page, self._reading = (), False
            if len(page) == PAGE:
                self._again = True
            else:
                self._caught_up()
            if self._again:
                self._read()
        self._flush()

    def _caught_up(self) -> None:
        if self._refolded or self._fold is None:
            return
        self._refolded = True
        try:
            self._fold.check_end()
        except StoreError as error:
            self._break(error)

    def _take(self, entries: Sequence[Entry], start: int, until: float | None = None) -> int:
        fold = self._fold
        if fold is None or self._broken:
            return len(entries)
        try:
            return fold.feed(entries, start, until=until)
        except Exception as error:  # noqa: BLE001 - reported; it ends this response alone
            self._break(error)
            return len(entries)
        finally:
            if fold.notes:
                self._report(fold)

    def _report(self, fold: Fold) -> None:
        """Count what was tolerated, and show it without content (upstream-quirks.md, rule 7)."""
        for note in fold.notes:
            metrics.count("translator_notes_total", kind=note.kind)
            log.debug("%s: %s %r (%d)", self.rid, note.kind, note.name, note.size)
        fold.notes.clear()

    # ---- committing -----------------------------------------------------------------------------

    def _flush(self) -> None:
        fold, limits = self._fold, self._limits
        if fold is None or self._over:
            return
        batch = fold.take()
        if batch is None:
            if self._broken and not fold.flying and self._ending is None:
                self._ending = self._loop.create_task(self._end())
            return
        retain_ms = limits.retention_ms if fold.response_is_stored else limits.grace_ms
        call = commit(
            self._store.keys,
            self.rid,
            fence=self._fence,
            expected_cursor=fold.cursor,
            cursor=batch.cursor,
            first_seq=batch.first_seq,
            frames=batch.frames,
            digest=batch.digest,
            lease_ms=limits.lease_ms,
            retain_ms=retain_ms,
            max_out_bytes=limits.max_out_bytes,
            status=batch.status if batch.terminal or batch.status != self._status else None,
            next_round=batch.next_round,
            reopen=batch.reopen,
            terminal=batch.terminal,
        )
        try:
            self._store.writer.submit(call, self._committed)
        except LimitPassed as error:
            fold.discard()
            self._break(error)
            self._flush()

    def _committed(self, reply: CommitResult | RespoolError) -> None:
        fold = self._fold
        if fold is None or self._over:
            return
        if isinstance(reply, RespoolError):
            self._refused(reply)
            return
        batch = fold.committed()
        self._heard_at = self._loop.time()
        self._status = batch.status
        store = self._store
        if batch.frames:
            self._frames += len(batch.frames)
            store.handover.publish_output(self.rid, batch.first_seq, batch.frames, batch.terminal)
        if batch.terminal:
            self._finish(batch.status)
            return
        if reply.entry is not None:
            store.handover.publish_input(self.rid, [reply.entry])
        if batch.next_round is not None or batch.reopen:
            store.work.offer("rounds", self.rid)
        self._flush()
        if self._again and not self._reading:
            self._read()

    def _refused(self, error: RespoolError) -> None:
        reason = error.reason if isinstance(error, Refused) else None
        if reason in (Reason.FENCED, Reason.MISSING, Reason.DONE):
            self._close(reason)
        elif reason is None:
            self._close("store")
        elif self._fold is not None:
            # The lease is ours, but the log is not what this fold has written to: it is full, or a
            # failover took entries back. It never goes on with a hole (design invariant 6).
            self._fold.discard()
            self._break(error)
            self._flush()

    # ---- the end --------------------------------------------------------------------------------

    def _break(self, error: Exception) -> None:
        if self._broken:
            return
        self._broken = error.reason if isinstance(error, Refused) else type(error).__name__
        metrics.count("folds_failed_total", reason=self._broken)
        trouble = None if isinstance(error, RespoolError) else error
        log.error("%s cannot be continued: %s", self.rid, error, exc_info=trouble)

    async def _end(self) -> None:
        """End a response whose fold is broken, from what is committed."""
        store, limits, rid = self._store, self._limits, self.rid
        try:
            state = await store.logs.state(rid)
            if state is None:
                self._close(Reason.MISSING)
                return
            committed = await committed_frames(store.logs, rid)
            first = await store.logs.read_input(rid, 0, 1)
            last = ending(rid, committed, state.seq, first, state.created)
            call = commit(
                store.keys,
                rid,
                fence=self._fence,
                expected_cursor=state.cursor,
                cursor=state.cursor,
                first_seq=last.first_seq,
                frames=last.frames,
                digest=last.digest,
                lease_ms=limits.lease_ms,
                retain_ms=limits.retention_ms if state.store else limits.grace_ms,
                max_out_bytes=limits.max_out_bytes,
                status="failed",
                terminal=True,
            )
            await store.writer.do(call)
        except Exception as error:  # reported; the lease runs out, and another one tries
            trouble = None if isinstance(error, RespoolError) else error
            log.warning("%s could not be ended: %s", rid, error, exc_info=trouble)
            self._close("not ended")
            return
        if not self._over:
            store.handover.publish_output(rid, last.first_seq, last.frames, True)
            self._finish("failed")

    def _finish(self, status: str) -> None:
        metrics.count("responses_ended_total", status=status)
        self._store.writer.submit(due_drop(self._store.keys, self.rid), _ignore)
        self._close("")

    def _close(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        if reason:
            metrics.count("translations_dropped_total", reason=reason)
        if self._timer is not None:
            self._timer.cancel()
        self._count()
        for undo in (self._unfollow, self._unlisten):
            if undo is not None:
                undo()
        if self._fold is not None:
            self._store.handover.end_translating(self.rid)
        self._on_over(self)

    def _count(self) -> None:
        metrics.count("public_frames_total", self._frames)
        self._frames = 0


def _ignore(reply: object) -> None:
    """For calls whose failure changes nothing: a lease runs out, a sweeper looks once more."""
    del reply
