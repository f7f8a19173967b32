"""The live end of one output log in this process: a small ring of frames that all its readers share.

In: frames handed over by this process's translate worker; pages read after a ring of the doorbell or a poll. Out: runs
of frames by cursor (`take`), and a wake-up of the readers that wait at the end (`news`). A feed holds no reader's place
and no reader's queue: who falls behind the ring reads the log for itself, at its own pace.

Made and closed by `streams.hub`; at most one per response.
"""

import asyncio
from collections.abc import Callable, Sequence

from streams.doorbell import POLL_S, Doorbell
from streams.faults import Gone
from streams.handover import Handover
from streams.logs import PAGE, Logs
from streams.scripts.outputs import Frame, Page
from streams.scripts.refused import Reason, Refused
from translator.protocol.errors import RespoolError

RING_BYTES = 256 * 1024
"""A few seconds of the fastest model: enough that readers who keep up never touch Redis."""
BATCH_BYTES = 256 * 1024
"""Given to a reader at once, at most (one frame alone may be larger)."""

LOCAL_POLL_S = 5.0
"""Where this process translates the response every frame is handed over, and the end of that is told; this poll only
finds a response that was deleted meanwhile."""


class Feed:
    """Follows one output log while somebody reads it."""

    def __init__(
        self,
        rid: str,
        logs: Logs,
        handover: Handover,
        doorbell: Doorbell,
        channel: str,
        *,
        patient: bool,
    ) -> None:
        """`patient`: this process is likely to translate the response itself, so the channel can wait for a tick."""
        self.rid = rid
        self.readers = 0
        """Readers that hold this feed; changed by the hub."""
        self.deleted = False
        """This process was asked to delete the response; changed by the hub."""
        self.tail: int | None = None
        """The last frame that came by here; None until a page that reached the end, or a hand-over."""
        self.known = -1
        """The highest sequence number that is known to be committed."""
        self.told: Page | None = None
        """The page that told last of the state of the log; None before the first."""
        self.done = False
        """The frame `tail` is the terminal one."""
        self._logs = logs
        self._handover = handover
        self._doorbell = doorbell
        self._channel = channel
        self._heard = 0.0
        """When the log was last heard of (loop time)."""
        self._pulling = False
        """A page is asked for; cleared by its arrival."""
        self._stale = False
        """There may be news that nobody looked for; cleared when a page is asked for."""
        self._ring: list[Frame] = []
        """Frames `tail - len + 1 … tail` without a hole."""
        self._ring_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        handover.subscribe_output(rid, self)
        self._unring: Callable[[], None] | None = None
        """Set while the doorbell is subscribed."""
        if not patient:
            self._listen()

    def close(self) -> None:
        """Nobody reads any more."""
        self._handover.unsubscribe_output(self.rid, self)
        self._deafen()

    # What comes in.

    def frames_committed(self, first_seq: int, frames: Sequence[bytes], terminal: bool) -> None:
        """This process's translate worker has committed frames (`streams.handover.OutputFollower`)."""
        last = len(frames) - 1
        self._extend(
            [Frame(first_seq + i, data, terminal and i == last) for i, data in enumerate(frames)]
        )
        self._wake()

    def translating_changed(self) -> None:
        """Hand-over begins or ends (`streams.handover.OutputFollower`)."""
        if self._handover.translating(self.rid):
            self._deafen()
        else:
            self._listen()
            self.look()

    def tick(self, now: float) -> None:
        """The hub's ticker, every POLL_S: subscribe where that was put off, poll where it was quiet."""
        local = self._handover.translating(self.rid)
        if not local:
            self._listen()
        if now - self._heard >= (LOCAL_POLL_S if local else POLL_S / 2):
            self.look()

    def look(self) -> None:
        """There may be news: read on from the tail, now or as soon as somebody waits there."""
        self._stale = True
        if self._pulling or not self._waiters or self.tail is None:
            return
        self._pulling, self._stale = True, False
        self._logs.request_output(self.rid, self.tail, PAGE, self._pulled)

    def _pulled(self, page: Page | RespoolError) -> None:
        self._pulling = False
        if isinstance(page, RespoolError):
            self._fail(page)
            return
        self.learn(page)
        if self._stale or (self.tail is not None and self.known > self.tail):
            self.look()

    def learn(self, page: Page) -> None:
        """A page of the log, read by this feed or by one of its readers."""
        self._heard = asyncio.get_running_loop().time()
        self.known = max(self.known, page.seq)
        if self.told is None or page.seq >= self.told.seq:
            self.told = page
        if page.frames:
            # The first pages of a long log are one reader's business; the ring begins where a page reaches the end.
            if self.tail is not None or page.frames[-1].seq == page.seq:
                self._extend(page.frames)
        elif self.tail is None:
            self.tail = page.seq
        if page.done and self.tail == page.seq:
            self.done = True
        if page.frames or self.done:
            self._wake()

    def _extend(self, frames: Sequence[Frame]) -> None:
        """Continue the ring, or begin it anew where the frames do not continue it."""
        self._heard = asyncio.get_running_loop().time()
        tail = self.tail
        if tail is not None and frames[0].seq != tail + 1:
            if frames[-1].seq <= tail:
                return
            if frames[0].seq <= tail:
                frames = frames[tail + 1 - frames[0].seq :]
            else:
                self._ring, self._ring_bytes = [], 0
        self._ring.extend(frames)
        for frame in frames:
            self._ring_bytes += len(frame.data)
        last = frames[-1]
        self.tail, self.done = last.seq, last.terminal
        self.known = max(self.known, last.seq)
        if self._ring_bytes > RING_BYTES:
            self._shrink()

    def _shrink(self) -> None:
        """Drop the older half, so that dropping costs little per frame."""
        drop, size = 0, self._ring_bytes
        while size > RING_BYTES // 2 and drop < len(self._ring) - 1:
            size -= len(self._ring[drop].data)
            drop += 1
        del self._ring[:drop]
        self._ring_bytes = size

    def _listen(self) -> None:
        if self._unring is None and not self.done and not self._handover.translating(self.rid):
            self._unring = self._doorbell.subscribe(self._channel, self.look)

    def _deafen(self) -> None:
        if self._unring is not None:
            self._unring()
            self._unring = None

    # What goes out.

    def take(self, after: int) -> list[Frame]:
        """Frames from `after + 1` on that the ring holds, bounded; empty where it does not hold that one."""
        ring = self._ring
        if not ring or after >= ring[-1].seq or after < ring[0].seq - 1:
            return []
        start = after + 1 - ring[0].seq
        frames = ring[start : start + PAGE]
        size = 0
        for index, frame in enumerate(frames):
            size += len(frame.data)
            if size > BATCH_BYTES and index:
                return frames[:index]
        return frames

    async def news(self) -> None:
        """Wait until something came in; raises what went wrong with the log."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self._stale:
            self.look()
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: RespoolError) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(fault_of(error, self.rid))


def fault_of(error: RespoolError, rid: str) -> RespoolError:
    """What a reader is told: MISSING under a reader means that the response is gone."""
    if isinstance(error, Refused) and error.reason is Reason.MISSING:
        return Gone(rid)
    return error
