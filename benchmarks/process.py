"""Processes of a benchmark: waiting for what others do, and ending in order when told to, as they must be ended, too.

Where another process does something there is nothing to wait on but to look again, with a bound.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine

import uvloop

WAIT_S = 30.0
"""A process of ours on a busy machine takes one to three seconds; past this it does not come."""
LOOK_EVERY_S = 0.02


async def until(done: Callable[[], Awaitable[bool]], within_s: float = WAIT_S) -> None:
    """Return once it is true. Raises TimeoutError after so many seconds."""
    async with asyncio.timeout(within_s):
        while not await done():  # noqa: ASYNC110 - another process: nothing to wait on
            await asyncio.sleep(LOOK_EVERY_S)


def carried_out(main: Coroutine[object, object, int]) -> int:
    """Run a benchmark; its exit status. On SIGTERM and Ctrl-C it is cancelled, so that it ends what it has started."""
    return uvloop.run(_until_told(main))


async def _until_told(main: Coroutine[object, object, int]) -> int:
    task = asyncio.ensure_future(main)
    loop = asyncio.get_running_loop()

    def end() -> None:
        if (
            not task.cancelling()
        ):  # `timeout` says it twice; the second must not cut short the ending
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        return await task
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
