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


ON_EVERY_STORE = {
    "api": ["create", "stream", "retrieve", "cancel", "delete", "unstored", "replicas"],
    "ingest": ["run"],
    "workers": ["translate", "foresight", "sweep"],
}
"""Of folders some of whose modules run on every kind of store: those. The others leave fakeredis out: what they ask of a
store, `tests/streams` asks of each kind."""


def tells_nothing_new(folder: str, module: str, kind: str | None) -> bool:
    """Whether a test on this kind of store is one of those that are left out."""
    chosen = ON_EVERY_STORE.get(folder)
    return kind == "fakeredis" and chosen is not None and module.removeprefix("test_") not in chosen
