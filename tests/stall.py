"""How long the event loop was held up, for tests that bound it."""

import asyncio
import time
from collections.abc import Callable


async def longest_stall(clock: Callable[[], float] = time.thread_time) -> float:
    """Until cancelled: how long the loop worked at worst before anybody else had a turn.

    By default it is the thread's own time that counts, not what other programs take of the processor meanwhile.
    """
    worst = 0.0
    try:
        while True:
            began = clock()
            await asyncio.sleep(0.001)
            worst = max(worst, clock() - began)
    except asyncio.CancelledError:
        return worst


async def longest_wait() -> float:
    """The same where threads work too: whoever of this process kept the loop from its turn, a thread in C code as well."""
    return await longest_stall(time.process_time)
