"""How long the event loop was held up, for tests that bound it."""

import asyncio
import time


async def longest_stall() -> float:
    """Until cancelled: how long the loop worked at worst before anybody else had a turn.

    It is the thread's own time that counts, not what other programs take of the processor meanwhile.
    """
    worst = 0.0
    try:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            worst = max(worst, time.thread_time() - began)
    except asyncio.CancelledError:
        return worst


async def longest_wait() -> float:
    """The same where threads work too: whoever of this process kept the loop from its turn, a thread in C code as well."""
    worst = 0.0
    try:
        while True:
            began = time.process_time()
            await asyncio.sleep(0.001)
            worst = max(worst, time.process_time() - began)
    except asyncio.CancelledError:
        return worst
