"""HTTP before there is a request: uvicorn's protocol, with bounds on headers and connections and with our own refusals.

In: the bytes of one connection. Out: requests for the application; a 400, 408, 431 or 503 in OpenAI's shape, and the end
of the connection, for what never becomes one. httptools bounds nothing: a client without a key could else fill the memory
with one header, or hold thousands of connections on which it never asks for anything. Used by `respool.http`.
"""

import asyncio
import logging
import secrets
from http import HTTPStatus
from typing import Any, Final

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.request_id import kind_of
from respool.reply import Reply
from streams import metrics
from translator.protocol.errors import INVALID_REQUEST, Overloaded, RespoolError, retry_after
from translator.protocol.json import dumps

log = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 64 << 10
"""Request line and headers, and whatever else comes without a byte of body (trailers, extensions of chunks). Proxies
take 8 to 32 KiB; keys, cookies and trace headers of clients fit many times."""

HEAD_S: Final = 30.0
"""How long the headers of a request may take, blank lines before it too, and a new connection may be silent. Honest ones
take one packet; as long as a browser's connection that was opened in advance waits for its first request."""

LINGER_S: Final = 5.0
"""How long the rest of a body is thrown away whose request has its answer: many clients read none before they have sent
all, and with bytes unread a close is a reset, which can take the answer with it. 24 MiB do within it on a fast line; less
than anybody may be silent."""

STALL_S = 60.0
"""How long a client may take nothing of what waits for it: as long as a write of a stream may (`api.stream`). Whole answers
wait here too, megabytes each, and a close waits until they are out."""

MAX_PIPELINED: Final = 1_000
"""Requests of one connection that wait for the answers before them. Hardly a client sends a second one early; one packet
may hold thousands, which cost some KB each."""

RETRY_AFTER_MS: Final = 1000
"""Connections come and go by the second."""

TOO_MANY: Final = "Too many connections are open to this gateway."
HEAD_TOO_SLOW: Final = f"The headers of the request did not arrive within {HEAD_S:g} seconds."
HEAD_TOO_LARGE: Final = "The headers of the request are larger than this server takes."
NOT_HTTP: Final = "Invalid HTTP request received."


class _HeadTooLarge(Exception):
    """Raised into the parser, which then stops."""


class _TooManyWait(Exception):
    """The same, for requests that are sent without waiting for answers."""


class _Tunnel(Exception):
    """The same, for CONNECT: what follows its head has no bounds that HTTP knows, and nothing here is a proxy."""


class Wire(HttpToolsProtocol):
    """One connection."""

    # Beside uvicorn's own attributes: with these among them a connection would have a dict of its own, 1.5 KB.
    __slots__ = (
        *("_head", "_head_timer", "_idle", "_leaving", "_progress", "_stall_timer", "_surplus"),
        "_unsent",
    )

    max_connections = 0
    """Connections to this process; 0: no bound. Set by `bounded`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """A connection; one too many is told so when it asks for something, as a client would else not hear it."""
        self._head_timer: asyncio.TimerHandle | None = None
        """Set while the first byte or the rest of a request's head is awaited."""
        self._head = 0
        """Bytes of the request's names and values so far."""
        self._idle = 0
        """Bytes since the last that belonged to a body, or ended a request."""
        self._progress = False
        self._stall_timer: asyncio.TimerHandle | None = None
        """Set while more waits for the client than it may, or while a close waits for it."""
        self._unsent = 0
        """Bytes that waited for the client when that timer was set."""
        self._leaving = False
        """Set once nothing more is read: what comes is thrown away."""
        super().connection_made(transport)
        self._surplus = 0 < self.max_connections < len(self.connections)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._head_is_there()
        self._no_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._leaving or self.transport.is_closing():
            return
        if self._surplus:
            headers = retry_after(RETRY_AFTER_MS)
            self._refuse(Overloaded(TOO_MANY, code="too_many_connections", headers=headers))
            return
        self._progress = False
        self._unset_keepalive_if_required()
        self._parse(data)
        self._idle = 0 if self._progress else self._idle + len(data)
        if self._leaving:
            return
        if self._idle > MAX_HEAD_BYTES:
            self._refuse(_of(431, HEAD_TOO_LARGE))
        elif not self._answering():
            # A blank line stopped uvicorn's timer for idle connections, and may do so for ever: it begins a head.
            self._await_head()

    def _parse(self, data: bytes) -> None:
        """As uvicorn does, but every request stays one of HTTP, whatever it would rather be.

        Who asks for an upgrade may be ignored, and sends its body all the same (RFC 9110, 7.8). The parser takes that body
        for another protocol's, or for the next request: it gets the head again, without the wish.
        """
        rest = memoryview(data)  # as a copy for each of many short requests would add up
        try:
            while True:
                try:
                    self.parser.feed_data(rest)
                except HttpParserUpgrade as wish:
                    rest = rest[wish.args[0] :]
                    wishes = [header for header in self.headers if header[0] == b"upgrade"]
                    self.parser.feed_data(self._head_without_upgrade())
                    self.headers.extend(wishes)  # for the application, which has yet to begin
                else:
                    return
        except HttpParserError:
            self.logger.warning(NOT_HTTP)
            self.send_400_response(NOT_HTTP)

    def _head_without_upgrade(self) -> bytes:
        """The head that was just read. It had been valid, and so had each of its parts."""
        version = self.parser.get_http_version().encode()
        first = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)
        kept = (b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        return first + b"".join(kept) + b"\r\n"

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head = 0
        self._await_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole header, or a trailer."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there, unless it comes again without its wish for an upgrade."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _Tunnel
            return
        self._head_is_there()
        super().on_headers_complete()
        reply: Any = self.cycle
        reply.__class__ = Reply  # uvicorn makes one of its own, and asks nobody
        if len(self.pipeline) > MAX_PIPELINED:
            raise _TooManyWait

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends."""
        self._progress = True
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._too_slow)

    def _head_is_there(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self._answering():
            self._await_head()  # an answer is under way; what was sent behind its request can wait
        elif not self.transport.is_closing():
            self._refuse(_of(408, HEAD_TOO_SLOW))

    def _answering(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not cycle.response_complete

    def linger(self) -> None:
        """An answer is out that was the last, since its request had come in part: let the client read it, and leave.

        What is in the pipeline stays there: it was sent before the client had read `connection: close`.
        """
        if self.transport.is_closing():
            return
        self._leaving = True
        self._head_is_there()
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.timeout_keep_alive_task = self.loop.call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        """Leave for good, with bytes of the client unread: a close would wait, and be a reset all the same."""
        if self._left():
            self._await_client()  # it is reading still
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        """More waits for the client than the transport likes."""
        super().pause_writing()
        self._await_client()

    def resume_writing(self) -> None:
        """It has taken enough of that."""
        super().resume_writing()
        self._no_stall()

    def on_response_complete(self) -> None:
        """An answer is written, if not out; where the connection ends with it, nobody else looks whether it gets out."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_client()
        elif self.pipeline:
            self.flow.pause_reading()  # uvicorn reads on with every answer

    def timeout_keep_alive_handler(self) -> None:
        """Nothing was asked for a while, perhaps because the last answer is still being read."""
        super().timeout_keep_alive_handler()
        self._await_client()

    def _left(self) -> int:
        size: int = self.transport.get_write_buffer_size()
        return size

    def _await_client(self) -> None:
        self._no_stall()
        self._unsent = self._left()
        if self._unsent:
            self._stall_timer = self.loop.call_later(STALL_S, self._stalled)

    def _no_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _stalled(self) -> None:
        """Look whether the client has taken something, and cut it off if not: a close would wait for it."""
        if 0 < self._left() < self._unsent:
            self._await_client()
        else:
            self.transport.abort()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD_BYTES:
            raise _HeadTooLarge

    def send_400_response(self, msg: str) -> None:
        """Uvicorn's refusal of what its parser could not read or was told to stop reading."""
        del msg
        if self._head > MAX_HEAD_BYTES:
            self._refuse(_of(431, HEAD_TOO_LARGE))
        else:
            self._refuse(_of(400, NOT_HTTP))

    def _refuse(self, error: RespoolError) -> None:
        """Say so, unless an answer is under way that this would break into or pass for, and close."""
        self._leaving = True
        if not self.pipeline and not (self._answering() and self.cycle.response_started):
            request_id = f"req_{secrets.token_hex(16)}"
            body = dumps(error.body())
            headers = {
                "content-type": "application/json",
                "content-length": str(len(body)),
                "x-request-id": request_id,
                "connection": "close",
                **error.headers,
            }
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n{lines}\r\n"
            metrics.count("requests_refused_total", kind=kind_of(error))
            line = (request_id, error.status)
            log.info("%s: not a request: %d", *line, extra={"request": request_id})
            self.transport.write(head.encode() + body)
        self.transport.close()
        self._await_client()


def bounded(max_connections: int) -> type[Wire]:
    """The protocol with a bound on the connections of its process."""
    return type("BoundedWire", (Wire,), {"max_connections": max_connections})


def _of(status: int, message: str) -> RespoolError:
    return RespoolError(message, status=status, type=INVALID_REQUEST)
