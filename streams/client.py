"""Connections to Redis, and the only place where redis-py makes them.

In: a URL (`redis://`, `rediss://`, `unix://`, `redis+sentinel://`, or `memory://` for fakeredis). Out: `Link`s, each one
connection used by one task: the writer, the pipeline of reads, the doorbell and every blocking read have their own, so
that a blocked or a large reply never stands in another's way. Their replies are raw: bytes, ints and lists (protocol 2).

redis-py's own time-outs and retries are off: a socket time-out would end blocking reads and cost a third of the
throughput, and a retry inside the client repeats writes that nobody checks. Every wait is bounded by whoever waits.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from streams.faults import StoreAway
from translator.protocol.errors import StoreError

T = TypeVar("T")
Command = Sequence[str | bytes | int]

CONNECT_TIMEOUT_S = 3.0
"""A handshake on any sane network takes milliseconds; past this the server is not there."""

ANSWER_TIMEOUT_S = 10.0
"""One exchange. Longer than an fsync stall or a failover's freeze, shorter than a lease would like."""

MAX_CONNECTIONS = 8
"""Of the pool for rare commands (doctor, start-up); everything else has a link of its own."""

SENTINEL_PORT = 26379
"""Where sentinels listen when nothing is said."""

PIECE_BYTES = 256 * 1024
"""Of a large command that is written at once: a fraction of a ms."""

READ_LIMIT = 2**20
"""Bytes read from a socket at once: a page of frames in one or two turns of the event loop."""

SCHEMES = re.compile(r"^(rediss?|unix|memory|rediss?\+sentinel)://")

_memory: dict[str, Any] = {}
"""The fakeredis servers that have a name (`memory://name`), so that two connections can meet in one."""


def word_of(error: ResponseError) -> str:
    """The first word of an error reply, which redis-py takes off where it knows it."""
    return error.status_code or str(error).split(" ", 1)[0]


def as_store_error(error: BaseException) -> StoreError:
    """Any error of the client as one of ours. Hosts and values in its text stay behind, in `__cause__`."""
    if isinstance(error, ResponseError):
        word = word_of(error)
        return StoreError(f"the store refused a command: {word if word.isupper() else 'error'}")
    return StoreAway("the store is away")


class Link:
    """One connection, for one task at a time. It connects when used and reconnects after `drop`."""

    def __init__(self, make: Callable[[], AbstractConnection]) -> None:
        self._make = make
        self._connection: AbstractConnection | None = None

    @property
    def connected(self) -> bool:
        """Whether the connection stands as far as this side knows."""
        return self._connection is not None and self._connection.is_connected

    async def open(self) -> AbstractConnection:
        """The connection, made where there is none."""
        connection = self._connection
        if connection is None or not connection.is_connected:
            connection = self._connection = self._make()
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
        return connection

    async def send(self, commands: Iterable[Command]) -> None:
        """Write commands in one go, as one pipeline; the caller must `read` as many replies."""
        connection = self._connection
        if connection is None or not connection.is_connected:
            connection = await self.open()
        await connection.send_packed_command([pack(command) for command in commands])

    async def send_large(self, command: Command) -> None:
        """Write one command that is large, a piece a turn of the event loop; the caller must `read` its reply."""
        connection = await self.open()
        for piece in pieces(command):
            if not connection.is_connected:  # redis-py would send the rest over a new one
                raise ConnectionResetError("the connection is closed")
            await connection.send_packed_command([piece])  # type: ignore[list-item]  # any buffer will do
            await asyncio.sleep(0)

    async def read(self) -> Any:
        """The next reply or message, however long it takes; an error reply is raised as ResponseError."""
        connection = self._connection
        if connection is None or not connection.is_connected:
            raise ConnectionResetError("the connection is closed")
        return await connection.read_response()

    async def call(self, *command: str | bytes | int) -> Any:
        """One command and its reply; blocks as long as the command does."""
        await self.send([command])
        return await self.read()

    async def drop(self) -> None:
        """Forget the connection: after any trouble in the middle of a reply it is good for nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)


def pack(command: Command) -> bytes:
    """The wire form of a command."""
    wire: Any = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # a stub for one-tuples
    return cast("bytes", wire)


def pieces(command: Command) -> Iterator[bytes | memoryview]:
    """The wire form of a command, at most PIECE_BYTES at a time of an argument; nothing of it is copied."""
    yield b"*%d\r\n" % len(command)
    for arg in command:
        data = arg if isinstance(arg, bytes) else str(arg).encode()
        yield b"$%d\r\n" % len(data)
        view = memoryview(data)
        yield from (view[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
        yield b"\r\n"


class Connections:
    """All connections of a process to one store."""

    def __init__(self, client: Redis, *, memory: bool, watchers: Sequence[Redis] = ()) -> None:
        self.client = client
        """For rare commands and tests; never for blocking ones."""
        self.memory = memory
        """True for fakeredis: one process, nothing durable."""
        self._watchers = watchers
        """Clients of the sentinels that say where the primary is; closed with the rest."""
        self._links: list[Link] = []

    def link(self) -> Link:
        """A connection of its own for one task."""
        link = Link(self._make)
        self._links.append(link)
        return link

    def servers(self) -> "Sequence[Connections]":
        """Each server that holds a part of the data: this one."""
        return [self]

    def _make(self) -> AbstractConnection:
        pool: ConnectionPool = self.client.connection_pool
        return cast("AbstractConnection", pool.make_connection())  # type: ignore[no-untyped-call]

    async def command(self, *command: str | bytes | int) -> Any:
        """A rare command on the pool, bounded in time; its reply is as redis-py shapes it. Trouble comes as StoreError."""
        return await bounded(self.client.execute_command(*command))  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Close everything. Whoever still waits for a reply gets an error."""
        for link in self._links:
            await link.drop()
        for client in (self.client, *self._watchers):
            await client.aclose(close_connection_pool=True)


async def bounded(work: Awaitable[T]) -> T:
    """Await an exchange, at most ANSWER_TIMEOUT_S; the client's errors become StoreError."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await work
    except (RedisError, OSError, TimeoutError) as error:
        raise as_store_error(error) from error


async def connect(url: str) -> Connections:
    """Connect and see that the server answers; raises StoreError where it does not."""
    if not (scheme := SCHEMES.match(url)):
        raise ValueError(
            "the store's URL must begin with redis://, rediss://, unix:// or memory://"
        )
    make = MAKERS.get(scheme[1], remote)
    connections = make(url)
    try:
        await connections.command("PING")
    except BaseException:
        await connections.close()
        raise
    return connections


def options() -> dict[str, Any]:
    """What every connection to a real server has, and has not."""
    return {
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_read_size": READ_LIMIT,
        "health_check_interval": 0,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "max_connections": MAX_CONNECTIONS,
    }


def remote(url: str) -> Connections:
    """One server, by TCP or a unix socket."""
    keepalive = {} if url.startswith("unix:") else {"socket_keepalive": True}
    pool: ConnectionPool = ConnectionPool.from_url(url, **options(), **keepalive)
    return Connections(Redis(connection_pool=pool), memory=False)


def sentinel(url: str) -> Connections:
    """The primary that sentinels name: `redis+sentinel://[user:password@]host[:port][,host…]/service[/db]`.

    Each new connection asks them anew, so a failover is one broken connection. User and password are those of the
    server; sentinels are asked without.
    """
    parts = urlsplit(url)
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("a sentinel URL names its service: redis+sentinel://host:26379/service")
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    places = [host.partition(":") for host in hosts.split(",")]
    manager: Any = Sentinel(  # type: ignore[no-untyped-call]
        [(host, int(port or SENTINEL_PORT)) for host, _, port in places],
        sentinel_kwargs={
            "protocol": 2,
            "socket_timeout": CONNECT_TIMEOUT_S,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "retry": Retry(NoBackoff(), 0),
        },
    )
    client = manager.master_for(
        service,
        username=unquote(user) or None,
        password=unquote(password) or None,
        db=int(db or 0),
        ssl=parts.scheme.startswith("rediss"),
        socket_keepalive=True,
        **options(),
    )
    return Connections(client, memory=False, watchers=manager.sentinels)


def memory(url: str) -> Connections:
    """A fakeredis (the `memory` extra): one process, nothing durable, a few hundred frames a second."""
    try:
        from fakeredis import FakeServer  # noqa: PLC0415 - an extra
        from fakeredis.aioredis import FakeRedis  # noqa: PLC0415
    except ImportError as error:
        raise StoreError("memory:// needs the extra: pip install 'respool[memory]'") from error
    name = url.removeprefix("memory://").strip("/")
    server = (
        _memory.setdefault(name, FakeServer(version=(7,))) if name else FakeServer(version=(7,))
    )
    client = FakeRedis(server=server, protocol=2, decode_responses=False, socket_timeout=None)
    return Connections(client, memory=True)


MAKERS: dict[str, Callable[[str], Connections]] = {
    "memory": memory,
    "redis+sentinel": sentinel,
    "rediss+sentinel": sentinel,
}
"""How a scheme that is not simply a server's is connected."""
