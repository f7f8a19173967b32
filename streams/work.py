"""Work hints: "this response wants work of this kind", to whoever has room.

In: `offer` by api, the translate worker and the sweeper. Out: the taker that this process registered for the kind, if
it has room; else a stream in Redis that every process doing such work reads by `take`. A hint carries no state: taking
one twice is refused by the claim scripts, losing one is made good by the sweeper.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError, ResponseError

from streams.asked import Asked
from streams.client import (
    CONNECT_TIMEOUT_S,
    TRANSIENT,
    Connections,
    Link,
    as_store_error,
    word_of,
)
from streams.faults import StoreAway, StoreFull
from streams.keys import WORK_KINDS, Keys
from streams.scripts import hints
from streams.writer import FIRST_PAUSE_S, LONGEST_PAUSE_S, Sender
from translator.protocol.errors import RespoolError

Taker = Callable[[str], bool]
"""Takes a response id; False means that there is no room now (and `Work.room` will be called when there is)."""
Asker = Callable[[str], Asked[Any] | None]
"""Takes the id of a response that is about to be created, and says what it asks of the create; None: no room now."""

BLOCK_MS = 2_000
"""One blocking read. A bound, so that a connection that died in silence is noticed."""
SLACK_S = CONNECT_TIMEOUT_S + 1.0
"""What a blocking read may take beyond BLOCK_MS before its connection counts as dead."""
TAKE_AT_ONCE = 8
"""Hints read at once: few, since what this process has no room for has to be put back for the others."""
CONSUMER = "any"
"""With NOACK nothing is pending for anybody, so one consumer name serves all processes."""


class Work:
    """One per process."""

    def __init__(self, keys: Keys, writer: Sender, connections: Connections) -> None:
        self._keys = keys
        self._writer = writer
        self._connections = connections
        self._takers: dict[str, Taker] = {}
        self._askers: dict[str, Asker] = {}
        self._room = {kind: asyncio.Event() for kind in WORK_KINDS}
        """Cleared when the taker said no, set by `room`."""
        self._reading: dict[str, asyncio.Task[Any] | None] = {}
        """Who runs `take`, by kind: one each."""
        self.lost_hints = 0
        """Hints that could not be written; the sweeper makes them good."""

    def register(self, kind: str, taker: Taker, asker: Asker | None = None) -> None:
        """This process does work of a kind. Both are called in the event loop and must not block.

        Without an asker it gets what it creates itself by a hint, like any other.
        """
        if kind not in self._room:
            raise ValueError(f"no such kind of work: {kind!r}")
        self._takers[kind] = taker
        if asker is not None:
            self._askers[kind] = asker
        self._room[kind].set()

    def unregister(self, kind: str) -> None:
        """No more work of this kind (draining); what is offered from now on goes to others."""
        self._takers.pop(kind, None)
        self._askers.pop(kind, None)
        self._room[kind].clear()

    async def leave(self, kind: str) -> None:
        """No more work of this kind, and none on its way: returns when the hints are no longer read.

        Whoever gives work away does this first, so that others read what he offers. It cancels the task that runs `take`.
        """
        self.unregister(kind)
        reading = self._reading.get(kind)
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])

    def registered(self, kind: str) -> bool:
        """Whether this process does work of a kind."""
        return kind in self._takers

    def room(self, kind: str) -> None:
        """The taker has room again: called by its owner whenever a job ends."""
        if kind in self._takers:
            self._room[kind].set()

    def ask(self, kind: str, rid: str) -> Asked[Any] | None:
        """What this process asks of the create of a response whose work it will do; None: it has no room, or does none.

        Whoever creates the response answers it, whatever comes of the create.
        """
        asker = self._askers.get(kind)
        return asker(rid) if asker is not None and self._room[kind].is_set() else None

    def offer(self, kind: str, rid: str) -> None:
        """Somebody should do this work: this process in its next turn, if it has room, else anybody."""
        if kind in self._takers and self._room[kind].is_set():
            asyncio.get_running_loop().call_soon(self._give, kind, rid)
        else:
            self._hint(kind, rid)

    def _give(self, kind: str, rid: str) -> None:
        taker = self._takers.get(kind)
        if taker is None or not taker(rid):
            self._room[kind].clear()
            self._hint(kind, rid)

    def _hint(self, kind: str, rid: str) -> None:
        self._writer.submit(hints.hint(self._keys, kind, rid), self._hinted)

    def _hinted(self, result: RespoolError | None) -> None:
        if result is not None:
            self.lost_hints += 1

    async def take(self, kind: str) -> None:
        """The loop of a process that does such work; ends only by cancellation. Reads only while there is room.

        Give it a task of its own: `leave` cancels that.

        Raises StoreError where the server answers with something that does not pass by itself.
        """
        self._reading[kind] = asyncio.current_task()
        link = self._connections.link(self._keys.work(kind))
        pause, known = 0.0, False
        try:
            while True:
                await self._room[kind].wait()
                try:
                    if not known:
                        await self._writer.do(hints.group(self._keys, kind))
                        known = True
                    rids = await self._read(link, kind)
                except (RedisError, OSError, TimeoutError, StoreAway, StoreFull) as error:
                    if isinstance(error, ResponseError) and not passes(error):
                        raise as_store_error(error) from error
                    # The connection died, or is one to a server that is not the one any more: the next read makes a new
                    # one.
                    known = False
                    await link.drop()
                    await asyncio.sleep(pause)
                    pause = min(pause * 2 + FIRST_PAUSE_S, LONGEST_PAUSE_S)
                else:
                    pause = 0.0
                    for rid in rids:
                        self._give(kind, rid)
        finally:
            del self._reading[kind]
            await link.drop()

    async def _read(self, link: Link, kind: str) -> list[str]:
        command = (
            *("XREADGROUP", "GROUP", hints.GROUP_NAME, CONSUMER, "COUNT", TAKE_AT_ONCE),
            *("BLOCK", BLOCK_MS, "NOACK", "STREAMS", self._keys.work(kind), ">"),
        )
        async with asyncio.timeout(BLOCK_MS / 1000 + SLACK_S):
            ids, rids = parse(await link.call(*command))
        if ids:
            self._writer.submit(hints.taken(self._keys, kind, ids), self._hinted)
        return rids


def passes(error: ResponseError) -> bool:
    """Whether an error reply to XREADGROUP passes: a failover, a slot's move, a group that is not there and is made again.

    A group is gone with its key: by its TTL while nobody used it, or with a server that lost its data.
    """
    return word_of(error) in {
        "NOGROUP",
        "UNBLOCKED",
        "MOVED",
        "ASK",
        *TRANSIENT,
    } or "key to exist" in str(error)


def parse(reply: Any) -> tuple[list[bytes], list[str]]:
    """Entry ids and response ids of an XREADGROUP on one stream."""
    if not reply:
        return [], []
    # An entry that was deleted between delivery and reading has no fields.
    entries = [(name, fields) for name, fields in reply[0][1] if fields]
    return [name for name, _ in entries], [fields[1].decode() for _, fields in entries]
