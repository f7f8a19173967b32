"""The typed caller of the script that puts a recorded response into a store. Called by `streams.recording`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from streams.keys import Keys
from streams.scripts.call import Call, Script

RESTORE = Script("restore")


class Restored(NamedTuple):
    """A response is there again, until `expires` (ms of the server's clock); `dup`: it was there already."""

    expires: int
    dup: bool


def restore(
    keys: Keys,
    rid: str,
    *,
    value: bytes,
    digest: str,
    fields: Mapping[str, str | bytes | int],
    retain_ms: int,
) -> Call[Restored]:
    """Both logs, packed, and the state of a response that has ended. Refuses EXISTS."""
    return Call(
        rid,
        RESTORE,
        (keys.state(rid), keys.seal(rid)),
        (value, retain_ms, digest, *(part for field in fields.items() for part in field)),
        _restored,
        size=len(value),
    )


def _restored(reply: Any) -> Restored:
    return Restored(reply[0], bool(reply[1]))
