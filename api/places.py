"""How many responses may be open at once, in all processes together: created, and not ended.

In: a tenant. Out: what its next response needs room for (`Place`), or None where nothing bounds it, which costs nothing;
and a refusal of the store as the 429 or 503 that the client gets. The count is kept in the store, in the same step in which
a response enters the due set (`streams.due`). Called by `api.create`.
"""

from typing import Final

from api.context import ApiSettings
from api.tenants import Look
from streams.scripts.hints import Place
from streams.scripts.refused import Reason, Refused
from translator.protocol.errors import Overloaded, RespoolError, TooManyOpen, retry_after

RETRY_AFTER_MS: Final = 2000
"""Responses take seconds to minutes. Some of many have ended by then, and few processes asked in vain."""


class Places:
    """The bounds, as they are at this moment."""

    def __init__(self, settings: ApiSettings, look: Look) -> None:
        self._most = settings.max_open
        self._most_of_tenant = settings.max_open_per_tenant
        self._run_ms = int(settings.max_run_s * 1000)
        self._look = look

    def place(self, tenant: str) -> Place | None:
        """What a response of this tenant's needs."""
        own = self._look().most_open.get(tenant, self._most_of_tenant)
        if not self._most and not own:
            return None
        return Place(tenant, self._most, own, self._run_ms)


def full(refused: Refused) -> RespoolError:
    """A refusal in the terms of the API; other refusals come back as they are."""
    match refused.reason:
        case Reason.TENANT_FULL:
            return TooManyOpen(
                "This tenant has as many open responses as it may.",
                headers=retry_after(RETRY_AFTER_MS),
            )
        case Reason.FULL:
            return Overloaded(
                "As many responses are open as this gateway takes.",
                headers=retry_after(RETRY_AFTER_MS),
            )
        case _:
            return refused
