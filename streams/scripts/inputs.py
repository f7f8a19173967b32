"""Reading input logs: the script read_input, and the plain command where nothing but entries is wanted.

Called by `streams.logs`.
"""

from typing import Any, NamedTuple

from streams.keys import Keys
from streams.scripts.call import Call, Script
from streams.scripts.entry import entry_of
from translator.protocol.entries import Entry

READ = Script("read_input")


class InputPage(NamedTuple):
    """Entries after a number; where there are none, whether that is because the logs are packed."""

    entries: list[Entry]
    sealed: bool


def read_input(keys: Keys, rid: str, *, after: int, count: int, most_bytes: int) -> Call[InputPage]:
    """Entries after number `after`, as many as fit into `most_bytes` (0: no bound). Empty where the response is gone."""
    where = (keys.state(rid), keys.input(rid))
    return Call(rid, READ, where, (after, count, most_bytes), _page)


def _page(reply: Any) -> InputPage:
    sealed, entries = reply
    return InputPage(_entries(entries), sealed == 1)


def follow_input(keys: Keys, rid: str, *, after: int, count: int) -> Call[list[Entry]]:
    """Entries after number `after` of a log that is there; at a fifth of the server's time that the script takes."""
    where = (f"{after + 1}-1", "+", "COUNT", count)
    return Call(rid, None, ("XRANGE", keys.input(rid)), where, _entries)


def _entries(reply: Any) -> list[Entry]:
    return [entry_of(raw) for raw in reply]
