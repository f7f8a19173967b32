from collections.abc import AsyncIterator

import pytest

from tests.workers.tools import mcp_server, search_server
from workers.tools.session import loaded


@pytest.fixture
async def mcp() -> AsyncIterator[mcp_server.Tools]:
    await loaded()
    async with mcp_server.serving() as tools:
        yield tools


@pytest.fixture
async def engine() -> AsyncIterator[search_server.Engine]:
    async with search_server.searching() as running:
        yield running
