"""Connections to upstreams: opened when one is needed, kept for a while when its answer is over.

In: an origin (scheme, host and port). Out: a `Connection` that can be asked. Called by `ingest.upstream`; one per process.
"""

import asyncio
import functools
import socket
import ssl
from collections import Counter
from contextlib import suppress
from typing import Any, Final, NamedTuple

from aiohappyeyeballs import start_connection

from ingest.connection import Connection

CONNECT_TIMEOUT_S: Final = 10.0
"""A model server that cannot be found, takes no connection or does not end its handshake in this time is away; a lost
SYN or two fit in."""

KEEPALIVE_S: Final = 4.0
"""Below the 5 s after which uvicorn (vLLM) and llama.cpp close an idle connection: a request sent
into a closing connection fails, and a POST is not sent again by itself."""

NEXT_ADDRESS_S: Final = 0.25
"""How long the first address of a name is tried before the next one is tried beside it (RFC 8305, section 8)."""


class Origin(NamedTuple):
    """Where an upstream is."""

    tls: bool
    host: str
    port: int


class Pool:
    """Idle connections, by origin."""

    def __init__(self, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Origin, dict[Connection, asyncio.TimerHandle]] = {}
        self._closed = False
        self._turns: Counter[Origin] = Counter()  # connections that each name has had so far
        self._tls: ssl.SSLContext | None = None  # made with the first connection that needs it
        self._lookups: dict[Origin, asyncio.Task[list[Any]]] = {}  # under way

    async def take(self, origin: Origin) -> Connection:
        """The connection that was used last, or a new one. Raises TimeoutError, OSError, ValueError (no such host name)."""
        idle = self._idle.get(origin)
        while idle:
            connection, timer = idle.popitem()
            timer.cancel()
            if connection.reusable:
                return connection
        return await self._open(origin)

    def give_back(self, origin: Origin, connection: Connection) -> None:
        """Keep it for the next request, if there can be one on it."""
        if self._closed or not connection.reusable:
            connection.close()
            return
        timer = self._loop.call_later(KEEPALIVE_S, connection.close)
        self._idle.setdefault(origin, {})[connection] = timer

    def close(self) -> None:
        """Close those that are idle, and keep none any more."""
        self._closed = True
        for idle in self._idle.values():
            for connection in [*idle]:
                connection.close()

    async def _open(self, origin: Origin) -> Connection:
        async with asyncio.timeout(self._connect_timeout_s):
            if origin.tls and self._tls is None:
                self._tls = await asyncio.to_thread(tls)
            sock = await start_connection(
                await self._addresses(origin),
                happy_eyeballs_delay=NEXT_ADDRESS_S,
                interleave=1,
                loop=self._loop,
            )
            try:
                _, connection = await self._loop.create_connection(
                    lambda: Connection(functools.partial(self._lost, origin)),
                    sock=sock,
                    ssl=self._tls if origin.tls else None,
                    server_hostname=origin.host if origin.tls else None,
                )
            except BaseException:
                sock.close()
                raise
        return connection

    async def _addresses(self, origin: Origin) -> list[Any]:
        """What a name stands for, another one first each time: replicas behind one name have their turns.

        A number is its own address, without a thread. A name has one thread at most: a resolver that does not answer must
        not keep others from theirs.
        """
        look = functools.partial(
            socket.getaddrinfo, origin.host, origin.port, type=socket.SOCK_STREAM
        )
        with suppress(socket.gaierror):
            return look(flags=socket.AI_NUMERICHOST)
        lookup = self._lookups.get(origin)
        if lookup is None:
            lookup = self._lookups[origin] = asyncio.create_task(asyncio.to_thread(look))
            lookup.add_done_callback(functools.partial(self._looked_up, origin))
        found = await asyncio.shield(lookup)
        first = self._turns[origin] % len(found)
        self._turns[origin] += 1
        return [*found[first:], *found[:first]]

    def _looked_up(self, origin: Origin, lookup: asyncio.Task[list[Any]]) -> None:
        del self._lookups[origin]
        if not lookup.cancelled():
            lookup.exception()  # told to those who wait; perhaps nobody does any more

    def _lost(self, origin: Origin, connection: Connection) -> None:
        timer = self._idle.get(origin, {}).pop(connection, None)
        if timer is not None:
            timer.cancel()


def tls() -> ssl.SSLContext:
    """How certificates are checked; reading the system's takes some milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
