"""The application: routes, error shapes, the layer around everything.

In: a Context. Out: an ASGI application. Called by the composition root, which gives it to uvicorn. It is Starlette's
router inside one layer of ours (two where web pages are let in), not a `Starlette` with its stack of them: every write of
every stream would pass them all.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from api.admission import Admission, Guarded
from api.auth import Auth
from api.cancel import Cancel
from api.context import Context
from api.cors import Cors
from api.create import Create
from api.debug.routes import routes as debug_routes
from api.delete import Delete
from api.health import Health
from api.input_items import InputItems
from api.models import Models
from api.request_id import RequestId
from api.retrieve import Retrieve
from api.stream import EventStream
from streams import metrics

Handler = Callable[[Request], Awaitable[Response]]

NOT_BUILT: Final = ("/v1/responses/input_tokens", "/v1/responses/compact")
"""Routes of OpenAI's that would else be taken for response ids (contract.md section 2)."""


def application(context: Context) -> ASGIApp:
    """The whole HTTP surface of the gateway."""
    settings = context.settings
    auth = Auth(
        context.tenants,
        allow_anonymous=settings.allow_anonymous,
        origins=settings.cors_origins,
    )
    admission = Admission(
        context.tenants,
        limit=settings.max_in_flight,
        limit_per_tenant=settings.max_in_flight_per_tenant,
    )
    health = Health(context.store, context.ready)
    models = Models(context.upstreams, auth)
    create = Endpoint({"POST": Create(context, auth).create})
    retrieve, delete = Retrieve(context, auth), Delete(context, auth)
    stored = Endpoint({"GET": retrieve.get, "DELETE": delete.delete})
    one = "/v1/responses/{response_id}"
    router = Router(
        [
            *(route(path, POST=not_built, GET=not_built) for path in NOT_BUILT),
            Route("/v1/responses", Guarded(create, admission, at_once=True)),
            Route(one, Guarded(stored, admission, at_once=False)),
            route(f"{one}/cancel", POST=Cancel(context, auth).cancel),
            route(f"{one}/input_items", GET=InputItems(context, auth).list),
            route("/v1/models", GET=models.list),
            route("/v1/models/{model:path}", GET=models.retrieve),
            route("/healthz", GET=health.healthz, HEAD=health.healthz),
            route("/readyz", GET=health.readyz, HEAD=health.readyz),
            route("/metrics", GET=health.metrics, HEAD=health.metrics),
            *(route(path, GET=get) for path, get in debug_routes(context, auth).items()),
        ],
        # A redirect to the path without its slash would lose a POST's body in many clients: such a path is unknown.
        redirect_slashes=False,
        default=unknown,
    )
    metrics.gauge("readers", lambda: EventStream.readers)
    app = RequestId(router)
    return Cors(app, settings.cors_origins) if settings.cors_origins else app


class Endpoint:
    """One path with a handler for each of its methods; any other method is a 405 that lists these.

    HEAD is a method like others: Starlette would take it for a GET, and a HEAD of a stream would run for nobody.
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._handlers.get(scope["method"])
        if handler is None:
            raise HTTPException(405, headers={"allow": ", ".join(self._handlers)})
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)


def route(path: str, **handlers: Handler) -> Route:
    """One path and what its methods do."""
    return Route(path, Endpoint(handlers))


async def unknown(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Any other path."""
    raise HTTPException(404)


async def not_built(_request: Request) -> Response:
    """A route that OpenAI has and this gateway does not have yet."""
    raise HTTPException(404)
