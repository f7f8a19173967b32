"""`respool tail`: both logs of a response as they grow, until it has ended.

In: the id of a response, and the frame after which to begin. Out: a row for each entry and frame, as soon as it is in its
log; a frame that is there already stands beside the entry that brought it, as today's code folds it. Both logs are
followed as any reader follows them: by doorbell, and by a look every now and then. Called by `respool.cli`.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from respool.inspection.evidence import open_store
from respool.inspection.lanes import Lanes
from respool.inspection.screen import Screen
from respool.settings import Settings
from respool.unusable import Unusable
from streams.doorbell import POLL_S
from streams.recording import PAGE
from streams.scripts.outputs import Frame
from streams.scripts.refused import Reason, Refused
from streams.store import Store
from translator.ids import is_response_id
from translator.machine import Machine
from translator.protocol.entries import Entry


async def tail(screen: Screen, settings: Settings, rid: str, *, after: int) -> int:
    """Print until the terminal frame; 0 then."""
    if not is_response_id(rid):
        raise Unusable(f"{rid!r} is not the id of a response")
    async with open_store(settings) as store:
        state = await store.logs.state(rid)
        if state is None:
            raise gone(rid)
        following = Following(store, rid, Lanes(screen, state.created), after)
        ring = asyncio.Event()
        bells = (store.keys.bell_in(rid), store.keys.bell_out(rid))
        stops = [store.doorbell.subscribe(bell, ring.set) for bell in bells]
        try:
            while not await following.step():
                screen.flush()
                with suppress(TimeoutError):
                    await asyncio.wait_for(ring.wait(), POLL_S)
                ring.clear()
        finally:
            for stop in stops:
                stop()
    return 0


def gone(rid: str) -> Unusable:
    """What is told of a response that is not there."""
    return Unusable(f"no response {rid} in this store: deleted, expired or never there")


class Following:
    """How far both logs were shown. Call `step` whenever one of them may have grown."""

    def __init__(self, store: Store, rid: str, lanes: Lanes, after: int) -> None:
        self._store = store
        self._rid = rid
        self._lanes = lanes
        self._after = after  # frames up to it, and what brought them, are not shown
        self._machine: Machine | None = Machine(rid)  # None once it could not fold an entry
        self._n = 0  # the last entry that was read
        self._seq = -1  # the last frame that was read
        self._due = -1  # the last frame that the entries so far have brought
        self._frames: deque[Frame] = deque()  # read, not yet shown

    async def step(self) -> bool:
        """Show what is new; whether the response has ended and all of it was shown."""
        done = await self._read_frames()
        # What brought these frames stood in the input log before they were committed.
        while entries := await self._store.logs.read_input(self._rid, self._n, PAGE):
            for entry in entries:
                self._show(entry)
            self._n = entries[-1].n
        self._rest(self._frames)
        self._frames.clear()
        return done

    async def _read_frames(self) -> bool:
        while True:
            try:
                page = await self._store.logs.read_output(self._rid, self._seq, PAGE)
            except Refused as error:
                if error.reason is Reason.MISSING:
                    raise gone(self._rid) from None
                raise
            self._frames += page.frames
            self._seq = page.frames[-1].seq if page.frames else self._seq
            if self._seq >= page.seq:
                return page.done

    def _show(self, entry: Entry) -> None:
        self._due += self._fold(entry)
        brought: list[Frame] = []
        while self._frames and self._frames[0].seq <= self._due:
            brought.append(self._frames.popleft())
        if self._due <= self._after and self._after >= 0:
            return
        shown = [frame for frame in brought if frame.seq > self._after]
        self._lanes.row(entry.t, entry, shown[0] if shown else None)
        self._rest(shown[1:])

    def _rest(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            if frame.seq > self._after:
                self._lanes.row(None, None, frame)

    def _fold(self, entry: Entry) -> int:
        """How many frames an entry brings; none, from then on, where today's code cannot tell."""
        if self._machine is None:
            return 0
        try:
            return len(self._machine.feed(entry).frames)
        except Exception:  # noqa: BLE001 - `respool replay` tells it; here it only costs the places of frames
            self._machine = None
            return 0
