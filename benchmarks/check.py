"""`make bench-check`: a short run, its ratios held against the stored ones.

Prints a table. Ends with status 1 where a ratio is worse than the stored one by more than its margin, or where a frame was
lost, repeated or out of order. With `--update` the new ones are stored instead. It takes about a minute, and means
something only on a machine that does nothing else meanwhile.
"""

import argparse
import sys

from benchmarks.process import carried_out
from benchmarks.ratios import OURS, ROWS, compared, measured, step_us, stored, write
from benchmarks.rows import BY_NAME
from benchmarks.session import RUNS, session
from benchmarks.subjects import FLOOR


async def main(*, update: bool, runs: int) -> int:
    """Measure, compare, print."""
    before = step_us()
    results = await session([BY_NAME[name] for name in ROWS], [FLOOR, OURS], runs, room=False)
    now = measured(results, (before + step_us()) / 2)
    text, worse = compared(now, stored())
    print(text)
    for fault in results.faults():
        print(f"FAULT: {fault}")
    if results.faults():
        return 1
    if update:
        write(now)
        return 0
    return 1 if worse else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__)
    parser.add_argument("--update", action="store_true", help="store what is measured")
    parser.add_argument("--runs", type=int, default=RUNS, help="of which the medians are taken")
    given = parser.parse_args()
    sys.exit(carried_out(main(update=given.update, runs=given.runs)))
