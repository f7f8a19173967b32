"""What every module of browser tests is marked with."""

import pytest

BROWSER = [
    # One after another, as the slow ones run: a browser is several processes of its own.
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.parametrize("store_url", ["valkey"], indirect=True),
]
