"""One SSE answer: a reader's frames as they are stored, until the terminal one, then `[DONE]`.

In: a reader of an output log (`streams.hub`), in batches of whatever is there. Out: ASGI messages, one a batch, each
ending at a frame's end; heartbeats in silence; the rare `error` event where no Response can be shown any more (D9).
The bytes are not looked at: what a batch costs is a join and a send. Step 5 of the data's way; made by `api.create`
and `api.retrieve`.
"""

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.admission import SLOT, Slot
from api.attendance import attend, leaving
from api.errors import under_way, unexpected
from api.request_id import SCOPE_KEY
from api.unstored import ReaderLease
from streams import metrics
from streams.hub import Reader
from streams.scripts.outputs import Frame
from translator.protocol.errors import RespoolError
from translator.protocol.sse import DONE, PING, frame, with_id

HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

FIRST: Final = metrics.histogram("first_frame_seconds")

RETRY_MS: Final = 1000
"""What a browser is told to wait before it reconnects; sent inside the first frame (contract.md section 10)."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a stream may be silent, and a client deaf, in seconds."""

    heartbeat_s: float
    """Silence until a comment is sent."""

    keepalive_s: float
    """Time without an event until a `keepalive` event is sent."""

    write_deadline_s: float = 60.0
    """How long one write may wait for a client that does not read. It holds a batch in memory meanwhile; past this it is
    cut, and can resume. Longer than a phone's tunnel, as long as a proxy's own limit."""


class EventStream(Response):
    """The answer. It leaves the reader closed, and an unstored response cancelled if its client left."""

    readers: ClassVar[int] = 0
    """Streams that are open in this process."""

    def __init__(
        self,
        reader: Reader,
        *,
        after: int,
        pace: Pace,
        ids: bool = False,
        lease: ReaderLease | None = None,
        asked_at: float | None = None,
    ) -> None:
        """`after` is the reader's cursor; `lease` only for an unstored response.

        `asked_at` is when (on the monotonic clock) the request came whose first frame is timed.
        """
        self.status_code = 200
        self.background = None
        self._reader = reader
        self._pace = pace
        self._ids = ids
        self._retry: int | None = RETRY_MS  # None once the first frame is out
        self._lease = lease
        self._asked_at = asked_at
        self._seq = after  # the last sequence number that went out
        self._sent_at = self._event_at = time.monotonic()  # when anything, when an event went out
        self._writing_since: float | None = None  # set while a write waits for the client
        self._slot: Slot | None = None  # of the request that is answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        EventStream.readers += 1
        self._slot = scope.get(SLOT)
        try:
            async with self._reader:
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                pump = functools.partial(self._pump, send, scope.get(SCOPE_KEY, "stream"))
                await attend(pump, leaving(receive), self._beating(send), lease=self._lease)
        finally:
            EventStream.readers -= 1

    async def _pump(self, send: Send, request_id: str) -> None:
        """Frames until the reader ends; an error becomes the `error` event."""
        try:
            async for batch in self._reader:
                body = b"".join(self._numbered(batch) if self._ids else [f.data for f in batch])
                if self._asked_at is not None:
                    FIRST.observe(time.monotonic() - self._asked_at)
                    self._asked_at = None
                last = batch[-1]
                batch.clear()  # only the text waits for a client that does not read
                if last.terminal:
                    await self._write(send, body + DONE, more=False)
                    return
                await self._write(send, body)
                self._seq = last.seq
                self._event_at = self._sent_at
            await self._write(send, DONE, more=False)
        except RespoolError as error:
            await self._end(send, under_way(error, deleted=self._reader.deleted))
        except Exception as error:  # noqa: BLE001 - the client must see an end, whatever happened
            await self._end(send, unexpected(error, request_id))

    async def _end(self, send: Send, error: RespoolError) -> None:
        """No Response can be shown any more: the `error` event, and the end."""
        await self._write(send, error_event(error, self._seq + 1) + DONE, more=False)

    def _numbered(self, batch: Sequence[Frame]) -> list[bytes]:
        """The frames with SSE ids, the very first one with `retry:`."""
        first, *rest = batch
        numbered = [with_id(first.data, first.seq, self._retry)]
        self._retry = None
        return numbered + [with_id(f.data, f.seq) for f in rest]

    async def _write(self, send: Send, body: bytes, *, more: bool = True) -> None:
        self._writing_since = time.monotonic()
        await send({"type": "http.response.body", "body": body, "more_body": more})
        if not more and self._slot is not None:
            self._slot.leave()  # at once: who has read the end may come again
        self._writing_since = None
        self._sent_at = time.monotonic()

    def _beating(self, send: Send) -> Callable[[], Coroutine[Any, Any, None]]:
        """A watcher that fills silence, and returns when a write has waited too long."""

        async def beat() -> None:
            while (wait_s := self._next_look(time.monotonic())) > 0:
                await asyncio.sleep(wait_s)
                if self._writing_since is None and not await self._beat(send):
                    return

        return beat

    def _next_look(self, now: float) -> float:
        """The seconds until something may be due, 0 for a client given up."""
        if self._writing_since is not None:
            return max(0.0, self._writing_since + self._pace.write_deadline_s - now)
        ping_at = self._sent_at + self._pace.heartbeat_s
        keepalive_at = self._event_at + self._pace.keepalive_s if self._seq >= 0 else ping_at
        # Never so long that a write which begins meanwhile could wait far past its deadline.
        wait_s = min(min(ping_at, keepalive_at) - now, self._pace.write_deadline_s)
        return max(SHORTEST_WAIT_S, wait_s)

    async def _beat(self, send: Send) -> bool:
        """Send what is due. Returns False for a client given up."""
        now = time.monotonic()
        keepalive_due = self._seq >= 0 and now - self._event_at >= self._pace.keepalive_s
        if not keepalive_due and now - self._sent_at < self._pace.heartbeat_s:
            return True
        try:
            async with asyncio.timeout(self._pace.write_deadline_s):
                await self._write(send, keepalive(self._seq) if keepalive_due else PING)
        except TimeoutError:
            return False
        if keepalive_due:
            self._event_at = self._sent_at
        return True


SHORTEST_WAIT_S: Final = 0.001
"""Floor of the heartbeat's sleep, so that rounding cannot make it spin."""


def keepalive(seq: int) -> bytes:
    """An event that resets Codex's idle timer; it repeats the last number, burns none and is not stored (D13)."""
    return frame("keepalive", {"type": "keepalive", "sequence_number": seq})


def error_event(error: RespoolError, seq: int) -> bytes:
    """The `error` event in both shapes, flat and nested (contract.md section 3, "Failures in the stream")."""
    inner = error.body()["error"]
    return frame(
        "error",
        {
            "type": "error",
            "sequence_number": seq,
            "code": error.code,
            "message": error.message,
            "param": error.param,
            "error": inner,
        },
    )
