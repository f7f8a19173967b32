"""Everything here runs on a cluster of three nodes."""

import pytest

from tests.api.conftest import gateway, upstream  # noqa: F401 - fixtures
from tests.streams.conftest import aside, elsewhere, rig  # noqa: F401 - fixtures


@pytest.fixture
def store_url(cluster) -> str:
    return cluster.url
