"""`make chaos`: faults, one after another, under streams that run side by side; one table at the end.

Exits with 1 where a law was broken, or where a kind of fault left no trace: then nothing was tested.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from itertools import islice
from pathlib import Path

from tests.chaos.faults import trials
from tests.chaos.report import Report
from tests.chaos.stage import staged

TRIAL_S = 45.0
"""No trial takes so long: one that does is a fault of this suite, and ends the run."""


async def run(count: int, seed: int, only: str, folder: Path) -> Report:
    """All trials; what was found."""
    chosen = (trial for trial in trials() if only in trial.name)
    async with staged(folder, seed) as stage:
        for number, trial in enumerate(islice(chosen, count), 1):
            sys.stderr.write(f"\r{number}/{count} {trial.name:40}")
            stage.begin(trial.name)
            async with asyncio.timeout(TRIAL_S):
                await trial.fault(stage, stage.fleet.named(trial.member))
        counts = await stage.fleet.counts()
    sys.stderr.write("\n")
    return Report(stage, counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the clients' comings and goings")
    parser.add_argument("--only", default="", help="trials with this in their names")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="respool-chaos-"))
    report = asyncio.run(run(given.trials, given.seed, given.only, folder))
    sys.stdout.write(report.text())
    if report.broken:
        sys.stdout.write(f"The processes' logs are in {folder}\n")
        sys.exit(1)
    shutil.rmtree(folder)
