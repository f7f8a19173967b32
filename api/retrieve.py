"""GET /v1/responses/{id}: the Response, or its events from any point on.

In: an id and a query. Out: the Response object as JSON; with `stream=true` the stored events after the cursor, then the
live tail. The cursor is the greater of `starting_after` and `Last-Event-ID`; one that is not an event of this response is
a 400 and never a silent replay or an endless wait (contract.md sections 4 and 10).
"""

from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.auth import Auth
from api.context import Context
from api.errors import Json
from api.owned import owned
from api.query import beyond, check_include, cursor, flag
from api.snapshot import current
from api.stream import EventStream, Pace
from translator.protocol.request import Include

LAST_EVENT_ID: Final = "Last-Event-ID"
STARTING_AFTER: Final = "starting_after"


class Retrieve:
    """The handler."""

    def __init__(self, context: Context, auth: Auth) -> None:
        settings = context.settings
        self._store = context.store
        self._auth = auth
        self._sse_ids = settings.sse_ids
        self._pace = Pace(settings.heartbeat_s, settings.keepalive_s)

    async def get(self, request: Request) -> Response:
        """The Response, or with `stream=true` its events."""
        tenant, rid = self._auth.tenant(request), request.path_params["response_id"]
        query = request.query_params
        check_include(query, get_args(Include))
        streaming = flag(query, "stream")
        flag(query, "include_obfuscation")  # accepted; no obfuscation is ever sent
        cursors = cursors_of(request) if streaming else {}
        state = await owned(self._store.logs, tenant, rid)
        if not streaming:
            return Json(await current(self._store.logs, rid, done=state.done))
        return await self._resume(request, rid, cursors)

    async def _resume(self, request: Request, rid: str, cursors: dict[str, int]) -> Response:
        after = max(cursors.values(), default=-1)
        # One page's head tells whether the log still holds what comes next, while that can still be a status.
        page = await self._store.logs.read_output(rid, after, 1)
        for name, value in cursors.items():
            if value > page.seq:
                raise beyond(name)
        asked_for_ids = flag(request.query_params, "sse_ids") or LAST_EVENT_ID in request.headers
        if asked_for_ids and page.done and after == page.seq:
            # An EventSource connects again after every end but this one.
            return Response(status_code=204)
        return EventStream(
            self._store.hub.open(rid, after, page),
            after=after,
            pace=self._pace,
            ids=asked_for_ids or self._sse_ids,
        )


def cursors_of(request: Request) -> dict[str, int]:
    """The cursors that a request names, by the name to use in a refusal. An empty Last-Event-ID is none."""
    found: dict[str, int] = {}
    if (text := request.query_params.get(STARTING_AFTER)) is not None:
        found[STARTING_AFTER] = cursor(text, STARTING_AFTER)
    # A browser sends back what we sent; anything else is refused, since a replay from 0 would repeat for ever.
    if text := request.headers.get(LAST_EVENT_ID, "").strip():
        found[LAST_EVENT_ID] = cursor(text, LAST_EVENT_ID)
    return found
