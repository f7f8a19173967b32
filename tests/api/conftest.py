from collections.abc import AsyncIterator

import pytest

from streams.store import Store
from tests.api.gateway import Gateway, running
from tests.ingest.server import Server, serving
from tests.streams.conftest import aside  # noqa: F401 - a fixture


@pytest.fixture
async def upstream() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
async def gateway(store: Store, upstream: Server) -> AsyncIterator[Gateway]:
    async with running(store, upstream) as made:
        yield made
