"""Processes that die while their responses live on a cluster: what the workers' own tests say, on this store."""

import pytest

from tests.workers.conftest import server  # noqa: F401 - a fixture
from tests.workers.test_chaos import (  # noqa: F401 - each test once more
    test_a_translator_that_is_killed_is_taken_over_within_a_lease,
)

pytestmark = pytest.mark.slow
