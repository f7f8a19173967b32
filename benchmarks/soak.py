"""`make soak`: streams for minutes on end, with packing and expiry, and a look at the memory all the while.

Prints a line a minute. Ends with status 1 if a frame was lost, repeated or out of order, or if the memory of
`respool serve` grew: its slope, over all but the first part, is more than a leak of a few hundred bytes a response.
"""

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass, field
from statistics import linear_regression

from benchmarks.figures import Figures, quantile
from benchmarks.load import Load, run
from benchmarks.process import carried_out
from benchmarks.subjects import Subject, gateway, warm
from benchmarks.upstream import running

CLIENTS = 20
LOAD = Load(1, 50, 20)
"""A response a second and client, so that what each leaves behind adds up fast."""
SOON = {"RESPOOL_SEAL_AFTER_S": "5", "RESPOOL_RETENTION_S": "20"}
"""Everything that happens to a response happens to thousands."""
MINUTE_S = 60.0
LOOK_EVERY_S = 1.0
SETTLING = 0.3
"""The part of the run in which allocator and caches find their size."""
FLAT_MB_A_MINUTE = 0.5
"""1,200 responses a minute: less than half a KB of each."""
FEWEST = 10
"""Samples below which a slope says nothing."""


@dataclass(slots=True)
class Soak:
    """What has been seen so far."""

    began: float = field(default_factory=time.monotonic)
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Minutes since the beginning, and MB."""
    figures: list[Figures] = field(default_factory=list)
    """Of the minute that runs."""
    faults: list[str] = field(default_factory=list)

    def look(self, megabytes: float) -> None:
        """One more sample of the memory."""
        self.memory.append(((time.monotonic() - self.began) / MINUTE_S, megabytes))

    def line(self) -> str:
        """The minute that is over; the next one begins."""
        figures, self.figures = self.figures, []
        ages = [age for one in figures for age in one.ages]
        firsts = [first for one in figures for first in one.first_bytes]
        minute, megabytes = self.memory[-1]
        return (
            f"{minute:5.1f} min  {len(figures):6,} responses  {sum(one.frames for one in figures):8,} frames"
            f"  added p50 {quantile(ages, 0.5):5.1f} ms  p99 {quantile(ages, 0.99):6.1f} ms"
            f"  first byte p50 {quantile(firsts, 0.5):5.1f} ms  {megabytes:6.1f} MB  {len(self.faults)} faults"
        )


def slope(memory: list[tuple[float, float]]) -> float:
    """MB a minute after the settling, by least squares; 0 where there are too few samples to tell."""
    settled = memory[int(len(memory) * SETTLING) :]
    if len(settled) < FEWEST:
        return 0.0
    return linear_regression(*zip(*settled, strict=True)).slope


async def client(subject: Subject, soak: Soak, until: float) -> None:
    """One response after another."""
    while time.monotonic() < until:
        figures = await run(subject.bases, LOAD)
        soak.figures.append(figures)
        soak.faults += figures.faults()


async def main(minutes: float) -> int:
    """Run it, and say a line a minute."""
    async with running() as upstream, gateway("one", upstream, settings=SOON) as subject:
        await warm(subject)
        soak = Soak()
        until = soak.began + minutes * MINUTE_S
        clients = {asyncio.create_task(client(subject, soak, until)) for _ in range(CLIENTS)}
        said = 0
        while clients:
            done, clients = await asyncio.wait(clients, timeout=LOOK_EVERY_S)
            for one in done:
                one.result()
            soak.look(subject.memory_mb())
            if said + 1 <= soak.memory[-1][0] < minutes or not clients:
                said += 1
                print(soak.line(), flush=True)
        grown = slope(soak.memory)
    print(f"memory: {grown:+.2f} MB a minute (at most {FLAT_MB_A_MINUTE})")
    for fault in soak.faults:
        print(f"FAULT: {fault}")
    return 1 if soak.faults or grown > FLAT_MB_A_MINUTE else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    sys.exit(carried_out(main(parser.parse_args().minutes)))
