"""The fold of one response as a worker runs it: what is committed already, and what is to be next.

In: the lease (how far the log of outputs has come) and the entries of the input log from the first.
Out: batches for `commit`. What a predecessor committed is folded again and compared by its digest,
never written twice (design invariants 2 and 4). No IO here; called by `workers.translate`.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from streams.scripts.outputs import Lease
from translator.machine import Command, Machine, NextRound, Note, Reopen
from translator.protocol.entries import Entry
from translator.protocol.errors import StoreError

COMMIT_FRAMES: Final = 512
"""What one script call commits: a few ms of the server's time."""

COMMIT_BYTES: Final = 1024 * 1024
"""The same in bytes; the frames of a single entry always go together."""


class Diverged(StoreError):
    """What is committed is not what the input log gives: other code, or a log that lost entries."""


@dataclass(slots=True)
class Group:
    """What one entry brought: its outputs belong to it and are committed with it or not at all."""

    n: int
    frames: list[bytes]
    commands: list[Command]
    status: str
    terminal: bool
    size: int


@dataclass(slots=True)
class Batch:
    """One commit: the groups of some entries in a row."""

    cursor: int
    first_seq: int
    frames: list[bytes]
    digest: str
    status: str
    terminal: bool
    next_round: tuple[int, bytes] | None = None
    reopen: bool = False


class Fold:
    """Entries in, batches out. One batch is under way at a time: `take`, then `committed`."""

    def __init__(self, rid: str, lease: Lease) -> None:
        self._machine = Machine(rid)
        self._lease = lease
        self._hash = hashlib.blake2b(digest_size=16)  # over all frames folded or taken so far
        self._refolded = 0  # frames that the refold has made again
        self._groups: deque[Group] = deque()  # made, not yet taken
        self._taken: Batch | None = None  # set by `take`, cleared by `committed`
        self.fed = 0  # number of the last entry that was fed
        self.cursor = lease.cursor  # as committed
        self.seq = lease.seq  # as committed
        self.pending_bytes = 0  # of frames that are made and not yet committed
        self.notes: list[Note] = []  # of entries past the lease's cursor; the caller takes them

    @property
    def response_is_stored(self) -> bool:
        """Whether the finished response is kept (`store`)."""
        return bool((self._machine.response or {}).get("store", True))

    def feed(self, entries: Sequence[Entry], start: int = 0, *, until: float = float("inf")) -> int:
        """Fold entries from `start` on until the clock says stop; the index of the first left over.

        Entries known already are passed over. Raises Diverged, and what the machine raises.
        """
        for index in range(start, len(entries)):
            entry = entries[index]
            if entry.n <= self.fed:
                continue
            if entry.n != self.fed + 1:
                raise Diverged(f"the input log lacks entry {self.fed + 1}")
            self._feed(entry)
            if perf_counter() >= until:
                return index + 1
        return len(entries)

    def check_end(self) -> None:
        """Called at the end of the log: one that is shorter than what was committed has lost entries."""
        if self.fed < self._lease.cursor:
            raise Diverged(
                f"the input log ends before entry {self._lease.cursor}, which was folded"
            )

    @property
    def flying(self) -> bool:
        """Whether a batch is under way."""
        return self._taken is not None

    def discard(self) -> None:
        """Forget what is made and not committed: the log takes no more of it."""
        self._taken = None
        self._groups.clear()
        self.pending_bytes = 0

    def take(self) -> Batch | None:
        """The next batch, or None while one is under way or there is nothing to commit."""
        groups = self._groups
        if self._taken is not None or not groups:
            return None
        frames: list[bytes] = []
        commands: list[Command] = []
        size = 0
        while True:
            group = groups.popleft()
            frames += group.frames
            commands = group.commands
            size += group.size
            # a command moves the round's state in the script: at most one commit's worth of them
            if group.commands or not groups or len(frames) + len(groups[0].frames) > COMMIT_FRAMES:
                break
            if size + groups[0].size > COMMIT_BYTES:
                break
        for frame in frames:
            self._hash.update(frame)
        batch = Batch(
            group.n, self.seq + 1, frames, self._hash.hexdigest(), group.status, group.terminal
        )
        for command in commands:
            match command:
                case NextRound(number, body):
                    batch.next_round = (number, body)
                case Reopen():
                    batch.reopen = True
        self._taken = batch
        return batch

    def committed(self) -> Batch:
        """The batch under way is in the log."""
        batch = self._taken
        if batch is None:
            raise AssertionError("no batch is under way")
        self._taken = None
        self.cursor = batch.cursor
        self.seq += len(batch.frames)
        self.pending_bytes -= sum(map(len, batch.frames))
        return batch

    def _feed(self, entry: Entry) -> None:
        step = self._machine.feed(entry)
        self.fed = entry.n
        if entry.n <= self._lease.cursor:
            self._compare(step.frames, entry.n)
            return
        self.notes += step.notes
        if step.frames or step.commands:
            size = sum(map(len, step.frames))
            self.pending_bytes += size
            machine = self._machine
            self._groups.append(
                Group(entry.n, step.frames, step.commands, machine.status, machine.terminal, size)
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
