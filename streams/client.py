"""Connections to Redis, and the only place where redis-py makes them.

In: a URL (`redis://`, `rediss://`, `unix://`, `redis+sentinel://`, `redis+cluster://`, or `memory://` for fakeredis).
Out: `Link`s, each one connection used by one task: the writer, the pipeline of reads, the doorbell and every blocking
read have their own, so that a blocked or a large reply never stands in another's way. Their replies are raw: bytes, ints
and lists (protocol 2).

redis-py's own time-outs and retries are off: a socket time-out would end blocking reads and cost a third of the
throughput, and a retry inside the client repeats writes that nobody checks. Every wait is bounded by whoever waits.
"""

import asyncio
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
)
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    RedisError,
    ResponseError,
)

from streams.faults import StoreAway, StoreFull, StoreLocked
from streams.several import several
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

WATCH_S = 0.5
"""How often it is asked whether the server that we are connected to is still the primary: so long reads may be stale after a
failover that it lived through. A question costs the server some µs."""

PIECE_BYTES = 256 * 1024
"""Of a large command that is written at once: a fraction of a ms."""

READ_LIMIT = 2**20
"""Bytes read from a socket at once: a page of frames in one or two turns of the event loop."""

REDIS_PORT = 6379

TRANSIENT = (
    *("READONLY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "BUSY"),
    *("NOREPLICAS", "MISCONF", "UNKILLABLE"),
)
"""First words of error replies that pass by themselves: a failover or a slot's move under way, a long script, replicas or
a disk that the server waits for before it takes writes."""

DEMOTED = "READONLY"
"""What a replica answers to a write: it may have been the primary when the connection was made."""

FULL = "OOM"
"""The server has reached its `maxmemory` and takes nothing that grows."""

WRAPPED = re.compile(r"^(?:Error running script|@user_script).*?-([A-Z]{2,})\b", re.DOTALL)
"""What a command inside a script met, as Redis before 7 tells it."""

SCHEMES = re.compile(r"^(rediss?|unix|memory|rediss?\+(?:sentinel|cluster))://")

FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
"""Options of a URL that name what must be there."""

_memory: dict[str, Any] = {}
"""The fakeredis servers that have a name (`memory://name`), so that two connections can meet in one."""


def word_of(error: ResponseError) -> str:
    """The first word of an error reply, which redis-py takes off where it knows it."""
    text = str(error)
    wrapped = WRAPPED.match(text)
    return wrapped[1] if wrapped else error.status_code or text.split(" ", 1)[0]


def as_store_error(error: BaseException) -> StoreError:
    """Any error of the client as one of ours. Hosts and values in its text stay behind, in `__cause__`."""
    if isinstance(error, ResponseError):
        word = word_of(error)
        if word == FULL:
            return StoreFull("the store has no memory left")
        kind = StoreAway if word in TRANSIENT else StoreError
        return kind(f"the store refused a command: {word if word.isupper() else 'error'}")
    for one in causes(error):
        if isinstance(one, AuthenticationError | AuthorizationError):
            return StoreLocked("the store does not take our user or password")
        if isinstance(one, ssl.SSLCertVerificationError):
            return StoreLocked("the store shows a certificate that is not to be trusted")
    return StoreAway("the store is away")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class Link:
    """One connection, for one task at a time. It connects when used and reconnects after `drop`."""

    def __init__(self, make: Callable[[], AbstractConnection]) -> None:
        self._make = make
        self._connection: AbstractConnection | None = None

    @property
    def connected(self) -> bool:
        """Whether the connection stands as far as this side knows."""
        return self._connection is not None and self._connection.is_connected

    @property
    def at(self) -> tuple[str, int] | None:
        """Where the connection goes; None where none stands, or it goes to a socket of this machine."""
        connection = self._connection if self.connected else None
        host: str | None = getattr(connection, "host", None)
        return (host, cast("Any", connection).port) if host else None

    async def open(self) -> AbstractConnection:
        """The connection, made where there is none."""
        connection = self._connection
        if connection is None or not connection.is_connected:
            connection = self._connection = self._make()
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
            if self._connection is not connection:  # dropped meanwhile by whoever watches
                await connection.disconnect(nowait=True)
                raise ConnectionResetError("the connection was dropped while it was made")
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

    def __init__(self, client: Redis, *, memory: bool) -> None:
        self.client = client
        """For rare commands and tests; never for blocking ones."""
        self.memory = memory
        """True for fakeredis: one process, nothing durable."""
        self.clustered = False
        """True where `servers` are several, and a key is at one of them."""
        self._links: list[Link] = []

    def link(self, key: str = "") -> Link:
        """A connection of its own for one task, which will use it for this key (or, without one, for any)."""
        del key  # one server has them all
        link = Link(self.make)
        self._links.append(link)
        return link

    def servers(self) -> "Sequence[Connections]":
        """Each server that holds a part of the data: this one."""
        return [self]

    def make(self) -> AbstractConnection:
        """A connection that nobody else has, not yet connected."""
        pool: ConnectionPool = self.client.connection_pool
        return cast("AbstractConnection", pool.make_connection())  # type: ignore[no-untyped-call]

    async def command(self, *command: str | bytes | int) -> Any:
        """A rare command on the pool, bounded in time; its reply is as redis-py shapes it. Trouble comes as StoreError."""
        return await bounded(self.client.execute_command(*command))  # type: ignore[no-untyped-call]

    async def leave(self, *, but: Link | None = None) -> None:
        """Drop all connections: they may lead to a server that is the primary no more. Whoever needs one makes it anew."""
        for link in self._links:
            if link is not but:
                await link.drop()
        await self.client.connection_pool.disconnect()

    async def close(self) -> None:
        """Close everything. Whoever still waits for a reply gets an error."""
        for link in self._links:
            await link.drop()
        await self.client.aclose(close_connection_pool=True)

    async def watch(self) -> None:
        """What has to be looked after while connections are open, until it is cancelled; here there is nothing."""


class Named(Connections):
    """The server that a name or an address leads to, which may be another one from some moment on."""

    async def watch(self) -> None:
        """Leave a server that has become a replica.

        One that lives through its failover keeps its connections, and those that only read hear nothing of it. Nor does
        it tell anything of connections that were made before, when the one that looks is new: they are left, too.
        """
        link, began, led = self.link(), True, False  # led: it has been seen to be the primary
        while True:
            new = not link.connected
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    info = await link.call("INFO", "replication")
            except ResponseError as error:
                if word_of(error) not in TRANSIENT:
                    return  # it may be forbidden: then those hear of it who write
            except (RedisError, OSError, TimeoutError):
                await link.drop()
            else:
                demoted = isinstance(info, bytes) and b"role:slave" in info  # a proxy may differ
                led = (
                    led or not demoted
                )  # else it is a replica that takes writes, by its owner's will
                # In the beginning whoever opened the store looks himself.
                if not began and led and (demoted or new):
                    await self.leave(but=None if demoted else link)
            began = False
            await asyncio.sleep(WATCH_S)


class Sentinels(Connections):
    """The primary that sentinels name; each new connection asks them anew."""

    def __init__(self, client: Redis, manager: Any, service: str) -> None:
        super().__init__(client, memory=False)
        self._manager = manager
        self._service = service

    async def watch(self) -> None:
        """Leave a primary that is none any more.

        One that lives through its failover (a planned one, a partition) is told of it only after many seconds, and
        takes writes till then that nobody will ever see.
        """
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                place = await bounded(self._manager.discover_master(self._service))
            except StoreError:
                continue  # whoever has a connection keeps it; who needs one hears of it
            moved = [link for link in self._links if link.at not in {None, place}]
            for link in moved:
                await link.drop()
            if moved:
                await self.client.connection_pool.disconnect()

    async def close(self) -> None:
        """Close everything, the sentinels' clients too."""
        await super().close()
        for watcher in self._manager.sentinels:
            await watcher.aclose(close_connection_pool=True)


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
        check_files(connections.client.connection_pool.connection_kwargs)
        await connections.command("PING")
    except BaseException:
        await connections.close()
        raise
    return connections


def check_files(given: dict[str, Any]) -> None:
    """Raise StoreError where a certificate is not there: each connection would fail as if the server were away."""
    for name in FILES:
        if (path := given.get(name)) and not os.access(path, os.R_OK):
            raise StoreError(f"what {name} of the store's URL names cannot be read")


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
    return Named(Redis(connection_pool=pool), memory=False)


def sentinel(url: str) -> Connections:
    """The primary that sentinels name (`streams.several` tells the form; the path is `/service[/db]`).

    Each new connection asks them anew, so a failover is one broken connection. With TLS both are spoken to by TLS.
    """
    said = several(url, SENTINEL_PORT)
    if not said.path:
        raise ValueError("a sentinel URL names its service: redis+sentinel://host:26379/service")
    manager: Any = Sentinel(  # type: ignore[no-untyped-call]
        said.places,
        sentinel_kwargs={
            "protocol": 2,
            "socket_timeout": CONNECT_TIMEOUT_S,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "retry": Retry(NoBackoff(), 0),
        }
        | said.watchers,
    )
    service, *db = said.path
    client = manager.master_for(
        service,
        db=int(db[0]) if db else 0,
        ssl=said.tls,
        socket_keepalive=True,
        **options(),
        **said.options,
    )
    return Sentinels(client, manager, service)


def cluster(url: str) -> Connections:
    """A cluster, of which the URL names some nodes (`streams.several` tells the form)."""
    from streams.cluster import Cluster  # noqa: PLC0415 - which is made of the parts of this module

    said = several(url, REDIS_PORT)
    if said.path:
        raise ValueError("a cluster has one database: its URL ends with its hosts")

    def pool(host: str, port: int) -> ConnectionPool:
        return ConnectionPool(
            connection_class=SSLConnection if said.tls else Connection,
            host=host,
            port=port,
            socket_keepalive=True,
            **options(),
            **said.options,
        )

    return Cluster(said.places, pool)


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
    "redis+cluster": cluster,
    "rediss+cluster": cluster,
}
"""How a scheme that is not simply a server's is connected."""
