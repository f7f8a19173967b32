"""The outermost layer: a request id on every answer, one log line a request, and no way out without an answer.

In: every ASGI message of the server. Out: the same, with `x-request-id` on each response (SSE, errors, unknown routes
and the 500 of an unexpected error included). The SDKs show it as `_request_id`, Codex prints it (contract.md section
2). The log line never holds a query, a header or a body. It is the only layer: a stream's every write passes it.
"""

import asyncio
import logging
import re
import secrets
import time
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import answer, public, refusal, unexpected
from streams import metrics
from translator.protocol.errors import (
    AuthenticationError,
    LimitPassed,
    NotFound,
    Overloaded,
    RequestError,
    RespoolError,
    StoreError,
    TooLarge,
    UpstreamError,
)

log = logging.getLogger(__name__)

SCOPE_KEY: Final = "respool.request_id"
"""Where a request's scope holds its id, for log lines of the layers below."""

RESPONSE_KEY: Final = "respool.response_id"
"""Where a create leaves the id of its response, for the log."""

RESPONSE_ID: Final = re.compile(r"resp_[0-9a-f]{32}")
"""An id of ours: what a client writes in its place is its path's affair."""

LOGGED_PATH_CHARS: Final = 200
"""An id and a route fit; a longer path is somebody's experiment and must not fill the log."""

STOPPING: Final = Overloaded(
    "This server is stopping.", code="stopping", headers={"x-should-retry": "false"}
)
"""Not to be repeated by itself: what the request began may be running on elsewhere."""

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that machines ask every few seconds: while all is well they would fill the log."""

KINDS: Final[tuple[tuple[type[RespoolError], str], ...]] = (
    (AuthenticationError, "key"),
    (NotFound, "not_found"),
    (TooLarge, "too_large"),
    (LimitPassed, "too_large"),
    (RequestError, "request"),
    (Overloaded, "overloaded"),
    (UpstreamError, "upstream"),
    (StoreError, "store"),
)
"""Subclasses before their own."""

BY_STATUS: Final = {400: "request", 405: "request", 404: "not_found", 431: "too_large"}
"""Of the router's refusals, and of what never became a request (`respool.wire`)."""

CLIENT_LEFT: Final = 499
"""In the log and the counters only: the client left before there was an answer (nginx's number)."""


ASKED_OFTEN: Final = PROBES | {
    f"/debug/api/responses{rest}"
    for rest in ("", *(f"/{{response_id}}/{one}" for one in ("log", "frames", "state")))
}
"""The same, and what an open debug page asks every second or with every move of a hand."""


class RequestId:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{secrets.token_hex(16)}"
        scope[SCOPE_KEY] = request_id
        header = (b"x-request-id", request_id.encode())
        started, status = time.perf_counter(), CLIENT_LEFT
        answered = False

        async def stamped(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], header]
                status, answered = message["status"], True
            await send(message)

        try:
            await self._app(scope, receive, stamped)
        except ClientDisconnect:
            pass  # nobody is left to be answered
        except asyncio.CancelledError:
            # The process ends and the server waits no longer. Streams are cut, which tells their clients to resume;
            # who has seen nothing yet is told what happened. This task has nothing else left to do.
            log.warning("%s: cut, the process is stopping", request_id, extra=named(scope))
            if not answered:
                await answer(STOPPING)(scope, receive, stamped)
        except Exception as error:  # noqa: BLE001 - every request gets an answer
            told = None if answered else refusal(error, scope)
            if told is None:
                told = unexpected(error, request_id)
            metrics.count("requests_refused_total", kind=kind_of(public(told)))
            # Once the headers are out nothing can be said any more: the server cuts the connection, and the client
            # knows that it has not seen the end.
            if not answered:
                await answer(told)(scope, receive, stamped)
        finally:
            took_ms = (time.perf_counter() - started) * 1000
            route = route_of(scope)
            level = (
                logging.DEBUG
                if route in ASKED_OFTEN and status < HTTPStatus.BAD_REQUEST
                else logging.INFO
            )
            line = (request_id, scope["method"], loggable(scope), status, took_ms)
            log.log(level, "%s %s %s %d %.0f ms", *line, extra=about(scope, status, took_ms))
            metrics.count("requests_total", route=route, status=str(status))


def kind_of(told: RespoolError) -> str:
    """Whose fault a refusal is, as a label."""
    by_class = (kind for cls, kind in KINDS if isinstance(told, cls))
    return next(by_class, BY_STATUS.get(told.status, "other"))


def named(scope: Scope) -> dict[str, Any]:
    """Which request, and which response, as fields of a log line."""
    found = scope.get(RESPONSE_KEY) or scope.get("path_params", {}).get("response_id", "")
    known = {"response": found} if RESPONSE_ID.fullmatch(found) else {}
    return {"request": scope[SCOPE_KEY], **known}


def about(scope: Scope, status: int, took_ms: float) -> dict[str, Any]:
    """A request's line as fields."""
    answered = {"status": status, "ms": round(took_ms)}
    return {**named(scope), "method": scope["method"], "path": loggable(scope), **answered}


def route_of(scope: Scope) -> str:
    """The route that answered, as a label: one of ours, never a path with an id in it."""
    return getattr(scope.get("route"), "path", "none")


def loggable(scope: Scope) -> str:
    """The path as it came (still percent-encoded, so without line breaks), cut, without the query."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode("ascii", "backslashreplace")
    path = raw.partition(b"?")[0].decode("ascii", "backslashreplace")
    shown = path.encode("unicode_escape").decode("ascii")
    return shown[:LOGGED_PATH_CHARS]
