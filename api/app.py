"""The application: routes, error shapes, the layer around everything.

In: a Context. Out: a Starlette application. Called by the composition root, which gives it to uvicorn.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.admission import Admission
from api.auth import Auth
from api.cancel import Cancel
from api.context import Context
from api.create import Create
from api.delete import Delete
from api.errors import respool_error, router_error
from api.health import Health
from api.input_items import InputItems
from api.models import Models
from api.request_id import RequestId
from api.retrieve import Retrieve
from api.stream import EventStream
from streams import metrics
from translator.protocol.errors import RespoolError

Handler = Callable[[Request], Awaitable[Response]]

NOT_BUILT: Final = ("/v1/responses/input_tokens", "/v1/responses/compact")
"""Routes of OpenAI's that would else be taken for response ids (contract.md section 2)."""


def application(context: Context) -> Starlette:
    """The whole HTTP surface of the gateway."""
    settings = context.settings
    auth = Auth(settings.api_keys, allow_anonymous=settings.allow_anonymous)
    health = Health(context.store, context.ready)
    retrieve, delete = Retrieve(context, auth), Delete(context, auth)
    one = "/v1/responses/{response_id}"
    app = Starlette(
        routes=[
            *(route(path, POST=not_built, GET=not_built) for path in NOT_BUILT),
            admitted(
                route("/v1/responses", POST=Create(context, auth).create),
                settings.max_in_flight,
            ),
            route(one, GET=retrieve.get, DELETE=delete.delete),
            route(f"{one}/cancel", POST=Cancel(context, auth).cancel),
            route(f"{one}/input_items", GET=InputItems(context, auth).list),
            route("/v1/models", GET=Models(context.upstreams, auth).list),
            route("/healthz", GET=health.healthz, HEAD=health.healthz),
            route("/readyz", GET=health.readyz, HEAD=health.readyz),
            route("/metrics", GET=health.metrics, HEAD=health.metrics),
        ],
        middleware=[Middleware(RequestId)],
        exception_handlers={RespoolError: respool_error, HTTPException: router_error},
    )
    metrics.gauge("readers", lambda: EventStream.readers)
    # A redirect to the path without its slash would lose a POST's body in many clients: such a path is unknown.
    app.router.redirect_slashes = False
    return app


def route(path: str, **handlers: Handler) -> Route:
    """One path with a handler for each of its methods; any other method is a 405 that lists these."""

    async def endpoint(request: Request) -> Response:
        return await handlers[request.method](request)

    made = Route(path, endpoint, methods=list(handlers))
    made.methods = set(
        handlers
    )  # Starlette adds HEAD to GET: a HEAD of a stream would run for nobody
    return made


def admitted(made: Route, limit: int) -> Route:
    """The route, for at most so many requests at once."""
    made.app = Admission(made.app, limit)
    return made


async def not_built(_request: Request) -> Response:
    """A route that OpenAI has and this gateway does not have yet."""
    raise HTTPException(404)
