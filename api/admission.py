"""How many creates may be open at once in this process.

In: every request of one route. Out: the same, or a 503 that says when to come again. A client counts until its answer
is complete, so a stream counts for as long as it runs; a background response counts only until its id is given out
(how many of those run at once is for the ingest processes to bound, the others wait in the log).
"""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from translator.protocol.errors import Overloaded

RETRY_AFTER_MS: Final = 1000
"""Long enough for some of a thousand streams to end; SDKs wait as long as they are told."""


class Admission:
    """ASGI middleware around the create route."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.open >= self._limit:
            raise Overloaded(
                "Too many responses are open on this gateway.",
                headers={"retry-after-ms": str(RETRY_AFTER_MS)},
            )
        self.open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self.open -= 1
