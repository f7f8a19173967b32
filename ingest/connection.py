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
from dataclasses import dataclass
from typing import Final

import httptools

READ_AHEAD_BYTES: Final = 1024 * 1024
"""What of a body may wait for whoever takes it before the socket is stopped."""

TURN_BYTES: Final = 64 * 1024
"""What of a body is delivered before everything else in this process gets a turn: at worst, when it is
all tiny comments, less than ten milliseconds of work."""

PIECE_BYTES: Final = 64
"""What a piece costs beside its bytes, roughly: a body may come in chunks of one byte."""

SILENT_BYTES: Final = 64 * 1024
"""What may come without a byte of body: heads, extensions of chunks, trailers. Honest ones are a hundred times smaller."""

NO_BODY: Final = frozenset({204, 304})
"""Answers that are over with their head, whatever it says (RFC 9110, section 6.4.1)."""

Take = Callable[[bytes], bool]
"""Takes the next piece of a body; whether it wants more now."""


class NotHttp(Exception):
    """What came is no answer in HTTP."""


@dataclass(frozen=True, slots=True)
class Head:
    """What comes before a body."""

    status: int
    headers: dict[str, str]
    """By lower-case name; values of one name are joined by commas."""


class Connection(asyncio.Protocol):
    """One socket. Given to `create_connection`."""

    def __init__(self, on_lost: "Callable[[Connection], None]") -> None:
        """`on_lost` is called once, when the socket is closed."""
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser  # while the socket is open
        self._head: asyncio.Future[Head | None] | None = None  # its result is None if there is none
        self._lines: dict[str, list[str]] = {}  # of the head that is being read
        self._told = 0  # bytes of heads and trailers of this answer
        self._pieces: list[bytes] = []  # of the body, not yet taken
        self._waiting = 0  # their bytes, and what they cost
        self._take: Take | None = None  # who gets them as they come
        self._news: asyncio.Future[bool] | None = None  # whether there is more for whoever waits
        self._silent = 0  # bytes since the last of a body
        self._delimited = True  # the head says where the body ends
        self._keeps = False  # and the connection stays open behind it
        self._paused = False
        self._fault: Exception | None = None  # of the upstream, or of the way to it
        self._error: Exception | None = None  # of whoever took a piece
        self.ended = False  # the answer is over

    @property
    def reusable(self) -> bool:
        """Whether nothing is left of the last request and of its answer, so that the next may be asked for."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        # Where something of a request is unsent, it was answered before it was read.
        left = self._pieces or self._paused or transport.get_write_buffer_size()
        return self.ended and self._keeps and not left

    async def ask(self, head: bytes, body: bytes) -> Head:
        """Send a request; returns with the head of its answer. Raises NotHttp, OSError."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise self._trouble()
        asked: asyncio.Future[Head | None] = self._loop.create_future()
        self._head = asked
        self._silent = self._told = 0
        self._lines.clear()  # of the last answer's trailers
        self.ended = self._keeps = False
        transport.writelines((head, body))
        told = await asked
        if told is None:
            raise self._trouble()
        return told

    async def read(self) -> bytes:
        """What is there of the body, or comes next; empty at its end. Raises NotHttp, OSError."""
        while not self._pieces:
            if self._over():
                return b""
            await self._more(None)
        chunk = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting = 0
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
                if self._error is not None:
                    raise self._stumble()
                return False

    def close(self) -> None:
        """Drop it, whatever is under way."""
        self._keeps = False
        if self._transport is not None:
            self._transport.abort()

    def _at_end(self) -> bool:
        return self.ended or self._fault is not None

    def _over(self) -> bool:
        """Whether nothing more comes; raises what went wrong."""
        if not self.ended and self._fault is not None:
            raise self._trouble()
        return self.ended

    def _stumble(self) -> Exception:
        """What the taker has raised, held no longer."""
        error, self._error = self._error, None
        return error or AssertionError("nothing was raised")

    def _trouble(self) -> Exception:
        """The fault, made anew: one that was raised would hold, by its traceback, all who waited, and they it."""
        fault = self._fault or ConnectionResetError()
        return type(fault)(*fault.args)

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
        self._waiting = 0
        if len(chunk) > TURN_BYTES:
            self.on_body(chunk[TURN_BYTES:])
            chunk = chunk[:TURN_BYTES]
        return chunk

    # ---- the socket --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of a stream
        """It is open."""
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        # What some servers get wrong, and every client reads all the same.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

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
        self._keeps = False
        if self._head is not None and self._head.done() and not self._delimited:
            self.ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._transport = None
        if exc is None and self._fault is None:
            self.eof_received()  # of which uvloop says nothing where TLS ends without a word
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
            self._head.set_result(None)

    # ---- the parser --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A head begins: the answer's, that of a 1xx before it, or one that nobody asked for."""
        if self.ended:
            raise NotHttp

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._told += len(name) + len(value)
        if self._told > SILENT_BYTES:
            raise NotHttp
        self._lines.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        """The head is there."""
        status = self._parser.get_status_code()
        headers = {name: ", ".join(values) for name, values in self._lines.items()}
        self._lines.clear()
        if status < 200 or self._head is None:
            return
        coding = headers.get("transfer-encoding")
        # The last of them tells (RFC 9112, section 6.3): of any other coding the end is that of the socket.
        chunked = coding is not None and coding.rpartition(",")[2].strip().lower() == "chunked"
        counted = coding is None and "content-length" in headers
        self._delimited = status in NO_BODY or chunked or counted
        self._keeps = self._parser.should_keep_alive()
        if not self._head.done():
            self._head.set_result(Head(status, headers))

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self._pieces.append(piece)
        self._waiting += len(piece) + PIECE_BYTES

    def on_message_complete(self) -> None:
        """The answer is over, unless that was a 1xx."""
        self.ended = self._parser.get_status_code() >= 200

    # ---- the body ----------------------------------------------------------------------------------

    def _hand_on(self) -> None:
        """Give what came to whoever takes it; the rest of what is more than a turn's worth is for `deliver`."""
        take = self._take
        if take is None:
            self._tell(True)
            if self._waiting > READ_AHEAD_BYTES and not (self._paused or self.ended):
                self._pause()
            return
        try:
            wants = take(self._piece())
        except Exception as error:  # noqa: BLE001  # `deliver` raises it
            self._error = error
            self._tell(False)
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
