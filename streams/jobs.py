"""The jobs of one kind that this process does at once: a bounded set of tasks, one a work hint.

In: jobs, as the owner's taker makes them from the hints of `streams.work`. Out: each is run; the owner hears when one is
over, and others are told that there is room. Called by the roles whose jobs are tasks: `ingest.role`,
`workers.tools.role`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar

from streams.work import Work


class Job(Protocol):
    """What is run once; it raises nothing but cancellation."""

    def run(self) -> Coroutine[Any, Any, None]:
        """Do it."""
        ...


J = TypeVar("J", bound=Job)


class Jobs(Generic[J]):
    """One per role. Its length is the number of jobs that run."""

    def __init__(
        self, work: Work, kind: str, *, max_open: int, on_over: Callable[[J], None] | None = None
    ) -> None:
        self._work = work
        self._kind = kind
        self._max_open = max_open
        self._on_over = on_over
        self._open: dict[asyncio.Task[None], J] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[J]:
        """The jobs that run."""
        return iter(self._open.values())

    @property
    def full(self) -> bool:
        """Whether there is no room for another one."""
        return len(self._open) >= self._max_open

    def start(self, job: J) -> None:
        """Run a job from the next turn of the event loop on."""
        task = asyncio.get_running_loop().create_task(job.run())
        self._open[task] = job
        task.add_done_callback(self._over)

    async def drain(self, within_s: float, cut: Callable[[J], None], cut_s: float) -> None:
        """Take nothing new and let the own jobs end; those that do not are cut, and may take `cut_s` to end."""
        await self._work.leave(self._kind)
        await self._ended(within_s)
        for job in self._open.values():
            cut(job)
        await self._ended(cut_s)

    async def abort(self) -> None:
        """Take nothing new and cancel what runs."""
        self._work.unregister(self._kind)
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _ended(self, within_s: float) -> None:
        if self._open:
            await asyncio.wait(self._open, timeout=within_s)

    def _over(self, task: asyncio.Task[None]) -> None:
        job = self._open.pop(task)
        if self._on_over is not None:
            self._on_over(job)
        self._work.room(self._kind)
