"""One connection to an upstream: HTTP/1.1, one request at a time, the answer's body handed on in the socket's callback.

In: the bytes of a request. Out: the head of its answer, then its body, to whoever pulls (`read`), or to a function that
is called with each piece as it comes (`deliver`), so that no task is woken for a frame. httptools parses; when an answer
is over, and what is held of it at most, is settled here. Opened and kept by `ingest.pool`, asked by `ingest.upstream`.

| state | is told by          | until                                                               |
|-------|---------------------|---------------------------------------------------------------------|
| idle  | there is no `_head` | `ask`                                                               |
| asked | `_head` is pending  | a head that is no 1xx                                               |
| body  | `_head` is done     | the body's length or last chunk, or the socket's end if it has none |
| ended | `ended`             | the next `ask`, where it is `reusable`                              |

Trouble in any of them closes the socket, and is raised to whoever waits, now or later.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import httptools

READ_AHEAD_BYTES: Final = 1024 * 1024
"""What of a body may wait for whoever takes it before the socket is stopped."""

TURN_BYTES: Final = 64 * 1024
"""What of a body is delivered before everything else in this process gets a turn: at worst, when it is
all tiny comments, less than ten milliseconds of work."""

SILENT_BYTES: Final = 64 * 1024
"""What may come without a byte of body: heads, extensions of chunks, trailers. Honest ones are a hundred times smaller."""

NO_BODY: Final = frozenset({204, 304})
"""Answers that are over with their head, whatever it says (RFC 9110, section 6.4.1)."""

Take = Callable[[bytes], bool]
"""Takes the next piece of a body; whether it wants more now."""


class NotHttp(Exception):
    """What came is no answer in HTTP."""


@dataclass(slots=True)
class Head:
    """What comes before a body."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    """By lower-case name; values of one name are joined by commas."""


class Connection(asyncio.Protocol):
    """One socket. Given to `create_connection`."""

    def __init__(self, on_lost: "Callable[[Connection], None]") -> None:
        """`on_lost` is called once, when the socket is closed."""
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        # What some servers get wrong, and every client reads all the same.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._head: asyncio.Future[Head] | None = None
        self._read = Head()  # the head as far as it is read
        self._pieces: list[bytes] = []  # of the body, not yet taken
        self._take: Take | None = None  # who gets them as they come
        self._news: asyncio.Future[bool] | None = None  # whether there is more for whoever waits
        self._silent = 0  # bytes since the last of a body
        self._delimited = True  # the head says where the body ends
        self._keeps = False  # and that the connection stays
        self._paused = False
        self._fault: Exception | None = None
        self.ended = False  # the answer is over
        self.reusable = False  # and the next may be asked for

    async def ask(self, head: bytes, body: bytes) -> Head:
        """Send a request; returns with the head of its answer. Raises NotHttp, OSError."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise self._fault or ConnectionResetError
        asked: asyncio.Future[Head] = self._loop.create_future()
        self._head = asked
        self._read, self._silent = Head(), 0
        self.ended = self.reusable = False
        transport.writelines((head, body))
        return await asked

    async def read(self) -> bytes:
        """What is there of the body, or comes next; empty at its end. Raises NotHttp, OSError."""
        while not self._pieces:
            if self._over():
                return b""
            await self._more(None)
        chunk = b"".join(self._pieces)
        self._pieces.clear()
        return chunk

    async def deliver(self, take: Take) -> bool:
        """Have `take` called with each piece, TURN_BYTES at most; returns whether the body is over.

        If it is not, then `take` wanted no more: what follows is for the next call. Raises what `take` raises, NotHttp,
        OSError.
        """
        while True:
            while self._pieces:
                if not take(self._piece()):
                    return False
                if self._pieces:
                    await asyncio.sleep(0)
            if self._over():
                return True
            if not await self._more(take):
                return False

    def close(self) -> None:
        """Drop it, whatever is under way."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def _at_end(self) -> bool:
        return self.ended or self._fault is not None

    def _over(self) -> bool:
        """Whether nothing more comes; raises what went wrong."""
        if not self.ended and self._fault is not None:
            raise self._fault
        return self.ended

    async def _more(self, take: Take | None) -> bool:
        """Wait until there is something to look at; False where `take` got something and wants no more."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        news: asyncio.Future[bool] = self._loop.create_future()
        self._news, self._take = news, take
        try:
            return await news
        finally:
            self._take = self._news = None

    def _piece(self) -> bytes:
        pieces = self._pieces
        chunk = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if len(chunk) > TURN_BYTES:
            pieces.append(chunk[TURN_BYTES:])
            chunk = chunk[:TURN_BYTES]
        return chunk

    # ---- the socket --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """It is open."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes of the upstream."""
        if self._head is None or self.ended:  # it was not asked: whatever this is, it is no answer
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(NotHttp())  # what was read before it still counts
        if self._pieces:
            self._silent = 0
            self._hand_on()
        else:
            self._silent += len(data)
            if self._silent > SILENT_BYTES:
                self._fail(NotHttp())
            if self._at_end():
                self._tell(True)

    def eof_received(self) -> None:
        """The upstream says no more; the socket closes now."""
        self.reusable = False
        if self._head is not None and self._head.done() and not self._delimited:
            self.ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._transport = None
        self._fail(exc if isinstance(exc, OSError) else ConnectionResetError())
        self._tell(True)
        self._on_lost(self)
        del self._parser  # it holds us

    def _fail(self, fault: Exception) -> None:
        """Nothing more comes; an answer that is over stays so."""
        self.close()
        if self._fault is None:
            self._fault = fault
        if self._head is not None and not self._head.done():
            self._head.set_exception(self._fault)

    # ---- the parser --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A head begins: the answer's, that of a 1xx before it, or one that nobody asked for."""
        if self.ended:
            raise NotHttp

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; trailers say nothing to us."""
        if self._head is not None and not self._head.done():
            key, said = name.decode("latin-1").lower(), value.decode("latin-1")
            headers = self._read.headers
            headers[key] = f"{headers[key]}, {said}" if key in headers else said

    def on_headers_complete(self) -> None:
        """The head is there."""
        head, status = self._read, self._parser.get_status_code()
        if status < 200:
            self._read = Head()
            return
        head.status = status
        self._delimited = (
            status in NO_BODY
            or "content-length" in head.headers
            or "transfer-encoding" in head.headers
        )
        self._keeps = self._parser.should_keep_alive()
        if self._head is not None and not self._head.done():
            self._head.set_result(head)

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """The answer is over."""
        if self._read.status:
            self.ended = True
            self.reusable = self._keeps

    # ---- the body ----------------------------------------------------------------------------------

    def _hand_on(self) -> None:
        """Give what came to whoever takes it; the rest of what is more than a turn's worth is for `deliver`."""
        take = self._take
        if take is None:
            self._tell(True)
            if not self._paused and sum(map(len, self._pieces)) > READ_AHEAD_BYTES:
                self._pause()
            return
        try:
            wants = take(self._piece())
        except Exception as error:  # noqa: BLE001  # `deliver` raises it
            self._take = None
            if self._news is not None and not self._news.done():
                self._news.set_exception(error)
            return
        if not wants or self._pieces or self._at_end():
            self._tell(wants)

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _tell(self, more: bool) -> None:
        self._take = None
        if self._news is not None and not self._news.done():
            self._news.set_result(more)
