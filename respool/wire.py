"""HTTP before there is a request: uvicorn's protocol, with a bound on headers and with our own refusals.

In: the bytes of one connection. Out: requests for the application; a 431 or a 400 in OpenAI's shape, and the end of the
connection, for what never becomes one. httptools bounds nothing: a client without a key could else fill the memory with
one header. Used by `respool.http`.
"""

import logging
import secrets
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.request_id import kind_of
from streams import metrics
from translator.protocol.errors import INVALID_REQUEST, RespoolError
from translator.protocol.json import dumps

log = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 64 << 10
"""Request line and headers, and whatever else comes without a byte of body (trailers, extensions of chunks). Proxies
take 8 to 32 KiB; keys, cookies and trace headers of clients fit many times."""

HEAD_TOO_LARGE: Final = "The headers of the request are larger than this server takes."
NOT_HTTP: Final = "Invalid HTTP request received."


class _HeadTooLarge(Exception):
    """Raised into the parser, which then stops."""


class Wire(HttpToolsProtocol):
    """One connection."""

    _head = 0
    """Bytes of the request's names and values so far."""
    _idle = 0
    """Bytes since the last that belonged to a body, or ended a request."""
    _progress = False
    _refused = False

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._refused or self.transport.is_closing():
            return
        self._progress = False
        super().data_received(data)
        self._idle = 0 if self._progress else self._idle + len(data)
        if self._idle > MAX_HEAD_BYTES and not self._refused:
            self._refuse(431, HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole header, or a trailer."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends."""
        self._progress = True
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD_BYTES:
            raise _HeadTooLarge

    def send_400_response(self, msg: str) -> None:
        """Uvicorn's refusal of what its parser could not read or was told to stop reading."""
        del msg
        if self._head > MAX_HEAD_BYTES:
            self._refuse(431, HEAD_TOO_LARGE)
        else:
            self._refuse(400, NOT_HTTP)

    def _refuse(self, status: int, message: str) -> None:
        """Say so, unless an answer is under way that this would break into, and close."""
        self._refused = True
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        if cycle is None or cycle.response_complete or not cycle.response_started:
            request_id = f"req_{secrets.token_hex(16)}"
            error = RespoolError(message, status=status, type=INVALID_REQUEST)
            body = dumps(error.body())
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nx-request-id: {request_id}\r\nconnection: close\r\n\r\n"
            )
            metrics.count("requests_refused_total", kind=kind_of(error))
            log.info("%s: not a request: %d", request_id, status, extra={"request": request_id})
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: the application answers, and says that there is no such route."""
