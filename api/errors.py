"""Errors as HTTP answers: OpenAI's shape, all four keys, on every way out.

In: whatever a handler raised. Out: a response with `{"error": {"message", "type", "param", "code"}}`. Called by the
application for errors of our own and of the router, by `api.request_id` for everything that nobody expected.
"""

import logging
import traceback
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from streams.faults import Gone, LogLost
from streams.scripts.refused import Reason, Refused
from translator.protocol.errors import INVALID_REQUEST, NotFound, RespoolError, StoreError
from translator.protocol.json import dumps

log = logging.getLogger(__name__)

ROUTER_MESSAGES: Final = {
    404: "There is no such route.",
    405: "This route does not know the method.",
}
UNEXPECTED: Final = "The server had an error while processing the request."

STORE_RETRY_MS: Final = 1000
"""What a client is told to wait when the store is away: the writer has already waited for it before."""


class Json(Response):
    """A JSON body written as all our JSON is."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content)


def public(error: RespoolError) -> RespoolError:
    """An error as a client may see it: what the log or the store said, in the terms of the API."""
    match error:
        case Gone() | Refused(reason=Reason.MISSING):
            return NotFound.response(error.rid)
        case LogLost():
            return RespoolError(
                "The events of this response are no longer available.",
                status=410,
                type=INVALID_REQUEST,
                code="events_lost",
            )
        case StoreError():
            return RespoolError(
                "The store of this gateway is not available.",
                status=503,
                code=StoreError.code,
                headers={"retry-after-ms": str(STORE_RETRY_MS)},
            )
        case _:
            return error


def answer(error: RespoolError) -> Response:
    """An error of ours as HTTP answer, its own headers included."""
    shown = public(error)
    return Json(shown.body(), status_code=shown.status, headers=shown.headers)


def respool_error(_request: Request, error: Exception) -> Response:
    """Starlette's handler for errors of ours."""
    if not isinstance(error, RespoolError):
        raise error
    return answer(error)


def router_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for what its router refuses: an unknown route, a wrong method."""
    if not isinstance(error, HTTPException):
        raise error
    status, headers = error.status_code, dict(error.headers or {})
    if request.headers.get("upgrade", "").lower() == "websocket":
        # OpenAI's WebSocket shares its path with the create: here there is no such route (contract.md section 2).
        status, headers = 404, {}
    message = ROUTER_MESSAGES.get(status, "The request cannot be served.")
    return answer(RespoolError(message, status=status, type=INVALID_REQUEST, headers=headers))


def unexpected(error: BaseException, request_id: str) -> RespoolError:
    """A neutral 500 for an error that nobody expected, and a log line that says where it came from.

    The frames of the traceback are logged, the exception's own text is not: it may quote a body, a header or a key.
    """
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s: unexpected %s\n%s", request_id, type(error).__name__, where)
    return RespoolError(UNEXPECTED)
