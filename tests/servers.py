"""Real servers that a test may hurt: single ones, a primary with its replica and a sentinel, a cluster.

All listen on loopback, are started from one binary (RESPOOL_TEST_SERVER, else what the embedded mode would start) and
end with their block. Whatever is asked of them while they come up is asked with a bound.
"""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from streams.embedded import find_server
from tests.tls import Certificates
from tests.wait import wait_for

BINARY = "RESPOOL_TEST_SERVER"
START_S = 10.0
"""A server that comes up takes some 50 ms; a cluster's nodes need seconds to hear of each other."""
SLOTS = 16384
BUS = 10_000
"""A cluster node's own port lies so far above its clients' one."""
QUIET = ("--save", "", "--loglevel", "warning")


def binary() -> str:
    """The server to start."""
    return os.environ.get(BINARY) or str(find_server())


def free_port(top: int = 65_535) -> int:
    """A port that nobody uses now; below `top`, with its bus port free as well."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if top == 65_535:
            return port
        port = port % (top - 20_000) + 20_000
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", port))
            two.bind(("127.0.0.1", port + BUS))
            return port


@dataclass
class Served:
    """One server and where it listens."""

    folder: Path
    port: int
    options: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    """For this module's own questions: TLS, a password."""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, or start it again on what it left."""
        listening = () if "--tls-port" in self.options else ("--port", str(self.port))
        self.process = subprocess.Popen(
            (binary(), *self.options, *listening, "--dir", str(self.folder)),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )

    def ready(self) -> "Served":
        """Wait until it answers."""
        wait_for(self.answers, START_S)
        return self

    def answers(self) -> bool:
        """Whether it answers a PING."""
        try:
            return bool(self.ask("PING"))
        except redis.RedisError:
            return False

    def ask(self, *command: str | int) -> Any:
        """One command; its reply."""
        with self._client() as client:
            return client.execute_command(*command)

    def info(self, section: str) -> dict[str, Any]:
        with self._client() as client:
            return client.info(section)

    def _client(self) -> redis.Redis:
        once = Retry(NoBackoff(), 0)
        return redis.Redis(
            host="127.0.0.1", port=self.port, decode_responses=True, retry=once, **self.settings
        )

    def followed_by(self, replica: "Served") -> None:
        """Wait until the replica has all that was written so far. (WAIT knows only of its own connection's writes.)"""
        written = self.info("replication")["master_repl_offset"]
        wait_for(lambda: replica.info("replication")["slave_repl_offset"] >= written, START_S)

    def kill(self) -> None:
        """As a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def serving(folder: Path, *options: str, port: int = 0, **settings: Any) -> Iterator[Served]:
    """A server of a test's own, ready."""
    folder.mkdir(exist_ok=True)
    served = Served(folder, port or free_port(), options or QUIET, settings)
    served.start()
    try:
        yield served.ready()
    finally:
        served.kill()


@contextmanager
def secured(
    folder: Path, tls: "Certificates | None", *options: str, port: int = 0, **settings: Any
) -> Iterator[Served]:
    """A server that speaks TLS alone, where there are certificates."""
    port = port or free_port()
    if tls is not None:
        options = (*options, "--port", "0", "--tls-port", str(port), *tls.options)
        settings = settings | tls.settings
    with serving(folder, *options, port=port, **settings) as served:
        yield served


@dataclass
class Watched:
    """A primary, its replica, and a sentinel that watches both."""

    one: Served
    two: Served
    watch: Served

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.watch.port}/main"

    @property
    def primary(self) -> int:
        """The port that the sentinel names."""
        return int(self.watch.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1])

    def fail_over(self) -> None:
        """Have the replica promoted. The old primary lives on, and is told only some 10 s later."""
        before = self.primary
        wait_for(self._may_fail_over, START_S)
        wait_for(lambda: self.primary != before, START_S)

    def _may_fail_over(self) -> bool:
        """Ask for it; no, while the sentinel has not yet looked at the replica."""
        try:
            return bool(self.watch.ask("SENTINEL", "FAILOVER", "main"))
        except redis.ResponseError as error:
            if not str(error).startswith("NOGOODSLAVE"):
                raise
            return False


@contextmanager
def watched(
    folder: Path, down_after_ms: int = 300, password: str = "", tls: Certificates | None = None
) -> Iterator[Watched]:
    """A primary with a replica and a sentinel that knows both; all with a password, or TLS, where one is given."""
    prompt = (*QUIET, "--repl-diskless-sync-delay", "0")
    known: dict[str, Any] = {"password": password} if password else {}
    if password:
        prompt = (*prompt, "--requirepass", password, "--masterauth", password)
    with ExitStack() as stack:

        def start(name: str, *options: str) -> Served:
            return stack.enter_context(secured(folder / name, tls, *options, **known))

        one = start("one", *prompt)
        two = start("two", *prompt, "--replicaof", "127.0.0.1", str(one.port))
        wait_for(lambda: two.info("replication")["master_link_status"] == "up", START_S)
        configuration = folder / "sentinel.conf"
        configuration.write_text(
            f"sentinel monitor main 127.0.0.1 {one.port} 1\n"
            f"sentinel down-after-milliseconds main {down_after_ms}\n"
            "sentinel failover-timeout main 2000\n"
            + (f"sentinel auth-pass main {password}\nrequirepass {password}\n" if password else "")
        )
        watch = start("watch", str(configuration), "--sentinel")
        wait_for(lambda: bool(watch.ask("SENTINEL", "REPLICAS", "main")), START_S)
        yield Watched(one, two, watch)


@dataclass
class Nodes:
    """A cluster: primaries, each with a third of the slots, and as many replicas, or none."""

    primaries: list[Served]
    replicas: list[Served]

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.primaries)
        return f"redis+cluster://{places}"

    def id_of(self, node: Served) -> str:
        return str(node.ask("CLUSTER", "MYID"))

    def owner(self, slot: int) -> Served:
        """The node that serves a slot, as the first primary that lives tells."""
        port = owner_of(next(node for node in self.primaries if node.answers()), slot)
        return next(node for node in (*self.primaries, *self.replicas) if node.port == port)

    def others(self, node: Served) -> list[Served]:
        return [one for one in self.primaries if one is not node]

    def agree(self) -> bool:
        """Whether every node that lives sees all the others, and all slots served."""
        nodes = [node for node in (*self.primaries, *self.replicas) if node.answers()]
        said = [pairs(node.ask("CLUSTER", "INFO")) for node in nodes]
        return all(
            one["cluster_state"] == "ok" and int(one["cluster_known_nodes"]) >= len(nodes)
            for one in said
        )

    def begin_move(self, slot: int, to: Served) -> tuple[Served, Served]:
        """A slot begins to move: from now on its keys may be on either side."""
        source = self.owner(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))
        return source, to

    def move_keys(self, slot: int, source: Served, to: Served, *keys: str) -> None:
        """Move these keys, or all of the slot."""
        moving = keys or source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        if moving:
            source.ask("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *moving)

    def end_move(self, slot: int, source: Served, to: Served) -> None:
        """The slot has its new owner."""
        for node in (to, source, *self.primaries):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(to))


def pairs(text: Any) -> dict[str, str]:
    """The `name:value` lines of CLUSTER INFO, which redis-py has read already where it knows it."""
    return (
        text if isinstance(text, dict) else dict(x.split(":", 1) for x in text.split() if ":" in x)
    )


def owner_of(node: Served, slot: int) -> int:
    """The port of the slot's primary, as this node tells."""
    rows = node.ask("CLUSTER", "SLOTS")
    return next(int(row[2][1]) for row in rows if row[0] <= slot <= row[1])


@contextmanager
def clustered(
    folder: Path,
    *,
    replicas: bool = False,
    timeout_ms: int = 2000,
    tls: Certificates | None = None,
) -> Iterator[Nodes]:
    """A cluster of three primaries, created by commands."""
    options = (
        *(*QUIET, "--cluster-enabled", "yes", "--cluster-node-timeout", str(timeout_ms)),
        *("--repl-diskless-sync-delay", "0"),
    )
    with ExitStack() as stack:
        ports = [free_port(55_000) for _ in range(6 if replicas else 3)]
        nodes = [
            stack.enter_context(secured(folder / f"node{n}", tls, *options, port=port))
            for n, port in enumerate(ports)
        ]
        for n, node in enumerate(nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
        for n, node in enumerate(nodes[:3]):
            first, last = SLOTS * n // 3, SLOTS * (n + 1) // 3
            node.ask("CLUSTER", "ADDSLOTS", *range(first, last))
        for node in nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        made = Nodes(nodes[:3], nodes[3:])
        wait_for(made.agree, START_S)
        for primary, replica in zip(made.primaries, made.replicas, strict=False):
            replica.ask("CLUSTER", "REPLICATE", made.id_of(primary))
            wait_for(
                lambda one=replica: one.info("replication")["master_link_status"] == "up", START_S
            )
        yield made
