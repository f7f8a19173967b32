"""The sealer: some minutes after a response's end, both its logs become one packed value.

In: finished responses, from the sweeper, which goes on asking until each is sealed. Out: the `seal` script, which puts
the value in the place of the logs if they hold what was packed. One at a time, a chapter at a time, packed in a thread: a
log of the largest size takes seconds of a processor, a few MB beside the value, and none of the event loop's time.
Whatever goes wrong, the logs live on as they are. Called by `workers.sweep`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from streams import metrics
from streams.faults import LogLost
from streams.logs import State
from streams.scripts.outputs import Frame
from streams.scripts.refused import Reason
from streams.scripts.sealing import seal
from streams.sealed import CHAPTER_BYTES, Packer
from streams.store import Store
from translator.protocol.entries import Entry
from translator.protocol.errors import LimitPassed
from workers.report import reason_of, report

log = logging.getLogger(__name__)

T = TypeVar("T", Entry, Frame)

MAX_PACKED_BYTES: Final = 32 * 2**20
"""One call to the store holds it all: some tens of ms of the server's time. Two logs at their default bound come to a
third of it, unless they hold what does not pack; then the little that packing wins is not worth it."""

MAX_WAITING: Final = 1_000
"""Responses that wait here; a burst of ends past it waits in the due set."""

Pages = Callable[[int], Awaitable[Sequence[T]]]
"""Reads a page after a number of items."""


class Sealer:
    """One per sweeper; `run` must be running for anything to be sealed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: asyncio.Queue[tuple[str, State]] = asyncio.Queue(MAX_WAITING)
        self._taken: set[str] = set()  # those that wait and the one at work

    def take(self, rid: str, state: State) -> None:
        """Seal it in its turn; where too many wait, or it waits already, nothing: the sweeper asks again."""
        if rid not in self._taken and not self._waiting.full():
            self._taken.add(rid)
            self._waiting.put_nowait((rid, state))

    async def run(self) -> None:
        """Seal one after another until cancelled."""
        while True:
            rid, state = await self._waiting.get()
            try:
                await self._attend(rid, state)
            finally:
                self._taken.discard(rid)

    async def _attend(self, rid: str, state: State) -> None:
        """Seal one; whatever comes of it is this response's own affair."""
        store = self._store
        try:
            try:
                await self._seal(rid, state)
            except (LimitPassed, LogLost) as error:
                # As long as it lives it will not be otherwise: nobody asks again.
                self._failed(rid, error)
            await store.due.drop(rid)
        except Exception as error:  # noqa: BLE001 - reported; the sweeper asks again
            self._failed(rid, error)

    def _failed(self, rid: str, error: Exception) -> None:
        reason = reason_of(error)
        metrics.count("seals_failed_total", reason=reason)
        if reason != Reason.MISSING:  # it was deleted meanwhile, or has expired
            report(log, logging.WARNING, rid, "could not be sealed", error)

    async def _seal(self, rid: str, state: State) -> None:
        packer = await self._packed(rid, state)
        value = await asyncio.to_thread(packer.value)
        entries, frames = packer.entries, packer.frames
        call = seal(self._store.keys, rid, value=value, entries=entries, frames=frames)
        if not await self._store.bulk.do(call):
            metrics.count("responses_sealed_total")
            metrics.count("sealed_log_bytes_total", packer.raw_bytes)
            metrics.count("sealed_packed_bytes_total", packer.packed_bytes)

    async def _packed(self, rid: str, state: State) -> Packer:
        """Both logs, packed. Raises LogLost at a hole, LimitPassed past MAX_PACKED_BYTES."""
        logs, packer = self._store.logs, Packer()
        # Each chapter takes the same part of both logs, so that frames stand with the entries that caused them.
        of_input = CHAPTER_BYTES * state.in_bytes // max(1, state.in_bytes + state.out_bytes)

        async def entries(after: int) -> Sequence[Entry]:
            page = await logs.read_input(rid, after)
            if not page:
                await logs.read_output(rid, state.seq)  # MISSING, where that is why
                raise LogLost(rid, after, what="entry")
            return page

        async def frames(after: int) -> Sequence[Frame]:
            return (await logs.read_output(rid, after - 1)).frames

        while packer.entries < state.last or packer.frames <= state.seq:
            said = await part(entries, packer.entries, state.last, of_input)
            shown = await part(frames, packer.frames, state.seq + 1, CHAPTER_BYTES - of_input)
            await asyncio.to_thread(packer.add, said, shown)
            if packer.packed_bytes > MAX_PACKED_BYTES:
                raise LimitPassed("the packed logs are too large for one call to the store")
        return packer


async def part(pages: Pages[T], start: int, end: int, most_bytes: int) -> list[T]:
    """The items from `start` on, up to `end` of them in all or the page that makes `most_bytes` full."""
    found: list[T] = []
    size = 0
    while start + len(found) < end and (not found or size < most_bytes):
        page = await pages(start + len(found))
        found += page
        size += sum(len(item.data) for item in page)
    return found
