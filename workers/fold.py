"""The fold of one response as a worker runs it: what is committed already, and what is to be next.

In: the lease (how far the log of outputs has come) and the entries of the input log from the first.
Out: batches for `commit`. What a predecessor committed is folded again and compared by its digest,
never written twice (design invariants 2 and 4). No IO here; called by `workers.translate`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final

from streams.scripts.outputs import Lease
from streams.tracing import Trace
from translator.machine import Machine
from translator.protocol.entries import Entry
from translator.protocol.errors import StoreError
from translator.step import Command, NextRound, Note, Reopen, RunJob, Step

COMMIT_FRAMES: Final = 512
"""What one script call commits: a few ms of the server's time."""

COMMIT_BYTES: Final = 1024 * 1024
"""The same in bytes; the frames of entries that were folded at once always go together."""

AT_ONCE: Final = 32
"""Entries folded before another look at the clock: a fold takes tens of µs an entry, a slice some ms."""


class Diverged(StoreError):
    """What is committed is not what the input log gives: other code."""


class EntriesLost(Diverged):
    """The input log does not hold all that was folded or committed: the store took it back."""


@dataclass(slots=True)
class Batch:
    """One commit: all that some entries in a row brought, the last of which is `cursor`.

    Outputs belong to the entry that caused them: they are committed with it or not at all.
    """

    cursor: int = 0
    t: int = 0  # the server's time at its first entry, ms
    frames: list[bytes] = field(default_factory=list)
    size: int = 0
    status: str = ""
    terminal: bool = False
    next_round: tuple[int, bytes] | None = None
    reopen: bool = False
    jobs: list[tuple[str, bytes]] = field(default_factory=list)
    closed: bool = False  # nothing more goes in: the round moves on, the end, or a bound
    first_seq: int = 0  # set by `take`
    digest: str = ""  # set by `take`: over all frames up to this batch's last


class Fold:
    """Entries in, batches out. One batch is under way at a time: `take`, then `committed`."""

    def __init__(self, rid: str, lease: Lease) -> None:
        self._machine = Machine(rid)
        self._lease = replace(lease, entries=())  # they are fed, and need not be kept
        self._hash = hashlib.blake2b(digest_size=16)  # over all frames folded again or taken
        self._refolded = 0  # frames that the refold has made again
        self._batches: list[Batch] = []  # made, not yet taken; only the last may be open
        self._taken: Batch | None = None  # set by `take`, cleared by `committed`
        self.began = 0  # the server's time at the first entry, ms
        self.fed = 0  # number of the last entry that was fed
        self.cursor = lease.cursor  # as committed
        self.seq = lease.seq  # as committed
        self.digest = lease.digest  # as committed
        self.pending_bytes = 0  # of frames that are made and not yet committed
        self.notes: list[Note] = []  # of entries past the lease's cursor; the caller takes them

    @property
    def response_is_stored(self) -> bool:
        """Whether the finished response is kept (`store`)."""
        return bool((self._machine.response or {}).get("store", True))

    @property
    def flying(self) -> Batch | None:
        """The batch that is under way."""
        return self._taken

    @property
    def ended(self) -> bool:
        """Whether the terminal frame was made."""
        return self._machine.terminal

    @property
    def idle(self) -> bool:
        """Whether all that was folded is committed."""
        return self._taken is None and not self._batches

    @property
    def trace(self) -> Trace | None:
        """Where the response stands in a trace, as its request entry says."""
        request = self._machine.request
        return Trace.of(request.get("trace")) if request else None

    def feed(self, entries: Sequence[Entry], start: int = 0, *, until: float | None = None) -> int:
        """Fold entries from `start` on until the clock says stop; the index of the first left over.

        Entries known already are passed over. Raises Diverged, and what the machine raises.
        """
        cursor, feed_on = self._lease.cursor, self._machine.feed_on
        index, end = start, len(entries)
        while index < end:
            entry = entries[index]
            if entry.n <= self.fed:
                index += 1
                continue
            if entry.n != self.fed + 1:
                raise EntriesLost(f"the input log lacks entry {self.fed + 1}")
            if entry.n == 1:
                self.began = entry.t
            # Up to the lease's cursor frames are compared, past it they are kept.
            room = AT_ONCE if self.fed >= cursor else min(AT_ONCE, cursor - self.fed)
            stop = min(index + room, end)
            if entries[stop - 1].n - entry.n != stop - 1 - index:
                stop = index + 1  # there is a hole: up to it, one by one
            step, count = feed_on(entries, index, stop)
            index += count
            last = self.fed = self.fed + count
            if last > cursor:
                self._keep(step, last, entry.t)
            else:
                self._compare(step.frames, last)
            if until is not None and perf_counter() >= until:
                break
        return index

    def check_end(self) -> None:
        """Called where the log ends: one shorter than what was committed has lost entries."""
        if self.fed < self._lease.cursor:
            raise EntriesLost(f"the input log ends before entry {self._lease.cursor}, once folded")

    def take(self) -> Batch | None:
        """The next batch, or None while one is under way or there is nothing to commit."""
        if self._taken is not None or not self._batches:
            return None
        batch = self._taken = self._batches.pop(0)
        for frame in batch.frames:
            self._hash.update(frame)
        batch.first_seq = self.seq + 1
        batch.digest = self._hash.hexdigest()
        return batch

    def take_frames(self, status: str) -> Batch | None:
        """`take`, where there is one batch, of frames alone, that leaves the response in this status."""
        if len(self._batches) != 1:
            return None
        batch = self._batches[0]
        return None if batch.closed or batch.jobs or batch.status != status else self.take()

    def stamp(self, t: int) -> None:
        """The entries that were folded without a time are in the log since `t`."""
        for batch in (self._taken, *self._batches):
            if batch is not None and not batch.t:
                batch.t = t

    def committed(self) -> Batch:
        """The batch under way is in the log."""
        batch = self._taken
        if batch is None:
            raise AssertionError("no batch is under way")
        self._taken = None
        self.cursor = batch.cursor
        self.seq += len(batch.frames)
        self.digest = batch.digest
        self.pending_bytes -= batch.size
        return batch

    def discard(self) -> None:
        """Forget what is made and not committed: the log takes no more of it."""
        self._taken = None
        self._batches.clear()
        self.pending_bytes = 0

    def _keep(self, step: Step, n: int, t: int) -> None:
        """What an entry brought goes with its predecessors', up to the bounds of a commit."""
        if step.notes:
            self.notes += step.notes
        frames = step.frames
        if not frames and not step.commands:
            return  # the cursor can wait: whoever folds this entry again gets nothing either
        size = len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
        batches, machine = self._batches, self._machine
        batch = batches[-1] if batches else None
        if batch is None or not self._fits(batch, len(frames), size):
            batch = Batch(t=t)
            batches.append(batch)
        batch.cursor = n
        batch.frames += frames
        batch.size += size
        batch.status = machine.status
        self.pending_bytes += size
        if step.commands:
            self._keep_commands(batch, step.commands)
        if machine.terminal:
            batch.terminal = batch.closed = True

    def _keep_commands(self, batch: Batch, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case RunJob(key, data):
                    batch.jobs.append((key, data))
                    batch.size += len(data)
                    self.pending_bytes += len(data)
                case NextRound(number, body):
                    batch.next_round = (number, body)
                    batch.closed = True  # it moves the round's state: one at a time
                case Reopen():
                    batch.reopen = batch.closed = True

    @staticmethod
    def _fits(batch: Batch, frames: int, size: int) -> bool:
        return not (
            batch.closed
            or len(batch.frames) + frames > COMMIT_FRAMES
            or batch.size + size > COMMIT_BYTES
        )

    def _compare(self, frames: list[bytes], n: int) -> None:
        for frame in frames:
            self._hash.update(frame)
        self._refolded += len(frames)
        lease = self._lease
        if self._refolded > lease.seq + 1:
            raise Diverged("the fold gives more frames than were committed")
        if n == lease.cursor and (
            self._refolded != lease.seq + 1 or self._hash.hexdigest() != lease.digest
        ):
            raise Diverged("the fold does not give the frames that were committed")
