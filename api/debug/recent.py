"""GET /debug/api/responses: the newest responses of whoever asks.

In: `limit`. Out: `{"data": [...], "now", "whole"}`, newest first, times in ms. Responses that are not stored belong to
their one reader and are not listed; no response of another tenant is.
"""

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from api.auth import Auth
from api.context import Context
from api.debug.figures import figures
from api.errors import Json
from api.query import integer
from streams.recent import recent

LIMITS: Final = range(1, 201)
DEFAULT_LIMIT: Final = 50


class Recent:
    """The handler."""

    def __init__(self, context: Context, auth: Auth) -> None:
        self._store = context.store
        self._auth = auth
        self._looking = asyncio.Lock()
        """A look walks through the keys of the store: however many pages are open, this process does one at a time."""

    async def list(self, request: Request) -> Response:
        """The list."""
        tenant = self._auth.tenant(request)
        limit = integer(request.query_params, "limit", DEFAULT_LIMIT, LIMITS)
        async with self._looking:
            found = await recent(self._store, limit=limit, tenant=tenant, stored=True)
            now = await self._store.logs.now()
        data: list[dict[str, Any]] = [
            {"id": one.rid, "model": one.model, **figures(one.state)} for one in found.responses
        ]
        return Json(
            {"object": "list", "data": data, "now": now, "whole": found.whole},
            headers={"cache-control": "no-store"},
        )
