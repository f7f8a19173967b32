"""Whose turn it is to begin: a few creates in each turn of the event loop, in the order of their arrival.

In: creates whose body is there. Out: each goes on when it may. What a create costs before anything of it runs holds up
the loop for about half a millisecond; when many come at once, what has begun is carried on between any few of them. So a
burst holds up no stream for long, and its first responses have their first byte before its last ones are even read.
Called by `api.create`.
"""

import asyncio
from collections import deque
from typing import Final

AT_ONCE: Final = 4
"""Creates a turn. They hold up the loop for some 2 ms, and their calls to the store still share a pipeline; with one a
turn, a burst of fifty took half as much CPU again."""


class Turns:
    """One per process."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._left = AT_ONCE
        """Creates that may still begin in this turn; less than AT_ONCE only while `_renew` is scheduled."""

    async def mine(self) -> None:
        """Wait until this one may begin: not at all where few want to."""
        if self._left and not self._waiting:
            self._take()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _take(self) -> None:
        if self._left == AT_ONCE:
            asyncio.get_running_loop().call_soon(self._renew)
        self._left -= 1

    def _renew(self) -> None:
        """A new turn of the loop: it belongs to those who wait."""
        self._left = AT_ONCE
        while self._left and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its client may have left
                turn.set_result(None)
                self._take()
