"""What runs came to: of one run its raw figures, of several the medians.

In: the stamps that clients read (`benchmarks.load`), what the processes and the store spent meanwhile
(`benchmarks.spending`). Out: a `Summary` of a row and a subject, for the table, the targets and the ratios.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from statistics import median

from benchmarks.spending import Spending

MS_NS = 1e6
SUSTAINED = 1.10
"""A run that takes no more than this many times the upstream's own is sustained."""


@dataclass(slots=True)
class Figures:
    """What one run came to; times in milliseconds."""

    expected: int
    """Frames that each stream must bring."""
    ages: list[float] = field(default_factory=list)
    """From the upstream's send to the client's receipt."""
    first_bytes: list[float] = field(default_factory=list)
    """From a request to the first byte of its answer's body."""
    frames: int = 0
    received: int = 0
    """Bytes of all streams that were read as they came."""
    lost: int = 0
    repeated: int = 0
    disordered: int = 0
    errors: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    unread: list[bytes] = field(default_factory=list)
    """Whole bodies, set by clients that read faster than they could look into what they read, cleared by `run`."""

    @property
    def rate(self) -> float:
        """Frames a second over the whole run."""
        return self.frames / self.wall_s if self.wall_s else 0.0

    def count(self, marks: Sequence[int]) -> None:
        """One stream's frames, each known by a number that only grows."""
        distinct = len(set(marks))
        self.frames += len(marks)
        self.lost += max(0, self.expected - distinct)
        self.repeated += len(marks) - distinct
        self.disordered += any(one > two for one, two in pairwise(marks))

    def faults(self) -> list[str]:
        """What must never be, each with how often it was."""
        wrong = {
            "frames lost": self.lost,
            "frames repeated": self.repeated,
            "streams out of order": self.disordered,
            "errors": len(self.errors),
        }
        found = [f"{count} {what}" for what, count in wrong.items() if count]
        return found + [f"the first error: {error}" for error in self.errors[:1]]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a row on a subject."""

    figures: Figures
    spent: Spending
    memory_mb: float
    reads_a_frame: float = math.nan
    """Reads of a log that the store served for each frame, while all clients were there and none had left."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Medians of several runs; NaN where there is nothing to say.

    Rates in frames a second, `wall` in s, ages and first bytes in ms, processor times in µs a frame, memory in MB.
    """

    rate: float = math.nan
    wall: float = math.nan
    age_p50: float = math.nan
    age_p99: float = math.nan
    age_max: float = math.nan
    first_p50: float = math.nan
    first_p99: float = math.nan
    cpu: float = math.nan
    store_cpu: float = math.nan
    memory: float = math.nan
    commands: float = math.nan
    bytes: float = math.nan
    reads: float = math.nan


def quantile(values: Sequence[float], q: float) -> float:
    """A quantile, NaN of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return median(ordered) if q == 0.5 else ordered[min(len(ordered) - 1, int(len(ordered) * q))]


def summary(runs: Iterable[Run]) -> Summary:
    """The median of each figure over the runs, by itself."""
    each = [_figures(run) for run in runs]
    return Summary(
        **{
            one.name: _median(getattr(figures, one.name) for figures in each)
            for one in fields(Summary)
        }
    )


def _median(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return median(known) if known else math.nan


def _figures(run: Run) -> Summary:
    figures, spent = run.figures, run.spent
    frames = figures.frames or math.nan
    return Summary(
        rate=figures.rate,
        wall=figures.wall_s,
        age_p50=quantile(figures.ages, 0.5),
        age_p99=quantile(figures.ages, 0.99),
        age_max=quantile(figures.ages, 1.0),
        first_p50=quantile(figures.first_bytes, 0.5),
        first_p99=quantile(figures.first_bytes, 0.99),
        cpu=spent.processor_s * 1e6 / frames,
        store_cpu=spent.store_s * 1e6 / frames,
        memory=run.memory_mb,
        commands=spent.commands / frames,
        bytes=spent.bytes / frames,
        reads=run.reads_a_frame,
    )
