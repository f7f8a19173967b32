"""What one entry brings out of the fold: frames, commands for whoever commits them, notes for metrics.

Made by the machine, one `Step` an entry; read by `workers.fold`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Reopen:
    """Let a round that was lost be claimed again."""

    round: int


@dataclass(frozen=True, slots=True)
class NextRound:
    """Write the next round's entry with this exact upstream body."""

    number: int
    body: bytes


@dataclass(frozen=True, slots=True)
class RunJob:
    """Give a job to the tool workers: list a server's tools, or run a call."""

    key: str
    data: bytes


Command = Reopen | NextRound | RunJob


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth counting and a debug line, never with content: what, whose (a tool's name), how large."""

    kind: str
    name: str = ""
    size: int = 0


class Step(NamedTuple):
    """What one entry brought: frames to commit, commands for the commit, notes for metrics. One is made of every frame."""

    frames: list[bytes]
    commands: Sequence[Command] = ()
    notes: Sequence[Note] = ()
