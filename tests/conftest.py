"""What every test gets: asyncio as the only event loop."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """redis-py and uvloop know asyncio only."""
    return "asyncio"
