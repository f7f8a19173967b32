"""The kinds of stores that tests run on, and where one of each kind is."""

import itertools
import os
from typing import Any

GIVEN = "RESPOOL_TEST_REDIS_URL"
STORES = ["fakeredis", "valkey", *(["given"] if os.environ.get(GIVEN) else [])]
RUN = f"t{os.getpid():x}"
_numbers = itertools.count()


def url_of(kind: str, request: Any) -> str:
    """A store of that kind: a fresh one, the one that the tests' session has started, or the given one."""
    if kind == "fakeredis":
        return f"memory://{RUN}-{next(_numbers)}"
    if kind == "given":
        return os.environ[GIVEN]
    found: str = request.getfixturevalue("valkey_url")
    return found
