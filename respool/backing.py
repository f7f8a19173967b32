"""The store of a process: the one that is named, else an embedded one, else memory.

In: the settings and the working folder. Out: an open `Store`, checked: a store that may evict keys
is refused, because an evicted log is a stream with a hole. Called by `respool.serve`.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from respool.facts import SAFE_POLICY, facts_of
from respool.roles import Role
from respool.settings import Settings
from respool.unusable import Unusable
from streams import embedded
from streams.faults import StoreAway
from streams.store import Store

log = logging.getLogger(__name__)

FOLDER = Path(".respool")
"""The embedded store's, in the working folder: processes that share it share the store."""
MEMORY = "memory://"
WORKING = frozenset({Role.API, Role.INGEST, Role.TRANSLATE})
NO_STORE = (
    "no store: set RESPOOL_REDIS_URL, or install the embedded one (pip install 'respool[embedded]')"
)

CLUSTERED = "the store is a node of a cluster: name it as redis+cluster://host:port,host:port"

REPLICA = "the store is a replica, which takes no writes"


@asynccontextmanager
async def address_of(settings: Settings) -> AsyncIterator[str]:
    """The URL of the store, which stays up inside; an embedded one is started or joined."""
    if settings.store:
        yield settings.store
    elif embedded.find_server():
        async with embedded.serve(FOLDER) as url:
            yield url
    elif find_spec("fakeredis"):
        yield MEMORY
    else:
        raise Unusable(NO_STORE)


@asynccontextmanager
async def store_of(settings: Settings, roles: frozenset[Role]) -> AsyncIterator[Store]:
    """The store, open and fit for use. Raises Unusable."""
    async with address_of(settings) as url:
        if url.startswith(MEMORY):
            _warn_of_memory(roles)
        async with Store.open(url, settings.namespace) as store:
            await _check(store, settings)
            yield store


def _warn_of_memory(roles: frozenset[Role]) -> None:
    if not roles >= WORKING:
        raise Unusable("memory:// is one process: it needs all roles, or a real store")
    log.warning(
        "the store is memory://: one process, nothing survives its end, a few hundred frames a second"
    )


async def _check(store: Store, settings: Settings) -> None:
    facts = await facts_of(store.connections)
    if facts.clustered and not store.connections.clustered:
        raise Unusable(CLUSTERED)
    if facts.replica:  # in a failover for a moment, else by a wrong address
        raise StoreAway(REPLICA)
    policy = facts.policy
    if policy is None:
        if not store.connections.memory:
            log.warning("the store does not tell its eviction policy; it must be %s", SAFE_POLICY)
    elif policy != SAFE_POLICY and not settings.allow_eviction:
        raise Unusable(
            f"the store may evict keys (maxmemory-policy {policy}): streams would lose their middle."
            f" Set it to {SAFE_POLICY}, or RESPOOL_ALLOW_EVICTION=true"
        )
