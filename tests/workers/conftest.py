from collections.abc import AsyncIterator

import pytest

from tests.ingest.server import Server, serving
from tests.streams.conftest import elsewhere

__all__ = ["elsewhere"]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as running:
        yield running
