"""`respool serve`: one process with the given roles, from its first line in the log to its last.

In: settings and roles. Out: an exit status: 0 after SIGTERM or Ctrl-C, 1 if a part of it fell. One
event loop runs everything: uvicorn, the runners of `respool.crew` and the loops of the store.
Called by `respool.cli`.

The end: no new connections and no new work are taken; upstream streams may end within
RESPOOL_DRAIN_S; leases are released, so that another process goes on at once; streams that are
still open are cut at a frame's end, and their clients resume elsewhere. A second signal skips the
waiting, and the kernel's alarm ends a process that hangs.
"""

import asyncio
import gc
import logging
import math
import signal
import socket
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack

import uvloop
from starlette.types import ASGIApp

from api.app import application
from api.context import ApiSettings, Context
from api.health import Health
from api.waiting import waiting
from ingest.role import MAX_OPEN as MAX_ROUNDS_OPEN
from respool import __version__, otel, process
from respool import log as logs
from respool.arrival import Arrival
from respool.backing import store_of
from respool.crew import Crew, tool_settings
from respool.descriptors import provide
from respool.http import Door, Http, address, bind, health_only
from respool.keyring import Keyring
from respool.roles import Role
from respool.settings import Settings, headers_of, unknown_variables
from respool.unusable import Unusable
from respool.upstreams import Upstreams
from streams.store import Store
from translator import grammar
from translator.protocol.errors import StoreError
from workers.tools import session
from workers.tools.registry import Registry
from workers.tools.role import MAX_OPEN as MAX_CALLS_OPEN

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""Upstream attempts at one round: a second process may die of what the first one died of."""
LAST_S = 10.0
"""After the drain: leases, cut sockets, the last writes, an embedded store's end. Past it the
kernel ends the process."""
YOUNG_OBJECTS = 10_000
"""Objects that the cyclic collector lets pass before it looks. What frames and ended responses leave
behind is freed by counting; with 700 objects, the default, it looks in vain, and each look at all that
there is holds up all streams for some ms (docs/performance.md)."""
NO_UPSTREAM = "no upstream: set RESPOOL_UPSTREAM_URL, or write [[upstreams]] into respool.toml"


def run(settings: Settings, roles: frozenset[Role]) -> int:
    """Serve until a signal comes. Raises Unusable where it cannot even begin."""
    logs.configure(settings.log_level, settings.secrets(), form=settings.log_format, roles=roles)
    provide(sockets_of(settings, roles))
    for name in unknown_variables():
        log.warning("%s is no setting; see docs/settings.md", name)
    upstreams = Upstreams(settings)
    if roles & {Role.API, Role.INGEST} and not upstreams.all():
        raise Unusable(NO_UPSTREAM)
    warm(roles, upstreams)
    process.show(roles)
    exporting = traced(settings, roles)
    gc.freeze()  # what is imported stays; nobody needs to look at it again
    gc.set_threshold(YOUNG_OBJECTS)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(Serving(settings, roles, upstreams).run())
    except (BaseExceptionGroup, StoreError) as error:
        raise cause(error, settings) from error
    finally:
        if exporting is not None:
            exporting.close()


def traced(settings: Settings, roles: frozenset[Role]) -> otel.Exporting | None:
    """Send spans to a collector, where one is set."""
    if settings.otlp_endpoint is None:
        return None
    headers = headers_of(settings.otlp_headers) if settings.otlp_headers else {}
    return otel.start(settings.otlp_endpoint, headers, ratio=settings.trace_ratio, roles=roles)


def sockets_of(settings: Settings, roles: frozenset[Role]) -> int:
    """Sockets that a process may come to have open: those of clients, of upstreams, of tool servers."""
    sockets = settings.max_connections if Role.API in roles else 0
    sockets += MAX_ROUNDS_OPEN if Role.INGEST in roles else 0
    return sockets + (MAX_CALLS_OPEN if Role.TOOLS in roles else 0)


def warm(roles: frozenset[Role], upstreams: Upstreams) -> None:
    """Load now what would hold up all streams at the first grammar, or the first client at the first call of a tool."""
    reads_grammars = roles & {Role.API, Role.TRANSLATE}
    if reads_grammars and any(one.custom_formats == "validate" for one in upstreams.all()):
        grammar.machinery()
    if roles == {Role.TOOLS}:  # with other roles, their streams would wait at every start
        session.load()


def cause(error: BaseException, settings: Settings) -> BaseException:
    """What a failed start comes to: one line where the user can do something, else the error."""
    found = list(_leaves(error))
    for leaf in found:
        if isinstance(leaf, Unusable):
            return leaf
    for leaf in found:
        if isinstance(leaf, StoreError):
            return Unusable(f"{settings.store_shown}: {leaf.message}")
    return error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def api_settings(settings: Settings) -> ApiSettings:
    """What the api needs to know."""
    return ApiSettings(
        limits={
            "max_rounds": settings.max_rounds,
            "max_attempts": MAX_ATTEMPTS,
            "max_response_bytes": settings.max_response_bytes,
        },
        retention_s=settings.retention_s,
        grace_s=settings.grace_s,
        max_run_s=settings.max_run_s,
        debug_ui=settings.debug_ui,
        lease_s=settings.lease_s,
        max_body_bytes=settings.max_body_bytes,
        max_in_flight=settings.max_in_flight,
        max_in_flight_per_tenant=settings.max_in_flight_per_tenant or 0,
        max_open=settings.max_open or 0,
        max_open_per_tenant=settings.max_open_per_tenant or 0,
        heartbeat_s=settings.heartbeat_s,
        gateway_tools=frozenset(
            offer.tool for offer in Registry(tool_settings(settings)).offers() if offer.on
        ),
        sse_ids=settings.sse_ids,
        cors_origins=settings.cors_origins.split(",") if settings.cors_origins else (),
        allow_anonymous=settings.allow_anonymous,
    )


class Serving:
    """The life of the process: `run` once."""

    def __init__(self, settings: Settings, roles: frozenset[Role], upstreams: Upstreams) -> None:
        self._settings = settings
        self._roles = roles
        self._upstreams = upstreams
        self._keyring = Keyring(settings, hide=logs.hide) if Role.API in roles else None
        self._asked = asyncio.Event()  # set by the first signal
        self._hurried = asyncio.Event()  # set by the second

    async def run(self) -> int:
        """Open the store, start everything, wait for the end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        loop.add_signal_handler(signal.SIGHUP, self._reread)
        settings, roles = self._settings, self._roles
        # Without the api role the port is for probes alone: two such processes may share a machine.
        wanted = Role.API in roles or "port" in settings.model_fields_set
        listener = bind(settings.host, settings.port) if wanted else None
        door = Door()
        http = self._http(door, listener) if listener else None
        async with AsyncExitStack() as stack:
            if listener is not None:
                stack.callback(listener.close)
            store = await self._arrival(stack, door, http)
            if store is None:
                return 0
            crew = await stack.enter_async_context(Crew(store, settings, roles, self._upstreams))
            door.app = self._application(store, crew)
            self._say(address(listener) if listener else "no port")
            return await self._until_the_end(crew, http)

    def _http(self, door: Door, listener: socket.socket) -> Http:
        settings = self._settings
        return Http(
            door, listener, drain_s=settings.drain_s, max_connections=settings.max_connections
        )

    async def _arrival(self, stack: AsyncExitStack, door: Door, http: Http | None) -> Store | None:
        """The store, waited for; None where a signal came first. Only a wait is served: else requests need not know."""

        def let_in() -> None:
            door.app = waiting(lambda: arrival.problem)
            if http is not None:
                _ = http.begin()  # `leave` waits for it
                stack.push_async_callback(http.leave)

        settings, roles = self._settings, self._roles
        arrival = Arrival(
            lambda: stack.enter_async_context(store_of(settings, roles)), settings.store_wait_s
        )
        return await arrival.wait(self._asked, let_in)

    def _application(self, store: Store, crew: Crew) -> ASGIApp:
        def problems() -> list[str]:
            return ["stopping"] if self._asked.is_set() else crew.runners.problems()

        keyring = self._keyring
        if keyring is None:
            return health_only(Health(store, problems))
        settings = self._settings
        if not (keyring.now().keys or settings.loopback or settings.allow_anonymous):
            log.warning(
                "no RESPOOL_API_KEYS: only requests from this machine are served on %s",
                settings.host,
            )
        context = Context(
            store, api_settings(settings), self._upstreams, ready=problems, tenants=keyring.now
        )
        return application(context)

    def _say(self, where: str) -> None:
        log.info(
            "respool %s serves %s; roles %s; store %s; upstreams %s",
            __version__,
            where,
            ", ".join(sorted(self._roles)),
            self._settings.store_shown,
            ", ".join(upstream.id for upstream in self._upstreams.all()) or "none",
        )

    async def _until_the_end(self, crew: Crew, http: Http | None) -> int:
        serving = http.begin() if http else asyncio.ensure_future(self._asked.wait())
        await _first(self._asked.wait(), crew.runners.fell.wait(), serving)
        signal.alarm(math.ceil(self._settings.drain_s + LAST_S))
        fell = not self._asked.is_set()
        log.info("stopping: %s", "a part of the process fell" if fell else "a signal came")
        if http is not None:
            http.stop()
        await _first(crew.retire(), self._hurried.wait())
        if http is not None:
            await _first(serving, self._hurried.wait())
            http.cut()
        await serving
        return 1 if fell else 0

    def _reread(self) -> None:
        """A SIGHUP: without it an edited file is found by the next request."""
        if self._keyring is not None:
            self._keyring.reread()

    def _signalled(self) -> None:
        if self._asked.is_set():
            self._hurried.set()
        self._asked.set()


async def _first(*works: Awaitable[object]) -> None:
    """Return when one of them has ended; of the others, coroutines are cancelled, tasks are not."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task, work in zip(tasks, works, strict=True):
            if task is not work:
                task.cancel()
