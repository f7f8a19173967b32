"""Waiting for a condition, in place of sleeping for a guess."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

LOOK_EVERY_S = 0.005
LOOK_AT_PROCESSES_EVERY_S = 0.01
"""File locks and files of other processes offer nothing to wait on with a bound."""


async def wait_until(
    condition: Callable[[], object] | Callable[[], Awaitable[object]], within_s: float = 5.0
) -> object:
    """Return what the condition returns once it is true; fail when it does not come true."""
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {within_s} s: {inspect.getsource(condition)}")
        await asyncio.sleep(LOOK_EVERY_S)


def wait_for(condition: Callable[[], object], within_s: float) -> None:
    """The same where no event loop runs; the condition costs system calls."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(LOOK_AT_PROCESSES_EVERY_S)
