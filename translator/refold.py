"""A stored response folded again, with the code at hand: what came out of each entry, and whether it is what was stored.

In: a response id and its input log. Out: a `Turn` for each entry, and where asked the machine's state after any of
them, or the first difference from what was stored. Pure; called by `respool.inspection` and the debug page. Workers fold
with `workers.fold`, which commits; nothing here writes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from translator.machine import ForeignLog, Machine
from translator.protocol.entries import Entry, Kind
from translator.step import Command, NextRound, Note

ROUND: Final = str(Kind.ROUND)


class Turn(NamedTuple):
    """One entry and what came out of it: frames from number `first_seq` on, commands and notes."""

    entry: Entry
    frames: list[bytes]
    first_seq: int
    commands: Sequence[Command] = ()
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Identical:
    """The fold gives what was stored, byte for byte."""

    entries: int
    frames: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where the fold gives something else.

    A frame (`round` is 0): frame `seq`, as stored and as folded again, None where there is none. Or the upstream body of
    a later round: `stored` is what was sent, `refolded` what would be, and `seq` the next frame's number at that moment.
    `entry` is the one that brought it, or, where the fold stopped short, the last.
    """

    seq: int
    stored: bytes | None
    refolded: bytes | None
    entry: Entry
    round: int = 0


def refold(rid: str, entries: Iterable[Entry], machine: Machine | None = None) -> Iterator[Turn]:
    """A turn for each entry, which must be all from the first on, in order. Raises ForeignLog.

    A fresh `machine` may be given, to be looked at between two turns.
    """
    machine = Machine(rid) if machine is None else machine
    seq = 0
    for n, entry in enumerate(entries, 1):
        if entry.n != n:
            raise ForeignLog(f"The input log lacks entry {n}.")
        step = machine.feed(entry)
        yield Turn(entry, step.frames, seq, step.commands, step.notes)
        seq += len(step.frames)


def state_of(machine: Machine) -> dict[str, Any]:
    """The machine's state as plain JSON: phase, items as so far, what is held and waited for, usage, the next number."""
    return machine.picture()


def state_after(
    rid: str, entries: Iterable[Entry], *, n: int | None = None, seq: int | None = None
) -> tuple[Turn, dict[str, Any]]:
    """The turn of entry `n`, or the one that brought frame `seq`, and the state after it. Raises LookupError without."""
    machine = Machine(rid)
    for turn in refold(rid, entries, machine):
        if turn.entry.n == n or (seq is not None and seq < turn.first_seq + len(turn.frames)):
            return turn, state_of(machine)
    raise LookupError(f"it has no entry {n}" if seq is None else f"it has no frame {seq}")


def compare(
    turns: Iterable[Turn], stored: Sequence[bytes], *, whole: bool = True
) -> Identical | Difference:
    """Hold what the fold gives against the stored frames, and the bodies of later rounds against their entries.

    `whole` is False for a response that runs: its last entries may be folded and their frames not committed yet.
    """
    seq, turn = 0, None
    bodies = Bodies()
    for turn in turns:
        entry = turn.entry
        if turn.commands or entry.kind == ROUND:
            due = bodies.differs(turn)
            if due is not None:
                return Difference(seq, entry.data, due, entry, entry.round)
        for frame in turn.frames:
            if seq == len(stored):
                return Difference(seq, None, frame, entry) if whole else Identical(entry.n, seq)
            if frame != stored[seq]:
                return Difference(seq, stored[seq], frame, entry)
            seq += 1
    if turn is None:
        raise ForeignLog("The input log is empty.")
    if seq < len(stored):
        return Difference(seq, stored[seq], None, turn.entry)
    return Identical(turn.entry.n, seq)


class Bodies:
    """The upstream bodies that the fold gives, until their entries come. The first round's is the api's own work."""

    def __init__(self) -> None:
        self._due: NextRound | None = None  # set by the turn that gave it, cleared by its entry's

    def differs(self, turn: Turn) -> bytes | None:
        """The body as folded again where the turn's entry is one and has another."""
        entry, due = turn.entry, self._due
        if due is not None and entry.kind == ROUND and entry.round == due.number:
            self._due = None
            return due.body if entry.data != due.body else None
        for command in turn.commands:
            if isinstance(command, NextRound):
                self._due = command
        return None
