"""The HTTP side of a process: a socket, uvicorn in our own event loop, the application.

In: an application, a bound socket. Out: requests served until `stop`, which waits for streams to
end within a bound and then cuts them. Called by `respool.serve`, which owns the signals.
"""

import asyncio
import logging
import math
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from api.health import Health
from respool.unusable import Unusable
from respool.wire import bounded

log = logging.getLogger(__name__)

BACKLOG = 2048
"""Connections that the kernel holds for us while the event loop is busy."""
UNSENT_BYTES = 128 * 1024
"""What the kernel takes for a client beyond what is on its way to it. Left to itself it takes 4 MB for each one that does
not read; what is on its way is not counted, so a client that reads is as fast as its line."""
KEEPALIVE_S = 75
"""Longer than the idle pools of common proxies (60 s), so that they close first and no request is
sent into a closing connection."""


def bind(host: str, port: int) -> socket.socket:
    """The socket to serve on. Raises Unusable."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # A name that means nothing has a negative number, and a text of the resolver's with our address in it.
        known = error.errno is not None and error.errno > 0
        reason = os.strerror(error.errno or 0) if known else "no such address"
        raise Unusable(f"cannot serve {host}, port {port}: {reason}") from None
    if (
        unsent := getattr(socket, "TCP_NOTSENT_LOWAT", None)
    ) is not None:  # Linux; accepted ones inherit it
        listener.setsockopt(socket.IPPROTO_TCP, unsent, UNSENT_BYTES)
    return listener


def address(listener: socket.socket) -> str:
    """Where it can be reached, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def health_only(health: Health) -> Starlette:
    """What a process without the api role serves."""
    routes = {"/healthz": health.healthz, "/readyz": health.readyz, "/metrics": health.metrics}
    return Starlette(routes=[Route(path, handler) for path, handler in routes.items()])


class _Server(uvicorn.Server):
    """uvicorn, which leaves the signals to us."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Door:
    """The application that is served now: another one may take its place while the socket stays."""

    def __init__(self) -> None:
        self.app: ASGIApp = _nobody

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


async def _nobody(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise AssertionError("nothing is served before there is something to serve")


class Http:
    """One server on one socket."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        *,
        drain_s: float,
        max_connections: int = 0,
    ) -> None:
        """`max_connections` of 0 is no bound."""
        self._listener = listener
        config = uvicorn.Config(
            app,
            http=bounded(max_connections),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEPALIVE_S,
            timeout_graceful_shutdown=math.ceil(drain_s),
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    def begin(self) -> "asyncio.Task[None]":
        """Serve from now on, once; the task ends with it."""
        serving = self._serving
        if serving is None:
            serving = self._serving = asyncio.get_running_loop().create_task(self.run())
        return serving

    async def run(self) -> None:
        """Serve until `stop`."""
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Take no new connections; `run` returns when the open ones have ended or their time is up."""
        self._server.should_exit = True

    async def leave(self) -> None:
        """Cut what is served and wait for its end; nothing to do where it has ended."""
        if self._serving is not None and not self._serving.done():
            self.cut()
            await self._serving

    def cut(self) -> None:
        """Wait for nothing any more."""
        self._server.should_exit = self._server.force_exit = True
