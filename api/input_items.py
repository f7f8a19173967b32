"""GET /v1/responses/{id}/input_items: the request's own input, page by page.

In: an id, `order` (desc by default), `limit` (20, 1 to 100), `after` (the id of an item), `include`. Out: a list object.
The input of earlier turns is not part of it. Every stored item has an id: the client's, or a derived one.
"""

from collections.abc import Sequence
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.auth import Auth
from api.context import Context
from api.errors import Json
from api.owned import owned
from api.query import check_include, choice, integer
from api.results import RUN_TYPES
from translator.items import CALLS
from translator.protocol.errors import NotFound, RequestError
from translator.protocol.request import Include

ORDERS: Final = ("asc", "desc")
LIMITS: Final = range(1, 101)
DEFAULT_LIMIT: Final = 20
LOOKED_UP: Final = RUN_TYPES | CALLS
"""Items that may carry what the log says of them (`api.results`)."""

WITH_STATUS: Final = CALLS | frozenset(
    {
        *("message", "function_call_output", "custom_tool_call_output", "program_output"),
        *("computer_call", "computer_call_output", "tool_search_call", "tool_search_output"),
        *("shell_call", "shell_call_output", "local_shell_call"),
        *("apply_patch_call", "apply_patch_call_output"),
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
    }
)
"""Listed items that have a status in OpenAI's types; what a client sends is over where it says nothing of that."""


class InputItems:
    """The handler."""

    def __init__(self, context: Context, auth: Auth) -> None:
        self._store = context.store
        self._auth = auth

    async def list(self, request: Request) -> Response:
        """One page."""
        tenant, rid = self._auth.tenant(request), request.path_params["response_id"]
        query = request.query_params
        check_include(query, get_args(Include))
        order = choice(query, "order", "desc", ORDERS)
        limit = integer(query, "limit", DEFAULT_LIMIT, LIMITS)
        await owned(self._store.logs, tenant, rid)
        entry = await self._store.logs.read_request(rid)
        if entry is None:
            raise NotFound.response(rid)
        items = entry["input"] if order == "asc" else entry["input"][::-1]
        return Json(page(items, query.get("after"), limit))


def page(items: Sequence[dict[str, Any]], after: str | None, limit: int) -> dict[str, Any]:
    """The items after the one of that id, at most `limit`."""
    ids = [item["id"] for item in items]
    if after is None:
        start = 0
    elif after in ids:
        # The last of that id: no request with twins is taken any more, but a stored one must not turn a pager in a circle.
        start = len(ids) - ids[::-1].index(after)
    else:
        raise RequestError(
            "'after' is not the id of an input item of this response.", param="after"
        )
    data = [shown(item) for item in items[start : start + limit]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": start + limit < len(items),
    }


def shown(item: dict[str, Any]) -> dict[str, Any]:
    """An item as the client sent it, without what was looked up for it (`api.references`), in the form of OpenAI's types."""
    kind = item.get("type")
    if kind in LOOKED_UP:
        item = {key: value for key, value in item.items() if key != "result"}
    if kind in WITH_STATUS and item.get("status") is None:
        item = {**item, "status": "completed"}
    if kind == "message" and isinstance(text := item.get("content"), str):
        said: dict[str, Any] = {"type": "input_text", "text": text}
        if item.get("role") == "assistant":
            said = {"type": "output_text", "text": text, "annotations": []}
        item = {**item, "content": [said]}
    return item
