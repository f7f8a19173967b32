"""How many answers may be open at once in this process, of all tenants and of each.

In: every request of the routes that stream or wait. Out: the same, or a 503 (429 where it is the tenant's own bound)
that says when to come again: for a create at once where there is no room, else when the handler takes its slot, which
it does once the body is there (a client that sends slowly holds none). A client then counts until its answer is
complete, so a stream counts for as long as it runs; a background response counts only until its id is given out (how
many of those are open is bounded by `api.places`).
"""

from collections import Counter
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from api.tenants import Look
from translator.protocol.errors import Overloaded, TooManyOpen, retry_after

RETRY_AFTER_MS: Final = 1000
"""Long enough for some of a thousand streams to end; SDKs wait as long as they are told."""

SLOT: Final = "respool.slot"
"""Where a request's scope holds its slot."""


class Slot:
    """One request's place among those that are open."""

    def __init__(self, admission: "Admission") -> None:
        self._admission = admission
        self._tenant: str | None = None  # set while it counts

    def take(self, tenant: str) -> None:
        """Count from now on. Raises Overloaded, TooManyOpen."""
        if self._tenant is None:
            self._admission.enter(tenant)
            self._tenant = tenant

    def leave(self) -> None:
        """The answer is complete."""
        if self._tenant is not None:
            self._admission.leave(self._tenant)
            self._tenant = None


class Admission:
    """One per process; the routes share it."""

    def __init__(self, look: Look, *, limit: int, limit_per_tenant: int) -> None:
        """`limit_per_tenant` is for tenants without a bound of their own; 0: none."""
        self._look = look
        self._limit = limit
        self._limit_per_tenant = limit_per_tenant
        self._of_tenant: Counter[str] = Counter()
        self.open = 0

    def enter(self, tenant: str) -> None:
        """One more. Raises TooManyOpen, Overloaded."""
        most = self._look().most_in_flight.get(tenant, self._limit_per_tenant)
        if most and self._of_tenant[tenant] >= most:
            raise TooManyOpen(
                "This tenant has as many requests open on this gateway as it may.",
                headers=retry_after(RETRY_AFTER_MS),
            )
        self.refuse_if_full()
        self.open += 1
        self._of_tenant[tenant] += 1

    def leave(self, tenant: str) -> None:
        """One less."""
        self.open -= 1
        self._of_tenant[tenant] -= 1
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]

    def refuse_if_full(self) -> None:
        """Raise Overloaded where there is no room for anybody."""
        if self.open >= self._limit:
            raise Overloaded(
                "Too many responses are open on this gateway.", headers=retry_after(RETRY_AFTER_MS)
            )


class Guarded:
    """ASGI middleware around a route whose requests can take a slot."""

    def __init__(self, app: ASGIApp, admission: Admission, *, at_once: bool) -> None:
        """`at_once`: where there is no room, no request is even looked at."""
        self._app = app
        self._admission = admission
        self._at_once = at_once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._at_once:
            self._admission.refuse_if_full()
        scope[SLOT] = slot = Slot(self._admission)
        try:
            await self._app(scope, receive, send)
        finally:
            slot.leave()
