"""The store at the start: tried until it is there, within a bound, while the port says that this process waits.

In: how to open the store, an HTTP side that can serve meanwhile. Out: the open store, or None where a signal came first.
A wrong password or a wrong kind of server ends the wait at once. Called by `respool.serve`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from streams.faults import StoreAway, StoreLocked
from streams.store import Store

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 1.0
"""Between two tries; a second is what nobody minds at a start."""


class Arrival:
    """One wait for one store."""

    def __init__(self, open_store: Callable[[], Awaitable[Store]], within_s: float) -> None:
        self._open = open_store
        self._within_s = within_s
        self.problem = "the store is not open yet"
        """What is wrong, as of the last try; without hosts or values."""

    async def wait(self, asked: asyncio.Event, on_wait: Callable[[], None]) -> Store | None:
        """The store; None once `asked` is set. `on_wait` is called before the first pause.

        Raises StoreAway when the time is over, and whatever else is wrong with the store at once.
        """
        loop = asyncio.get_running_loop()
        until, pause_s, waited = loop.time() + self._within_s, FIRST_PAUSE_S, False
        while not asked.is_set():
            try:
                return await self._open()
            except StoreLocked:
                raise
            except StoreAway as error:
                self.problem = error.message
                if loop.time() + pause_s > until:
                    raise
            if not waited:
                log.warning("%s: waiting up to %g s for it", self.problem, self._within_s)
                on_wait()
                waited = True
            try:
                async with asyncio.timeout(pause_s):
                    await asked.wait()
            except TimeoutError:
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        return None
