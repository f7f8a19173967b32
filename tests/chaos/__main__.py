"""`make chaos`: faults, one after another, under streams that run side by side; one table at the end.

Exits with 1 where a law was broken, or where a kind of fault left no trace: then nothing was tested.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import run

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
