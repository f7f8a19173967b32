"""One response translated: its input log folded and committed (step 3 of the data's way).

In: entries of the input log, as `workers.follow` brings them. Out: commits of frames, cursor,
digest, status and the next round, in one step each; then the hand-over to readers. One commit is in
flight at a time; what is folded meanwhile goes with the next. Where the round is run in this process as
well, a frame is folded before it is appended, and both logs are written in one step; what the log
makes of it is checked there, and a fold that foresaw something else begins anew. Called by
`workers.role`. Everything happens in callbacks: no task is woken for a frame.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from streams import metrics
from streams.asked import Asked
from streams.faults import StoreFull
from streams.scripts.hints import due_end
from streams.scripts.outputs import Alive, CommitResult, Lease, commit
from streams.scripts.refused import Reason, Refused
from streams.scripts.rounds import AppendResult, Outcome
from streams.scripts.tools import NO_WAIT_BOUND
from streams.store import Store
from streams.tracing import Span, tracing
from translator.protocol.entries import Entry, Kind
from translator.protocol.errors import LimitPassed, RespoolError
from workers.fold import Batch, EntriesLost, Fold
from workers.follow import Following
from workers.lease import Holding
from workers.report import reason_of, report
from workers.slices import Slices
from workers.translate_end import committed_frames, ending

log = logging.getLogger(__name__)

UNSTAMPED = 0
"""Time of an entry that is not in the log yet. Only the end of a response shows a time, and is not committed with it."""
FORESEEABLE: Final = frozenset({Kind.FRAME, Kind.OPENED})
"""What an attempt says in its middle. The end of a round shows when it came."""
LAG: Final = metrics.histogram("frame_lag_seconds")
"""By the store's clock at both ends, so it is true wherever the entry was appended; that clock counts ms."""

NO_LEASE = Lease(fence="", cursor=0, seq=-1, digest="", dup=False)
"""What a translation has before it was granted one: nothing is fed to its fold."""


@dataclass(frozen=True, slots=True)
class TranslateLimits:
    """What bounds a response's translation, and how long its logs are kept."""

    lease_ms: int
    retention_ms: int
    grace_ms: int
    """How long the logs of an unstored response outlive its end."""
    max_out_bytes: int
    seal_after_ms: int = 0
    """From a stored response's end to its sealing; 0: never."""
    tool_wait_ms: int = NO_WAIT_BOUND
    """How long a response's calls may wait for any tool worker."""


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
        self._on_over = on_over
        self._holding = Holding(
            store, rid, limits.lease_ms, on_beat=self._count, on_reply=self._beaten
        )
        self._following = Following(store, rid, slices, self)
        self._fold = Fold(rid, NO_LEASE)  # replaced when the lease is granted
        self._held = False  # the lease was granted
        self._taken_over = False  # somebody else had begun
        self._over = False  # set once, by `_close`
        self._sure = (
            0  # entries folded before the last beat was sent: the next one must know of them
        )
        self._foresaw = (
            0  # number of the first entry that was folded and is not known to be in the log
        )
        self._broken = ""  # why the fold cannot go on
        self._ending: asyncio.Task[None] | None = None  # set when a broken fold is ended
        self._waiting: dict[Callable[[], None], None] = {}  # for what is under way to be through
        self._status = ""  # as last committed
        self._frames = self._foreseen = 0  # committed and not yet counted: once a beat, not a frame

    @property
    def held(self) -> bool:
        """Whether the lease is this process's."""
        return self._held and not self._over

    def begin(self) -> None:
        """Ask for the lease. What is handed over meanwhile is noticed: nothing falls between asking and reading."""
        self._following.watch()
        self._holding.ask(self._acquired)

    def asked(self) -> Asked[Lease]:
        """`begin`, with the create of the response."""
        self._following.watch()
        return self._holding.asked(self._answered)

    async def let_go(self) -> None:
        """Give the lease back, so that a successor goes on at once; commits in flight come first."""
        held = self._held and not self._over
        self._close("released")
        if held:
            await self._holding.give_back()
            self._store.work.offer("translate", self.rid)

    # ---- the lease ------------------------------------------------------------------------------

    def _answered(self, lease: Lease | None) -> None:
        if lease is None:
            self._close("")
        else:
            self._acquired(lease)

    def _acquired(self, reply: Lease | RespoolError) -> None:
        if isinstance(reply, RespoolError):
            reason = reply.reason if isinstance(reply, Refused) else "store"
            metrics.count("acquires_refused_total", reason=reason)
            self._close("")
            return
        if self._over:  # let go of before it was had
            self._holding.drop(reply)
            self._store.work.offer("translate", self.rid)
            return
        how = "anew" if reply.cursor == 0 else "taken over"
        metrics.count("translations_acquired_total", how=how)
        self._taken_over = reply.cursor > 0
        if self._taken_over:
            about = {"response": self.rid}
            log.info("%s is taken over, from entry %d on", self.rid, reply.cursor, extra=about)
        self._held = True
        self._fold = Fold(self.rid, reply)
        self._holding.keep(reply)
        self._store.handover.begin_translating(self.rid, self)
        self._following.begin(reply.entries)

    def _beaten(self, reply: Alive | RespoolError) -> None:
        if isinstance(reply, RespoolError):
            self._refused(reply)
            return
        if self._taken_back(reply):
            self._stuck(EntriesLost(f"the log has lost what followed entry {reply.last}"))
            return
        self._sure = self._foresaw - 1 if self._foresaw else self._fold.fed
        if reply.last > self._fold.fed:
            self._following.read()

    def _taken_back(self, reply: Alive) -> bool:
        """Whether a failover lost entries that were folded or committed. A commit in flight would be refused."""
        lost = reply.last < self._sure or reply.cursor != self._fold.cursor
        return lost and not self._fold.flying

    # ---- folding (workers.follow.Folder) --------------------------------------------------------

    @property
    def fed(self) -> int:
        """Number of the last entry that was folded."""
        return self._fold.fed

    @property
    def pending_bytes(self) -> int:
        """What was folded and is not yet committed."""
        return self._fold.pending_bytes

    @property
    def ended(self) -> bool:
        """Whether the terminal frame was made; what is left is to commit it."""
        return self._fold.ended

    def take(self, entries: Sequence[Entry], start: int, until: float | None) -> int:
        """Fold entries; one that cannot be folded ends this response, and no other."""
        if self._broken:
            return len(entries)
        try:
            return self._fold.feed(entries, start, until=until)
        except Exception as error:  # noqa: BLE001 - reported; it ends this response alone
            self._break(error)
            return len(entries)
        finally:
            if self._fold.notes:
                self._report()

    def caught_up(self) -> None:
        """The log was read to its end: what was committed must have come out of it."""
        try:
            self._fold.check_end()
        except RespoolError as error:
            self._break(error)

    def away(self, error: RespoolError) -> None:
        """The log cannot be read."""
        about = {"response": self.rid}
        log.warning("%s is left to another: %s", self.rid, error.message, extra=about)
        self._close("store")

    def _report(self) -> None:
        """Count what was tolerated, and show it without content (upstream-quirks.md, rule 7)."""
        for note in self._fold.notes:
            metrics.count("translator_notes_total", kind=note.kind)
            line = (self.rid, note.kind, note.name, note.size)
            log.debug("%s: %s %r (%d)", *line, extra={"response": self.rid})
        self._fold.notes.clear()

    # ---- foreseeing (streams.handover.Seer) -----------------------------------------------------

    def settles(self, then: Callable[[], None]) -> bool:
        """Whether a commit is under way, but for which frames could be foreseen; when it is through `then` is called.

        Frames that were appended meanwhile would need a commit of their own, beside which the next are appended, and so on
        for as long as they come faster than Redis answers: two calls a frame, and shown no sooner than with the next
        append.
        """
        busy = self._fold.flying is not None and self._following.live and not self._broken
        if busy:
            self._waiting[then] = None
        return busy

    def _settled(self) -> None:
        """Nothing is under way any more, whatever became of it."""
        waiting, self._waiting = self._waiting, {}
        for then in waiting:
            then()

    def foresee(self, frames: Sequence[tuple[str, bytes]]) -> Outcome | None:
        """Fold frames that are not in the log yet, as its next entries; what they bring, if it is frames alone."""
        fold = self._fold
        ready = fold.idle and self._following.live and not (self._over or self._broken)
        if not ready or self._foresaw or any(kind not in FORESEEABLE for kind, _ in frames):
            return None
        first = self._foresaw = fold.fed + 1
        self.take(
            [Entry(n, kind, UNSTAMPED, data) for n, (kind, data) in enumerate(frames, first)],
            0,
            None,
        )
        batch = fold.take_frames(self._status)
        if batch is None:
            return None
        return Outcome(
            first,
            self._holding.fence,
            fold.cursor,
            batch.cursor,
            batch.first_seq,
            batch.frames,
            batch.digest,
            self._limits.lease_ms,
            self._limits.max_out_bytes,
        )

    def foreseen(self, reply: AppendResult | RespoolError) -> bool:
        """It came true, or the fold begins anew. What was not committed with the append is now."""
        first, self._foresaw = self._foresaw, 0
        if self._over or not first:
            return False
        fold, refused = self._fold, isinstance(reply, (Refused, StoreFull))
        if self._broken:
            self._give_up()
        elif isinstance(reply, Refused) and reply.reason is Reason.MISSING:
            self._close(Reason.MISSING)  # deleted: there is nothing to read anew
        elif isinstance(reply, RespoolError) and not refused:
            self.away(reply)
        elif isinstance(reply, RespoolError) or reply.first != first or fold.ended:
            metrics.count("foresights_failed_total")
            lease = Lease(self._holding.fence, fold.cursor, fold.seq, fold.digest, dup=False)
            self._fold = Fold(self.rid, lease)
            self._following.begin_anew()
            self._settled()
        else:
            fold.stamp(reply.t)
            if reply.committed:
                self._foreseen += 1
                self._moved_on(reply.t, None)
            elif fold.flying is not None:
                self._commit(fold.flying)
            else:
                self.flush()
            return True
        return False

    # ---- committing -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Commit what was folded, unless a commit is under way."""
        if self._over or self._foresaw:
            return
        batch = self._fold.take()
        if batch is not None:
            self._commit(batch)
        elif self._broken and not self._fold.flying and self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())

    def _commit(self, batch: Batch) -> None:
        limits, fold = self._limits, self._fold
        call = commit(
            self._store.keys,
            self.rid,
            fence=self._holding.fence,
            expected_cursor=fold.cursor,
            cursor=batch.cursor,
            first_seq=batch.first_seq,
            frames=batch.frames,
            digest=batch.digest,
            lease_ms=limits.lease_ms,
            retain_ms=self._retain_ms(stored=fold.response_is_stored),
            max_out_bytes=limits.max_out_bytes,
            status=batch.status if batch.terminal or batch.status != self._status else None,
            next_round=batch.next_round,
            jobs=batch.jobs,
            reopen=batch.reopen,
            terminal=batch.terminal,
        )
        try:
            self._store.writer.submit(call, self._committed)
        except LimitPassed as error:
            self._stuck(error)

    def _committed(self, reply: CommitResult | RespoolError) -> None:
        if self._over:
            return
        if isinstance(reply, RespoolError):
            self._refused(reply)
            return
        self._moved_on(reply.t, reply.entry)

    def _moved_on(self, t: int, entry: Entry | None) -> None:
        """The batch under way is in the log since `t`, and perhaps the entry of the next round."""
        self._holding.heard()
        batch, store = self._fold.committed(), self._store
        LAG.observe((t - batch.t) / 1000)
        self._status = batch.status
        if batch.frames:
            self._frames += len(batch.frames)
            store.handover.publish_output(self.rid, batch.first_seq, batch.frames, batch.terminal)
        if batch.terminal:
            self._finish(batch.status, t, stored=self._fold.response_is_stored)
            return
        if entry is not None:
            store.handover.publish_input(self.rid, [entry])
        if batch.next_round is not None or batch.reopen:
            store.work.offer("rounds", self.rid)
        if batch.jobs:
            store.work.offer("tools", self.rid)
        self.flush()
        self._following.resume()
        self._settled()

    def _refused(self, error: RespoolError) -> None:
        reason = error.reason if isinstance(error, Refused) else None
        if isinstance(error, StoreFull):
            self._stuck(error)  # its end fits all the same
        elif reason is None:
            self.away(error)
        elif reason in (Reason.FENCED, Reason.MISSING, Reason.DONE):
            self._close(reason)
        else:
            # The lease is ours, but the log is not what this fold has written to: it is full, or a
            # failover took entries back. It never goes on with a hole (design invariant 6).
            self._stuck(error)

    # ---- the end --------------------------------------------------------------------------------

    def _stuck(self, error: RespoolError) -> None:
        self._break(error)
        self._give_up()

    def _give_up(self) -> None:
        """End the response of a broken fold from what is in the log, whether that has what is under way or not."""
        self._fold.discard()
        self.flush()
        self._settled()

    def _break(self, error: Exception) -> None:
        if self._broken:
            return
        self._broken = reason_of(error)
        metrics.count("folds_failed_total", reason=self._broken)
        report(log, logging.ERROR, self.rid, "cannot be continued", error)

    async def _end(self) -> None:
        """End a response whose fold is broken; if that fails too, its lease runs out."""
        try:
            await self._end_from_committed()
        except Exception as error:  # noqa: BLE001 - reported; another one tries
            report(log, logging.WARNING, self.rid, "could not be ended", error)
            self._close("not ended")

    async def _end_from_committed(self) -> None:
        store, limits, rid = self._store, self._limits, self.rid
        state = await store.logs.state(rid)
        if state is None:
            self._close(Reason.MISSING)
            return
        committed = await committed_frames(store.logs, rid)
        first = await store.logs.read_input(rid, 0, 1)
        # In a thread: the streams of others go on meanwhile.
        last = await asyncio.to_thread(ending, rid, committed, state.seq, first, state.created)
        call = commit(
            store.keys,
            rid,
            fence=self._holding.fence,
            expected_cursor=state.cursor,
            cursor=state.cursor,
            first_seq=last.first_seq,
            frames=last.frames,
            digest=last.digest,
            lease_ms=limits.lease_ms,
            retain_ms=self._retain_ms(stored=state.store),
            max_out_bytes=limits.max_out_bytes,
            status="failed",
            terminal=True,
        )
        reply = await store.writer.do(call)
        store.handover.publish_output(rid, last.first_seq, last.frames, True)
        self._finish("failed", reply.t, stored=state.store)

    def _retain_ms(self, *, stored: bool) -> int:
        return self._limits.retention_ms if stored else self._limits.grace_ms

    def _finish(self, status: str, t: int, *, stored: bool) -> None:
        metrics.count("responses_ended_total", status=status)
        about = {"response": self.rid, "status": status}
        log.info("%s ended: %s", self.rid, status, extra=about)
        if tracing.on:
            self._trace(status, t)
        keys, limits = self._store.keys, self._limits
        sealed = stored and 0 < limits.seal_after_ms < limits.retention_ms
        call = due_end(keys, self.rid, after_ms=limits.seal_after_ms if sealed else None)
        self._store.writer.submit(call, _ignore)
        self._close("")

    def _trace(self, status: str, t: int) -> None:
        """The whole response as a span: from its request's time to that of its terminal frame."""
        trace = self._fold.trace
        if trace is not None:
            about: dict[str, str | int] = {
                "respool.response": self.rid,
                "respool.status": status,
                "respool.takeover": str(self._taken_over).lower(),
            }
            failed = status == "failed"
            began = self._fold.began
            tracing.emit(Span("response", "server", trace, began, t, failed, about))

    def _close(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        if reason:
            metrics.count("translations_dropped_total", reason=reason)
        self._holding.stop()
        self._following.stop()
        self._count()
        if self._held:
            self._store.handover.end_translating(self.rid)
        self._on_over(self)
        self._settled()

    def _count(self) -> None:
        metrics.count("public_frames_total", self._frames)
        metrics.count("commits_foreseen_total", self._foreseen)
        self._frames = self._foreseen = 0


def _ignore(reply: object) -> None:
    """Whatever the answer: a sweeper that still finds a finished response drops it, or waits to seal it."""
    del reply
