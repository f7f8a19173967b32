from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from streams.store import Store
from tests.api.gateway import Gateway, running
from tests.ingest.server import Server, serving

HERE = Path(__file__).parent


@pytest.fixture
async def upstream() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
async def gateway(store: Store, upstream: Server) -> AsyncIterator[Gateway]:
    async with running(store, upstream) as made:
        yield made


ON_EVERY_STORE = frozenset(
    f"test_{name}"
    for name in ("create", "stream", "retrieve", "cancel", "delete", "unstored", "replicas")
)
"""Modules here that run on every kind of store. The others leave fakeredis out: what they ask of a store, `tests/streams`
asks of each kind."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what would tell nothing new."""
    items[:] = [item for item in items if not _tells_nothing_new(item)]


def _tells_nothing_new(item: pytest.Item) -> bool:
    if item.path.parent != HERE or item.path.stem in ON_EVERY_STORE:
        return False
    called = getattr(item, "callspec", None)
    return called is not None and called.params.get("store_url") == "fakeredis"
