"""A Redis or Valkey cluster: which node serves which slot, and connections to the right one.

In: the seeds of a `redis+cluster://` URL. Out: a `Cluster`, which is `Connections` whose links go to the node of a key,
and the owner of each slot for `streams.cluster_writer`. The map is asked of any node that answers: at the start, when a
node says MOVED, and after any trouble. It may be stale at any moment; nodes say so themselves, and nothing is lost by it.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, MovedError, RedisError, ResponseError

from streams.client import Connections, Link, bounded
from streams.faults import StoreAway
from translator.protocol.errors import StoreError

REFRESH_EVERY_S: Final = 0.1
"""The map is asked for no more often: a failover brings trouble to hundreds of calls at once."""

KEYLESS: Final = frozenset({"PING", "INFO", "KEYS", "SCRIPT", "CONFIG", "CLUSTER", "PUBSUB"})
"""Rare commands whose second word is no key: each primary is asked."""
LATER: Final = frozenset({"XINFO", "XGROUP"})
"""Commands whose key is the third word."""


class Place(NamedTuple):
    """Where a node listens."""

    host: str
    port: int


def slot_of(key: str | bytes) -> int:
    """The slot of a key or channel."""
    return key_slot(key.encode() if isinstance(key, str) else key)


class Cluster(Connections):
    """Connections to all nodes. `client` is that of the first seed; the others are made when they are needed."""

    def __init__(
        self, seeds: list[tuple[str, int]], make_pool: Callable[[str, int], ConnectionPool]
    ) -> None:
        self._seeds = [Place(*seed) for seed in seeds]
        self._make_pool = make_pool
        first = make_pool(*self._seeds[0])
        super().__init__(Redis(connection_pool=first), memory=False)
        self.clustered = True
        self._nodes: dict[Place, Connections] = {}
        self._owners: list[Place | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._known: frozenset[Place] = frozenset()
        """Every node of the map, replicas too."""
        self._asked_at = 0.0
        """When the map was last asked for, on the loop's clock."""
        self._asking: asyncio.Task[None] | None = None
        """The question that is under way; there is one at a time."""

    # ---- the map --------------------------------------------------------------------------------

    def owner(self, slot: int) -> Place | None:
        """The primary that serves a slot, as far as is known."""
        return self._owners[slot]

    @property
    def primaries(self) -> list[Place]:
        """Every node that serves slots."""
        return sorted({place for place in self._owners if place is not None})

    @property
    def uncovered(self) -> int:
        """Slots that no node serves."""
        return self._owners.count(None)

    def moved(self, error: MovedError, said_by: Place) -> None:
        """A node says where a slot is now: true at once, and the rest of the map is asked for."""
        self._owners[error.slot_id] = target(error, said_by)
        self.stale()

    def stale(self) -> None:
        """The map may be wrong: ask for it, behind the scenes."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._refresh())
            self._asking.add_done_callback(self._asked)

    async def refresh(self) -> None:
        """Ask for the map now. Raises StoreError where no node has one."""
        self.stale()
        if self._asking is not None:
            await asyncio.shield(self._asking)

    def _asked(self, task: "asyncio.Task[None]") -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # whoever waits for the map has it; for the others the old one stands

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._asked_at + REFRESH_EVERY_S - loop.time()))
        self._asked_at = loop.time()
        errors: list[StoreError] = []
        for place in self._askable():
            link = Link(lambda place=place: self.node(place).make())  # type: ignore[misc]  # bound now
            try:
                reply = await bounded(link.call("CLUSTER", "SLOTS"))
            except StoreError as error:
                errors.append(error)
                continue
            finally:
                await link.drop()
            if reply:
                await self._learn(reply, place)
                return
            errors.append(StoreAway("the store is a cluster whose slots nobody serves"))
        raise next((error for error in errors if not isinstance(error, StoreAway)), errors[0])

    def _askable(self) -> list[Place]:
        """Nodes to ask, in any order so that one that hangs is not always the first; then the seeds."""
        known = list(self._known)
        random.shuffle(known)
        return list(dict.fromkeys([*known, *self._seeds]))

    async def _learn(self, reply: Any, said_by: Place) -> None:
        owners: list[Place | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        known: set[Place] = set()
        for first, last, *nodes in reply:
            places = [place_of(node[0], node[1], said_by) for node in nodes]
            owners[first : last + 1] = [places[0]] * (last + 1 - first)
            known.update(places)
        self._owners, self._known = owners, frozenset(known)
        for link in self._links:
            if isinstance(link, ClusterLink) and link.place and link.place not in known:
                await link.drop()  # what a node says that was sent away is nobody's business

    # ---- connections ----------------------------------------------------------------------------

    def node(self, place: Place) -> Connections:
        """The connections to one node."""
        found = self._nodes.get(place)
        if found is None:
            client = Redis(connection_pool=self._make_pool(place.host, place.port))
            found = self._nodes[place] = Connections(client, memory=False)
        return found

    def link(self, key: str = "") -> Link:
        """A connection to whichever node has the key; without one, to any node."""
        link = ClusterLink(self, key)
        self._links.append(link)
        return link

    def servers(self) -> list[Connections]:
        """Each primary."""
        return [self.node(place) for place in self.primaries]

    def place_for(self, key: str) -> Place:
        """Where a link for a key goes. Raises ConnectionError where nobody knows."""
        anybody = list(self._known or self._seeds)
        place = self.owner(slot_of(key)) if key else random.choice(anybody)  # noqa: S311 - any will do
        if place is None:
            self.stale()
            raise ConnectionError("no node of the store serves this slot")
        return place

    async def command(self, *command: str | bytes | int) -> Any:
        """A rare command: to the node of its key, else to each primary (lists are joined, of others the first counts)."""
        if not self._known:
            await self.refresh()
        name = str(command[0]).upper()
        if name not in KEYLESS and len(command) > 1:
            key = command[2 if name in LATER else 1]
            node = self._node_of(key if isinstance(key, bytes) else str(key))
            return await node.command(*command)
        replies = [await server.command(*command) for server in self.servers()]
        if isinstance(replies[0], list):
            return [one for reply in replies for one in reply]
        return replies[0]

    def _node_of(self, key: str | bytes) -> Connections:
        place = self.owner(slot_of(key))
        if place is None:
            self.stale()
            raise StoreAway("no node of the store serves this slot")
        return self.node(place)

    async def close(self) -> None:
        """Close everything."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        for node in self._nodes.values():
            await node.close()
        await super().close()


class ClusterLink(Link):
    """A link that goes where its key is; after a move, or when its node is gone, it connects anew."""

    def __init__(self, cluster: Cluster, key: str) -> None:
        self._cluster = cluster
        self._key = key
        self.place: Place | None = None
        """The node of the present connection, or of the last one."""
        super().__init__(self._connect)

    def _connect(self) -> AbstractConnection:
        self.place = self._cluster.place_for(self._key)
        return self._cluster.node(self.place).make()

    async def open(self) -> AbstractConnection:
        """The connection; a node that is not there makes the map suspicious."""
        try:
            return await super().open()
        except (RedisError, OSError, TimeoutError):
            self._cluster.stale()
            raise

    async def read(self) -> Any:
        """The next reply; one that says that the key is elsewhere is learned from, and raised."""
        try:
            return await super().read()
        except AskError as error:
            if isinstance(error, MovedError) and self.place is not None:
                self._cluster.moved(error, self.place)
            await self.drop()
            raise
        except ResponseError:
            raise
        except (RedisError, OSError):
            self._cluster.stale()
            raise


def target(error: AskError, said_by: Place) -> Place:
    """Where a redirection points to. A node that does not know its own name leaves the host out."""
    return Place(error.host or said_by.host, error.port)


def place_of(host: bytes | None, port: int, said_by: Place) -> Place:
    """A node in CLUSTER SLOTS; one whose name is not known (empty, nil or ?) is where the question went."""
    name = (host or b"").decode()
    return Place(said_by.host if name in {"", "?"} else name, port)
