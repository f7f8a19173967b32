"""`make bench`: the same loads on the scripted upstream alone, through `respool serve`, and through a peer.

Prints one table, and below it what was to be reached. Everything runs on this machine and on loopback, so figures differ
from one to another: compare the lines with each other. Ends with status 1 if a frame was lost, repeated or out of order
at the upstream or at Respool, and 0 where targets are missed. docs/performance.md says what each column means.
"""

import argparse
import sys

from benchmarks import litellm
from benchmarks.process import carried_out
from benchmarks.rows import BY_NAME
from benchmarks.session import RUNS, session
from benchmarks.subjects import FLOOR, OURS, PEERS, SUBJECTS
from benchmarks.table import table
from benchmarks.targets import judged

MEMORY = "memory"
"""A row that is no load: it has lines among the targets only."""


def asked(words: list[str] | None = None) -> argparse.Namespace:
    """What to measure. Ends the process with status 2 where a word is none of ours."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    own = [name for name in SUBJECTS if name not in PEERS]
    plain = [FLOOR, *OURS]
    parser.add_argument("--subjects", nargs="*", choices=own, default=plain, help="the first three")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[], help="installed on demand")
    parser.add_argument(
        "--rows",
        nargs="*",
        choices=[*BY_NAME, MEMORY],
        default=[*BY_NAME, MEMORY],
        help="all of them",
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="of which the medians are taken")
    return parser.parse_args(words)


async def main(given: argparse.Namespace) -> int:
    """Measure and print."""
    rows = [row for name, row in BY_NAME.items() if name in given.rows]
    room = MEMORY in given.rows and bool({*OURS} & {*given.subjects})
    names = [*given.subjects, *given.peers]
    results = await session(rows, names, given.runs, room=room)
    print(f"medians of {given.runs}; times in ms, CPU, commands and bytes a frame\n")
    print(table(results))
    for name in given.peers:
        print(f"\n{name} {litellm.version()}")
    print(f"\n{judged(results)}")
    for note in results.notes():
        print(f"note: {note}")
    for fault in results.faults():
        print(f"FAULT: {fault}")
    return 1 if results.faults() else 0


if __name__ == "__main__":
    sys.exit(carried_out(main(asked())))
