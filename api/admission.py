"""How many creates may be open at once in this process.

In: every request of one route. Out: the same, or a 503 that says when to come again: at once where there is no room,
else when the handler takes its slot, which it does once the body is there (a client that sends slowly holds none). A
client then counts until its answer is complete, so a stream counts for as long as it runs; a background response counts
only until its id is given out (how many of those run at once is for the ingest processes to bound, the others wait in
the log).
"""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from translator.protocol.errors import Overloaded

RETRY_AFTER_MS: Final = 1000
"""Long enough for some of a thousand streams to end; SDKs wait as long as they are told."""

SLOT: Final = "respool.slot"
"""Where a request's scope holds its slot."""


class Slot:
    """One request's place among those that are open."""

    def __init__(self, admission: "Admission") -> None:
        self._admission = admission
        self.taken = False

    def take(self) -> None:
        """Count from now on. Raises Overloaded."""
        if not self.taken:
            self._admission.refuse_if_full()
            self._admission.open += 1
            self.taken = True

    def leave(self) -> None:
        """The answer is complete."""
        if self.taken:
            self._admission.open -= 1


class Admission:
    """ASGI middleware around the create route."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.refuse_if_full()
        scope[SLOT] = slot = Slot(self)
        try:
            await self._app(scope, receive, send)
        finally:
            slot.leave()

    def refuse_if_full(self) -> None:
        """Raise Overloaded where there is no room."""
        if self.open >= self._limit:
            raise Overloaded(
                "Too many responses are open on this gateway.",
                headers={"retry-after-ms": str(RETRY_AFTER_MS)},
            )
