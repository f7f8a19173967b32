"""A run: trials one after another, under streams that run side by side all the while."""

import asyncio
import sys
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
            try:
                async with asyncio.timeout(TRIAL_S):
                    await trial.fault(stage, stage.fleet.named(trial.member))
            except (AssertionError, TimeoutError) as error:
                stage.judge.broken.append(f"{trial.name} did not come to its end: {error}")
                break
        counts = await stage.fleet.counts()
    sys.stderr.write("\n")
    return Report(stage, counts)
