"""One request's answer on the wire: uvicorn's, where that would break a rule of HTTP or never leave a connection.

In: what the application sends. Out: the same. To HTTP/1.0, which knows no chunks, a body of unknown length goes as it is
and ends with the connection. Where the answer begins before the request's body has ended it says `connection: close`, and
who is told that has to leave, so that nobody can hold a connection with a body that never ends. Made by `respool.wire` of
what uvicorn makes.
"""

from collections.abc import Coroutine, Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Reply(RequestResponseCycle):
    """The answer to one request."""

    unframed = False
    """Whether the body ends with the connection. Set when the answer begins."""

    def send(self, message: Any) -> Coroutine[Any, Any, None]:
        """As uvicorn does, and in its own coroutine: a stream's every write passes here."""
        if not self.response_started:
            return self._begin(message)
        if self.unframed:
            # Uvicorn holds it against a length: each piece is as long as it is.
            self.expected_content_length = len(message.get("body", b""))
        return super().send(message)

    async def _begin(self, message: Any) -> None:
        if self.scope["http_version"] == "1.0" and not _has_length(message.get("headers", [])):
            self.unframed = True
            self.chunked_encoding = False
        if not self.more_body:
            await super().send(message)
            return
        self.keep_alive = False
        await super().send(message)  # and says so
        # Else uvicorn would close at the end: with bytes unread, that is a reset.
        self.keep_alive = True
        # The wire's, which uvicorn gave; it forgets it at the end, so that nothing holds itself.
        wire: Any = getattr(self.on_response, "__self__", None)
        self.on_response = wire.linger


def _has_length(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"content-length" for name, _value in headers)
