"""What every module of browser tests is marked with."""

import pytest

BROWSER = [
    pytest.mark.slow,  # a browser is several processes of its own
    pytest.mark.timeout(120),
    pytest.mark.parametrize("store_url", ["valkey"], indirect=True),
]
