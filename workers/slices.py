"""Long folds of one process, cut into slices: one slice a turn of the event loop, in turn.

In: callbacks that each work for a few ms. Out: they are called one at a time with everything else
of the process between them, so that however many responses are refolded at once, the heartbeats of
healthy ones never starve (design section 4.3). Called by `workers.translate`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

SLICE_S: Final = 0.004
"""One slice: below the 5 ms that a turn of the event loop may be held, above what switching costs."""


class Slices:
    """One per process."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False  # set while a turn is asked for

    def add(self, work: Callable[[], None]) -> None:
        """Call `work` in a coming turn; it must not raise, and asks again for its next slice."""
        self._waiting.append(work)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        work = self._waiting.popleft()
        try:
            work()
        finally:
            self._schedule()
