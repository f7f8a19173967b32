"""What a process serves while it waits for its store: it lives, it is not ready, and every request may come again.

In: what is wrong with the store. Out: an ASGI application with the routes of `api.health`; all others are 503 in OpenAI's
shape. Called by `respool.serve` until the store is there.
"""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from api.app import route
from api.errors import Json
from api.request_id import RequestId
from streams import metrics
from streams.faults import StoreAway


def waiting(problem: Callable[[], str]) -> ASGIApp:
    """The application; `problem` says what /readyz tells."""

    async def healthz(_request: Request) -> Response:
        return Json({"status": "ok"})

    async def readyz(_request: Request) -> Response:
        return Json({"status": "not ready", "problems": [problem()]}, status_code=503)

    async def figures(_request: Request) -> Response:
        return PlainTextResponse(
            metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    async def away(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise StoreAway(problem())

    routes = {"/healthz": healthz, "/readyz": readyz, "/metrics": figures}
    return RequestId(
        Router(
            [route(path, GET=handler, HEAD=handler) for path, handler in routes.items()],
            redirect_slashes=False,
            default=away,
        )
    )
