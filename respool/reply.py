"""One request's answer on the wire: uvicorn's, and the end of a connection whose request was not read to its end.

In: what the application sends. Out: the same, with `connection: close` where the answer begins before the request's body
has ended; who is told that has to leave, so that nobody can hold a connection with a body that never ends. Made by
`respool.wire` of what uvicorn makes.
"""

from collections.abc import Callable

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Reply(RequestResponseCycle):
    """The answer to one request."""

    leave: Callable[[], None]
    """Called in place of `on_response` where no other request may follow. Set by the wire."""

    async def send(self, message: ASGISendEvent) -> None:
        """As uvicorn does."""
        if self.response_started or not self.more_body:
            await super().send(message)
            return
        self.keep_alive = False
        await super().send(message)  # and says so
        self.keep_alive = (
            True  # for uvicorn, which would close at the end: with bytes unread, that is a reset
        )
        self.on_response = self.leave
