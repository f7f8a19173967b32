"""What the gateway shall reach on two cores that it shares with the store, the upstream and the load.

In: `Results`. Out: a line for each target, met or missed, with what was measured. A missed one is a figure, not an error.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks.figures import SUSTAINED
from benchmarks.results import Results
from benchmarks.table import aligned, number

SHARED = 1.05
"""Reads for a hundred clients and for one: a poll more or less falls into one of two windows of some seconds."""
FLAT = 1.10
"""Two figures of one cost: what the machine's noise makes of them at least."""

Value = Callable[[Results], float]
Verdict = Literal["met", "missed", "not measured"]


@dataclass(frozen=True, slots=True)
class Target:
    """One bound: what it is of, the most (or the least) that it may be, in what unit."""

    what: str
    sense: Literal["≤", "≥"]
    bound: float
    unit: str
    value: Value

    def verdict(self, results: Results) -> Verdict:
        """Whether it is met."""
        value = self.value(results)
        if math.isnan(value):
            return "not measured"
        holds = operator.le if self.sense == "≤" else operator.ge
        return "met" if holds(value, self.bound) else "missed"


def figure(row: str, subject: str, name: str) -> Value:
    """One figure of the table."""
    return lambda results: float(getattr(results.of(row, subject), name))


def quotient(of: Value, to: Value) -> Value:
    """One as a multiple of another; where both are nothing, they are the same."""

    def value(results: Results) -> float:
        above, below = of(results), to(results)
        if below == 0:
            return 1.0 if above == 0 else math.inf
        return above / below

    return value


def lost(row: str, subject: str) -> Value:
    """Frames that did not come, over all runs."""

    def value(results: Results) -> float:
        runs = results.runs.get((row, subject))
        return float(sum(run.figures.lost for run in runs)) if runs else math.nan

    return value


def longer(row: str, subject: str) -> Value:
    """The run as a multiple of the upstream's own."""
    return lambda results: results.longer(row, subject)


def _follow(subject: str) -> tuple[Target, ...]:
    reads = quotient(figure("follow-100", subject, "reads"), figure("follow-1", subject, "reads"))
    return (
        Target(f"reads for 100 clients, {subject}", "≤", SHARED, "x one's", reads),
        Target(
            f"added p99, 100 clients on one response, {subject}",
            *("≤", 20, "ms", figure("follow-100", subject, "age_p99")),
        ),
    )


TARGETS = (
    Target("added p50, 50 streams", "≤", 2, "ms", figure("paced-50", "one", "age_p50")),
    Target("added p99, 50 streams", "≤", 8, "ms", figure("paced-50", "one", "age_p99")),
    Target("added p50, 200 streams", "≤", 6, "ms", figure("paced-200", "one", "age_p50")),
    Target("added p99, 200 streams", "≤", 40, "ms", figure("paced-200", "one", "age_p99")),
    Target("frames lost, 200 streams", "≤", 0, "", lost("paced-200", "one")),
    Target("time of 200 streams", "≤", SUSTAINED, "x upstream's", longer("paced-200", "one")),
    Target("first byte p50, 50 at once", "≤", 25, "ms", figure("first-50", "one", "first_p50")),
    Target("first byte p50, one alone", "≤", 4, "ms", figure("first-1", "one", "first_p50")),
    Target("unpaced", "≥", 60_000, "frames/s", figure("burst", "one", "rate")),
    Target(
        "unpaced, against LiteLLM",
        *(
            "≥",
            15,
            "x",
            quotient(figure("burst", "one", "rate"), figure("burst", "litellm", "rate")),
        ),
    ),
    *(
        Target(f"CPU a frame, 200 streams, {name}", "≤", 60, "µs", figure("paced-200", name, "cpu"))
        for name in ("one", "split")
    ),
    Target("resume of 10,000 frames", "≥", 150_000, "frames/s", figure("resume", "one", "rate")),
    Target("resume, first byte p50", "≤", 10, "ms", figure("resume", "one", "first_p50")),
    *_follow("one"),
    *_follow("split"),
    Target("memory, idle", "≤", 90, "MB", lambda results: results.memory.idle_mb),
    Target("memory, a live stream", "≤", 40, "KB", lambda results: results.memory.stream_kb),
    *(
        Target(
            f"CPU a frame, 20,000 frames against {frames}",
            *("≤", FLAT, "x", quotient(figure("long", "one", "cpu"), figure(row, "one", "cpu"))),
        )
        # Of a hundred frames the create is the most, which would hide a growth.
        for row, frames in (("short", "100"), ("medium", "2,000"))
    ),
    Target(
        "CPU a frame, 500 streams against 50",
        *("≤", 1.0, "x"),
        quotient(figure("paced-500", "one", "cpu"), figure("paced-50", "one", "cpu")),
    ),
)


def judged(results: Results) -> str:
    """A table of all targets, what was not measured included."""
    lines = [("target", "", "measured", "")]
    for target in TARGETS:
        digits = 2 if target.bound < 10 else 0 if target.bound >= 1000 else 1
        bound = f"{target.sense} {target.bound:,g} {target.unit}".rstrip()
        measured = number(target.value(results), digits)
        lines.append((target.what, bound, measured, target.verdict(results)))
    return aligned(lines)
