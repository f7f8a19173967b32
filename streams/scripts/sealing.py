"""Typed callers of the scripts around packed logs: seal, read_seal. Called by `workers.seal` and `streams.archive`."""

from typing import Any

from streams.faults import SealDamaged
from streams.keys import Keys
from streams.scripts.call import Call, Script

SEAL = Script("seal")
READ = Script("read_seal")


def seal(keys: Keys, rid: str, *, value: bytes, entries: int, frames: int) -> Call[bool]:
    """`value` in place of both logs, of which it holds so many entries and frames; whether it was so already (dup).

    Refuses MISSING, OPEN, UNSTORED, CHANGED.
    """
    return Call(
        rid,
        SEAL,
        (keys.state(rid), keys.input(rid), keys.output(rid), keys.seal(rid)),
        (value, entries, frames),
        bool,
        size=len(value),
    )


def read_seal(keys: Keys, rid: str, *, start: int, size: int) -> Call[bytes]:
    """Bytes of the packed logs, fewer where they end. Refuses MISSING; raises SealDamaged where there are none."""

    def parse(reply: Any) -> bytes:
        if not reply:
            raise SealDamaged("it is not there")
        found: bytes = reply
        return found

    return Call(rid, READ, (keys.state(rid), keys.seal(rid)), (start, start + size - 1), parse)
