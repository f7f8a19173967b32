"""What the upstream said to a response that is deleted for it, for those who still wait.

Kept by whoever deletes the response, before it goes; read by who finds it gone (`api.create`). A later run under the same
id is newer than what is kept of this one: so it says of which it is.
"""

from typing import Any, Final, NamedTuple

from streams.keys import Keys
from streams.scripts.call import Call
from translator.protocol.entries import RoundEnd
from translator.protocol.json import dumps, loads

KEPT_MS: Final = 30_000
"""Whoever waits looks twice a second, and at an outage of the store after its 10 s at the latest."""


class Kept(NamedTuple):
    """A refusal, and when the response was created that met it (ms of the server's clock)."""

    created: int
    end: RoundEnd


def keep(keys: Keys, rid: str, *, created: int, end: RoundEnd) -> Call[None]:
    """Keep a refusal for KEPT_MS, in place of an earlier one."""
    data = dumps([created, end])
    where = (keys.refusal(rid), data, "PX", KEPT_MS)
    return Call(rid, None, ("SET",), where, _nothing, size=len(data))


def _nothing(reply: Any) -> None:
    del reply


def kept(keys: Keys, rid: str) -> Call[Kept | None]:
    """The refusal that is kept, if there is one."""
    return Call(rid, None, ("GET", keys.refusal(rid)), (), _kept)


def _kept(reply: Any) -> Kept | None:
    return Kept(*loads(reply)) if reply else None
