"""Errors as HTTP answers: OpenAI's shape, all four keys, on every way out.

In: whatever a handler or the router raised. Out: a response with `{"error": {"message", "type", "param", "code"}}`.
Called by `api.request_id`, the layer around everything.
"""

import logging
import re
import traceback
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from streams.faults import Gone, LogLost, StoreFull
from streams.scripts.refused import Reason, Refused
from translator.protocol.errors import (
    INVALID_REQUEST,
    NotFound,
    RespoolError,
    StoreError,
    UpstreamError,
    retry_after,
)
from translator.protocol.json import dumps

log = logging.getLogger(__name__)

ROUTER_MESSAGES: Final = {
    404: "There is no such route.",
    405: "This route does not know the method.",
}
UNEXPECTED: Final = "The server had an error while processing the request."

STORE_RETRY_MS: Final = 1000
"""What a client is told to wait when the store is away: the writer has already waited for it before."""

STORE_FULL_RETRY_S: Final = 5
"""The same where it has no memory left: responses that expire or are packed make room, which takes longer."""

ECHO_CHARS: Final = 100
"""What of a quoted value is repeated in a message: enough to know an id by; the whole may be megabytes."""
MESSAGE_CHARS: Final = 2000
"""A whole message, an upstream's too."""
PARAM_CHARS: Final = 200

END_CHARS: Final = 8000
"""What is looked at of each end of a message of megabytes."""
SENTENCE_CHARS: Final = 250
"""None of our own sentences is longer: what is, repeats a long value."""

QUOTED: Final = re.compile(r"""'([^']*+)'|"([^"]*+)\"""", re.DOTALL)
"""A value in a message. Short ones match too, so that what stands between two is not taken for one."""


class Json(Response):
    """A JSON body written as all our JSON is."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content)


def shortened(error: RespoolError) -> RespoolError:
    """The error, with no more of the client's own values in its message than tells which one is meant."""
    message = error.message
    if len(message) > SENTENCE_CHARS and not isinstance(error, UpstreamError):
        if len(message) > 2 * END_CHARS:  # what is left out here is the middle of a value
            message = message[:END_CHARS] + message[-END_CHARS:]
        message = QUOTED.sub(_echo, message)
    if len(message) > MESSAGE_CHARS:
        message = message[:MESSAGE_CHARS] + "…"
    error.message = message
    if error.param and len(error.param) > PARAM_CHARS:
        error.param = error.param[:PARAM_CHARS] + "…"
    return error


def _echo(found: re.Match[str]) -> str:
    value = found[0]
    return value if len(value) <= ECHO_CHARS + 2 else f"{value[: ECHO_CHARS + 1]}…{value[-1]}"


def public(error: RespoolError) -> RespoolError:
    """An error as a client may see it: what the log or the store said, in the terms of the API, and not too long."""
    return shortened(_public(error))


def _public(error: RespoolError) -> RespoolError:
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
        case StoreFull():
            wait = {
                "retry-after": f"{STORE_FULL_RETRY_S}",
                "retry-after-ms": f"{STORE_FULL_RETRY_S}000",
            }
            return RespoolError(
                "The store of this gateway is full.", status=503, code=error.code, headers=wait
            )
        case StoreError():
            return RespoolError(
                "The store of this gateway is not available.",
                status=503,
                code=StoreError.code,
                headers=retry_after(STORE_RETRY_MS),
            )
        case _:
            return error


def is_gone(error: RespoolError) -> bool:
    """Whether there is no such response (any more)."""
    return isinstance(error, Gone) or (
        isinstance(error, Refused) and error.reason is Reason.MISSING
    )


def under_way(error: RespoolError, *, deleted: bool) -> RespoolError:
    """As `public`, for a response that was there when this request began: what went meanwhile, the client did not do.

    `deleted`: somebody has deleted it through this process. Of a deletion elsewhere nothing is left to be seen, as of a
    response that the store has lost (flushed, restarted without its file), so the message says both.
    """
    match error:
        case Gone() | Refused(reason=Reason.MISSING) if not deleted:
            return RespoolError(
                "This response is gone: the store of this gateway lost it, or it was deleted.",
                code="response_lost",
            )
        case LogLost():
            return RespoolError(public(error).message, code="events_lost")
        case _:
            return public(error)


def answer(error: RespoolError) -> Response:
    """An error of ours as HTTP answer, its own headers included."""
    shown = public(error)
    return Json(shown.body(), status_code=shown.status, headers=shown.headers)


def refusal(error: Exception, scope: Scope) -> RespoolError | None:
    """What a client is told of an error that is ours or the router's; None where nobody expected it."""
    match error:
        case RespoolError():
            return error
        case HTTPException():
            return _of_router(error, Headers(scope=scope))
        case _:
            return None


def _of_router(error: HTTPException, asked: Headers) -> RespoolError:
    """An unknown route, a wrong method."""
    status, headers = error.status_code, dict(error.headers or {})
    if asked.get("upgrade", "").lower() == "websocket":
        # OpenAI's WebSocket shares its path with the create: here there is no such route (contract.md section 2).
        status, headers = 404, {}
    message = ROUTER_MESSAGES.get(status, "The request cannot be served.")
    return RespoolError(message, status=status, type=INVALID_REQUEST, headers=headers)


def unexpected(error: BaseException, request_id: str) -> RespoolError:
    """A neutral 500 for an error that nobody expected, and a log line that says where it came from.

    The frames of the traceback are logged, the exception's own text is not: it may quote a body, a header or a key.
    """
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error(
        "%s: unexpected %s\n%s",
        request_id,
        type(error).__name__,
        where,
        extra={"request": request_id},
    )
    return RespoolError(UNEXPECTED)
