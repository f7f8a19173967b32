"""Runs that were never run."""

from benchmarks.figures import Figures, Run
from benchmarks.results import Results
from benchmarks.spending import Spending


def run(ages=(1.0,), *, frames=10, wall_s=1.0, first=5.0, cpu_us=30.0, lost=0, reads=1.0):
    figures = Figures(frames, list(ages), [first], frames, lost=lost, wall_s=wall_s)
    spent = Spending(cpu_us * frames / 1e6, 0.0, 2.0 * frames, 600.0 * frames, 0.0)
    return Run(figures, spent, 80.0, reads)


def results(**runs):
    """Rows and subjects as `paced_50__one=[run(), ...]`."""
    made = Results()
    for name, each in runs.items():
        row, subject = name.replace("_", "-").split("--")
        for one in each:
            made.add(row, subject, one)
    return made
