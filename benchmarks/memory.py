"""What `respool serve` takes of memory: with nothing to do, and for each stream that is open.

In: the scripted upstream. Out: a `Memory`. A process of its own is started for it, since one that has carried a load
keeps what it has allocated.
"""

import asyncio
import math
from dataclasses import dataclass

from benchmarks.load import Load, run
from benchmarks.subjects import Subject, gateway, warm
from benchmarks.upstream import Running

FEW = Load(50, 10, 200)
"""What a first load leaves behind for good is not counted for the streams of the next."""
MANY = Load(400, 10, 200)
"""Few frames, so that it is the streams that count."""
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory; NaN where it was not measured."""

    idle_mb: float = math.nan
    stream_kb: float = math.nan
    """The most that there was while so many streams were open, for each of them, beyond what was there before and beyond
    its frames, which are kept for others who follow it."""


async def memory(upstream: Running) -> Memory:
    """Start one process, look at it, and open many streams. Raises RuntimeError where they do not all end well."""
    async with gateway("memory", upstream) as subject:
        idle = subject.memory_mb()
        await warm(subject)
        await run(subject.bases, FEW)
        before = subject.memory_mb()
        most, frames = await _most(subject)
        return Memory(idle, ((most - before) * 1024 - frames / 1024) / MANY.streams)


async def _most(subject: Subject) -> tuple[float, int]:
    """MB while they were open, and the bytes of their frames."""
    running = asyncio.create_task(run(subject.bases, MANY))
    most = 0.0
    while not running.done():
        most = max(most, subject.memory_mb())
        await asyncio.wait([running], timeout=LOOK_EVERY_S)
    figures = running.result()
    if faults := figures.faults():
        raise RuntimeError(f"{MANY}: {'; '.join(faults)}")
    return most, figures.received
