"""Fixtures of the store's own tests: a response at hand, and a second process's store on the same data."""

import secrets
from collections.abc import AsyncIterator

import pytest

from streams.store import Store
from tests.streams.rig import Rig


@pytest.fixture
def rig(store) -> Rig:
    """A response that is not yet created."""
    return Rig(store)


@pytest.fixture
async def elsewhere(store_url, namespace) -> AsyncIterator[Store]:
    """The same data as another process sees them: nothing is handed over between the two."""
    async with Store.open(store_url, namespace) as opened:
        yield opened


@pytest.fixture
def aside() -> str:
    """A namespace for a test that brings its own server's URL, so runs once whatever the stores."""
    return f"aside-{secrets.token_hex(4)}"
