"""DELETE /v1/responses/{id}: the Response, its input and both logs go at once.

In: an id. Out: `{id, object, deleted}`; afterwards every route says 404. A running response is cancelled first, in the
same exchange with the store: whoever works on it finds nothing any more and stops, its readers get the `error` event.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from api.auth import Auth
from api.context import Context
from api.errors import Json
from api.owned import owned
from streams.scripts import responses
from streams.scripts.refused import Reason, Refused
from streams.store import Store


class Delete:
    """The handler."""

    def __init__(self, context: Context, auth: Auth) -> None:
        self._store = context.store
        self._auth = auth

    async def delete(self, request: Request) -> Response:
        """Delete."""
        tenant, rid = self._auth.tenant(request), request.path_params["response_id"]
        await owned(self._store.logs, tenant, rid)
        self._store.hub.deleted(rid)
        await remove(self._store, rid)
        return Json({"id": rid, "object": "response", "deleted": True})


async def remove(store: Store, rid: str) -> None:
    """Cancel a response and delete all of it; no harm if it is not there."""
    keys, writer = store.keys, store.writer
    results = await asyncio.gather(
        writer.do(responses.cancel(keys, rid, reason="client")),
        writer.do(responses.delete(keys, rid)),
        store.due.drop(rid),
        return_exceptions=True,
    )
    for result in results:
        if isinstance(result, Refused) and result.reason is Reason.MISSING:
            continue
        if isinstance(result, BaseException):
            raise result
