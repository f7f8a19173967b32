"""What a frame costs here, in figures that another machine has as well: multiples of the upstream's own, and counts.

In: `Results` of a short session, the speed of this machine. Out: a number for each name, and what is worse than the stored
ones (`ratios.toml`) by more than its margin. Used by `benchmarks.check`.
"""

import math
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

import orjson

from benchmarks.results import Results
from benchmarks.subjects import FLOOR
from benchmarks.table import aligned

STORED = Path(__file__).with_name("ratios.toml")
ROWS = ("paced-1", "paced-50", "burst", "resume", "first-1")
"""The latency is that of one stream: near the end of what a machine can do, it tells more of the queue than of the path."""
ROUNDS, STEPS = 7, 20_000
OURS = "one"
HEAD = "# Written by `make bench-check ARGS=--update`; what each name means is in benchmarks/ratios.py.\n"


class Margin(Enum):
    """How many times worse than stored a ratio may be before it counts."""

    COUNT = 1.10
    """Commands and bytes depend on how frames gather, a little."""
    PROCESSOR = 1.40
    """Processor time of the same work differs with what shares the caches: two runs of one version by a quarter."""
    TIME = 1.80
    """Times and rates of separate processes on shared cores: two runs of one version by a third and more."""


Value = Callable[[Results, float], float]
Outcome = Literal["as before", "better", "WORSE", "not stored", "not measured"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """One of them, from the results and the µs of a calibrating step."""

    name: str
    value: Value
    margin: Margin
    less_is_better: bool = True

    def outcome(self, measured: float, stored: float | None) -> Outcome:
        """How the one stands to the other."""
        if math.isnan(measured):
            return "not measured"
        if not stored:
            return "not stored"
        times = measured / stored if self.less_is_better else stored / max(measured, 1e-12)
        if times > self.margin.value:
            return "WORSE"
        return "better" if times < 1 / self.margin.value else "as before"


def _to_floor(row: str, figure: str) -> Value:
    def value(results: Results, step_us: float) -> float:
        del step_us
        ours, floor = (getattr(results.of(row, name), figure) for name in (OURS, FLOOR))
        return float(ours / floor)

    return value


def _to_step(row: str, figure: str) -> Value:
    return lambda results, step_us: float(getattr(results.of(row, OURS), figure)) / step_us


def _plain(row: str, figure: str) -> Value:
    return lambda results, _: float(getattr(results.of(row, OURS), figure))


RATIOS = (
    Ratio("single_added_p50_to_floor", _to_floor("paced-1", "age_p50"), Margin.TIME),
    Ratio("paced_processor_to_step", _to_step("paced-50", "cpu"), Margin.PROCESSOR),
    Ratio("paced_commands", _plain("paced-50", "commands"), Margin.COUNT),
    Ratio("paced_bytes", _plain("paced-50", "bytes"), Margin.COUNT),
    Ratio("burst_rate_to_floor", _to_floor("burst", "rate"), Margin.TIME, less_is_better=False),
    Ratio("burst_processor_to_step", _to_step("burst", "cpu"), Margin.PROCESSOR),
    Ratio("burst_bytes", _plain("burst", "bytes"), Margin.COUNT),
    Ratio("resume_rate_to_floor", _to_floor("resume", "rate"), Margin.TIME, less_is_better=False),
    Ratio("resume_processor_to_step", _to_step("resume", "cpu"), Margin.PROCESSOR),
    Ratio("first_byte_to_floor", _to_floor("first-1", "first_p50"), Margin.TIME),
)


def step_us() -> float:
    """What a step of the kind that a frame takes costs on this machine, in µs: a little JSON, a dict, a join."""
    best = math.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for number in range(STEPS):
            data = orjson.dumps({"type": "delta", "number": number, "delta": "word "})
            read = orjson.loads(data)
            b"".join((b"data: ", data, b"\n\n", read["delta"].encode()))
        best = min(best, time.perf_counter() - began)
    return best * 1e6 / STEPS


def measured(results: Results, step: float) -> dict[str, float]:
    """Every ratio by its name, NaN where there are no figures for it."""
    return {ratio.name: ratio.value(results, step) for ratio in RATIOS}


def stored(path: Path = STORED) -> dict[str, float]:
    """Those that were written down; none where there is no such file."""
    if not path.exists():
        return {}
    return {name: float(value) for name, value in tomllib.loads(path.read_text()).items()}


def write(values: Mapping[str, float], path: Path = STORED) -> None:
    """Write them down, with what is stored of those that were not measured."""
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    merged = {**stored(path), **known}
    path.write_text(HEAD + "".join(f"{name} = {value:.4g}\n" for name, value in merged.items()))


def compared(now: Mapping[str, float], before: Mapping[str, float]) -> tuple[str, list[str]]:
    """A table of all, and the names of those that are worse."""
    lines: list[tuple[str, ...]] = [("ratio", "", "stored", "now", "margin")]
    worse = []
    for ratio in RATIOS:
        outcome = ratio.outcome(now[ratio.name], before.get(ratio.name))
        if outcome == "WORSE":
            worse.append(ratio.name)
        shown = (before.get(ratio.name, math.nan), now[ratio.name], ratio.margin.value)
        texts = ("" if math.isnan(value) else f"{value:.3g}" for value in shown)
        lines.append((ratio.name, outcome, *texts))
    return aligned(lines), worse
