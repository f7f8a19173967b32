"""A session: subjects side by side, each row of each of them several times, all ended when it is over.

In: rows, names of subjects. Out: `Results`. Called by `make bench`, `make bench-check` and the tests.
"""

import gc
from collections.abc import Sequence
from contextlib import AsyncExitStack

from benchmarks.memory import memory
from benchmarks.results import Results
from benchmarks.rows import Row
from benchmarks.subjects import SUBJECTS, Subject, warm
from benchmarks.upstream import running

RUNS = 3
"""The fewest of which a median leaves out one that went wrong on either side."""


async def session(rows: Sequence[Row], names: Sequence[str], times: int, *, room: bool) -> Results:
    """Measure each row so many times; with `room` also the memory of a process of its own."""
    results = Results()
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(running())
        if room:  # before the others are there
            results.memory = await memory(upstream)
        subjects: list[Subject] = []
        for name in names:
            subjects.append(await stack.enter_async_context(SUBJECTS[name](upstream)))
            await warm(subjects[-1])
        gc.collect()
        gc.freeze()  # the client's own collector does not look at what is there for good
        await measure(rows, subjects, times, results)
    return results


async def measure(
    rows: Sequence[Row], subjects: Sequence[Subject], times: int, results: Results
) -> None:
    """Every row of every subject so many times; subjects take turns, so that what the machine does meanwhile hits all."""
    for _ in range(times):
        for row in rows:
            for subject in subjects:
                if subject.does(row):
                    results.add(row.name, subject.name, await subject.measured(row.load))
