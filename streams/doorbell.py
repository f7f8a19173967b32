"""Pub/sub on channels of single responses: "your log grew", to processes that did not write it themselves.

In: channels and callbacks, from the hub and from translate workers whose writer is elsewhere. Out: a call of each
callback when the channel rings, after a reconnect (a ring may have been lost meanwhile), and never with content: who is
called reads the log from its own cursor. A lost ring costs at most POLL_S, since every follower polls when it is quiet.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from streams.client import Connections
from streams.writer import LONGEST_PAUSE_S

POLL_S = 0.5
"""How long a follower waits for a ring before it looks by itself."""

Ring = Callable[[], None]


class Doorbell:
    """One per process, on one connection that is made when somebody subscribes."""

    def __init__(self, connections: Connections) -> None:
        self._link = connections.link()
        self._rings: dict[str, tuple[Ring, ...]] = {}
        self._asked: set[str] = set()
        """Channels that the server was asked for on the present connection."""
        self._changed = asyncio.Event()
        """Set when `_rings` and `_asked` may differ, cleared by the sender."""
        self._pause = 0.0
        """Before the next connection; grows while there is none, cleared by the first message."""
        self.rings = 0
        """Messages heard so far."""

    def subscribe(self, channel: str, callback: Ring) -> Callable[[], None]:
        """Have `callback` called when the channel rings; call the returned function once to stop."""
        self._rings[channel] = (*self._rings.get(channel, ()), callback)
        self._changed.set()

        def unsubscribe() -> None:
            rest = list(self._rings.get(channel, ()))
            if callback in rest:
                rest.remove(callback)
            if rest:
                self._rings[channel] = tuple(rest)
            else:
                self._rings.pop(channel, None)
                self._changed.set()

        return unsubscribe

    @property
    def channels(self) -> int:
        """Channels that somebody wants to hear."""
        return len(self._rings)

    async def run(self) -> None:
        """The loop; ends only by cancellation."""
        try:
            while True:
                await self._changed.wait()
                try:
                    await self._link.open()
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._send())
                        group.create_task(self._listen())
                except* (RedisError, OSError, TimeoutError):
                    self._pause = min(self._pause * 2 + 0.02, LONGEST_PAUSE_S)
                await self._link.drop()
                self._asked.clear()
                self._changed.set()
                await asyncio.sleep(self._pause)
        finally:
            await self._link.drop()

    async def _send(self) -> None:
        """Ask the server for what is wanted and not yet asked for, and the reverse."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = set(self._rings)
            commands = []
            if more := wanted - self._asked:
                commands.append(("SUBSCRIBE", *more))
            if less := self._asked - wanted:
                commands.append(("UNSUBSCRIBE", *less))
            self._asked = wanted
            if commands:
                await self._link.send(commands)

    async def _listen(self) -> None:
        while True:
            self._heard(await self._link.read())

    def _heard(self, message: Any) -> None:
        kind, channel = message[0], message[1]
        self._pause = 0.0
        # A subscription that stands rings as well: what came before it was not heard.
        if kind in {b"message", b"subscribe"}:
            self.rings += kind == b"message"
            for callback in self._rings.get(channel.decode(), ()):
                callback()
