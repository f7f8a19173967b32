"""What came out of each entry: a response's input log folded again, a little at a time, while somebody looks at it.

In: a response's id and how far to fold. Out: how many public frames each entry brought, the calls that the gateway runs,
and the machine's state after any entry. The fold is `translator`'s own; here is only when it runs: in slices of a few ms,
so that no stream waits for whoever debugs, and from where the last question left off, so that following a response that
runs costs each entry once. Called by `api.debug.inspection`.
"""

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from streams.faults import LogLost
from streams.logs import Logs
from translator.machine import Machine
from translator.protocol.entries import Entry, Kind
from translator.protocol.json import loads
from translator.refold import state_of
from translator.step import Command, RunJob

SLICE_S: Final = 0.004
"""One slice: below the 5 ms that a turn of the event loop may be held."""
CLOCK_EVERY: Final = 16
"""Entries between two looks at the clock: one takes some tens of µs."""
PAGE: Final = 1_000
"""Entries a read."""

KEPT: Final = 8
"""Folds that are kept for the next question: as many responses as a few people look at. One that is gone is folded anew."""
KEPT_BYTES: Final = 16 * 2**20
"""The same in bytes of log; a machine holds about what it was fed."""


@dataclass(slots=True)
class Call:
    """A call or a list of tools that the gateway runs: the entry that asked for it and the one with its result."""

    key: str
    tool: str
    name: str
    asked: int
    ended: int | None = None
    began_ms: int | None = None
    """When a worker began, by the server's clock; only a call's result tells."""
    ended_ms: int | None = None
    ok: bool | None = None

    def row(self) -> list[Any]:
        """As the page gets it."""
        return [
            *(self.key, self.tool, self.name, self.asked, self.ended),
            *(self.began_ms, self.ended_ms, self.ok),
        ]


class Cursor:
    """A machine and the number of the last entry that it was fed."""

    def __init__(self, rid: str) -> None:
        self._rid = rid
        self.machine = Machine(rid)
        self.n = 0

    def feed(self, entry: Entry) -> tuple[int, Sequence[Command]]:
        """The next entry; how many frames it brought, and the commands."""
        step = self.machine.feed(entry)
        self.n = entry.n
        return len(step.frames), step.commands


class Folding:
    """One response, folded as far as somebody asked."""

    def __init__(self, logs: Logs, rid: str) -> None:
        self._logs = logs
        self._rid = rid
        self._lock = asyncio.Lock()  # one question at a time feeds the machines
        self._tip = Cursor(rid)  # as far as the log was looked at
        self._probe: Cursor | None = None  # somewhere before; set by `state`
        self.frames = array("I")  # frames that each entry brought, in order
        self.calls: dict[str, Call] = {}  # by key, in the order in which they were asked for
        self.size = 0  # bytes of the entries that were fed

    async def reach(self, n: int) -> None:
        """Fold up to entry `n`. Raises LogLost where the log ends before."""
        async with self._lock:
            if n > self._tip.n:
                await self._feed(self._tip, n, note=True)

    async def state(self, n: int) -> dict[str, Any]:
        """The machine's state after entry `n`. Raises LogLost where the log ends before."""
        async with self._lock:
            cursor = self._tip if self._tip.n == n else self._probe
            if cursor is None or cursor.n > n:
                cursor = self._probe = Cursor(self._rid)
            if cursor.n < n:
                await self._feed(cursor, n, note=False)
            return state_of(cursor.machine)

    async def _feed(self, cursor: Cursor, n: int, *, note: bool) -> None:
        until = perf_counter() + SLICE_S
        while cursor.n < n:
            entries = await self._logs.read_input(self._rid, cursor.n, min(PAGE, n - cursor.n))
            if not entries:
                raise LogLost(self._rid, cursor.n, what="entry")
            for entry in entries:
                if entry.n != cursor.n + 1:
                    raise LogLost(self._rid, cursor.n, what="entry")
                frames, commands = cursor.feed(entry)
                if note:
                    self._note(entry, frames, commands)
                if not entry.n % CLOCK_EVERY and perf_counter() >= until:
                    await asyncio.sleep(0)
                    until = perf_counter() + SLICE_S

    def _note(self, entry: Entry, frames: int, commands: Sequence[Command]) -> None:
        self.frames.append(frames)
        self.size += len(entry.data)
        for command in commands:
            if isinstance(command, RunJob) and command.key not in self.calls:
                said = loads(command.data)
                name = said.get("name") or ""
                self.calls[command.key] = Call(command.key, str(said["tool"]), name, entry.n)
        if entry.kind in (Kind.TOOL_RESULT, Kind.TOOLS_LISTED):
            self._end(entry)

    def _end(self, entry: Entry) -> None:
        """A result: the first one of a call counts."""
        said = loads(entry.data)
        call = self.calls.get(said.get("key", ""))
        if call is None or call.ended is not None:
            return
        call.ended = entry.n
        call.began_ms, call.ended_ms = said.get("started"), said.get("ended")
        call.ok = said["ok"] if "ok" in said else said.get("error") is None


class Foldings:
    """The folds that were asked for last."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._kept: OrderedDict[str, Folding] = OrderedDict()

    def of(self, rid: str) -> Folding:
        """The fold of a response, kept or new; others go that were asked for longest ago."""
        folding = self._kept.pop(rid, None) or Folding(self._logs, rid)
        self._kept[rid] = folding
        while len(self._kept) > 1 and (
            len(self._kept) > KEPT or sum(one.size for one in self._kept.values()) > KEPT_BYTES
        ):
            self._kept.popitem(last=False)
        return folding
