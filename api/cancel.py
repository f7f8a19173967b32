"""POST /v1/responses/{id}/cancel: end a background response.

In: an id. Out: the Response as it ended. The cancel is an entry of the input log, so the fold decides whether it or the
completion came first; this handler waits for the terminal frame and answers with what it says. A finished response is
answered as it is (contract.md D3), a foreground one refused (D4).
"""

from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import Response

from api.auth import Auth
from api.collect import terminal
from api.context import Context
from api.errors import Json
from api.owned import owned
from api.snapshot import current, response_of
from api.unstored import cancel
from translator.protocol.errors import NotFound, Overloaded, RequestError, retry_after

WAIT_S: Final = 15.0
"""How long the terminal frame may take. It takes milliseconds, or one lease if the translating process has just died;
SDKs time out after minutes."""

RETRY_AFTER_MS: Final = 1000


class Cancel:
    """The handler."""

    def __init__(self, context: Context, auth: Auth) -> None:
        self._store = context.store
        self._auth = auth

    async def cancel(self, request: Request) -> Response:
        """Cancel, and show how the response ended."""
        tenant, rid = self._auth.tenant(request), request.path_params["response_id"]
        state = await owned(self._store.logs, tenant, rid)
        if not state.background:
            raise RequestError(
                "Only a response that was created with 'background: true' can be cancelled; "
                "close the connection of any other."
            )
        if state.done:
            return Json(await current(self._store.logs, rid, done=True))
        async with self._store.hub.open(rid, state.seq) as reader:
            if await cancel(self._store, rid, reason="client") is None:
                raise NotFound.response(rid)
            with anyio.move_on_after(WAIT_S):
                return Json(response_of((await terminal(reader, rid)).data))
        # It is in the log and will happen. Asking again is safe, and SDKs do so by themselves.
        raise Overloaded(
            "The cancel is recorded, but the response has not ended yet.",
            code="cancel_pending",
            headers=retry_after(RETRY_AFTER_MS),
        )
