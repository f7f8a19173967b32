"""`respool export` and `respool import`: a response as one file, and back into a store.

In: the id of a response, or files. Out: a file that `streams.transcript` describes; or the response, in the store that
the settings name, for as long as that store keeps ended ones. Called by `respool.cli`.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from respool.inspection.evidence import of_file, open_store, shown
from respool.inspection.redacted import changed, redacted
from respool.inspection.screen import Screen, bar, count, moment
from respool.inspection.showing import found
from respool.settings import Settings
from respool.unusable import Unusable
from streams import recording, transcript
from streams.scripts.refused import Reason, Refused
from translator.protocol.errors import LimitPassed


async def export(
    screen: Screen,
    settings: Settings,
    name: str,
    *,
    into: Path | None,
    gzip: bool = False,
    redact: bool = False,
) -> int:
    """Write the file to standard output, or into a file of that name; with `redact` without content."""
    one, _ = await found(settings, name)
    if redact:
        whole, one = one, redacted(one)
        if (seq := changed(whole, one)) is not None:
            sys.stderr.write(f"respool: without content other events come from frame {seq} on\n")
    lines: Iterable[bytes] = transcript.lines_of(one, redacted=redact)
    if gzip:
        lines = [transcript.packed(lines)]
    if into is None:
        for line in lines:
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return 0
    written = write(into, lines)
    said = {"id": one.rid, "file": str(into), "bytes": written}
    screen.data({**said, "entries": len(one.entries), "frames": len(one.frames)})
    screen.say(
        f"{into}: {count(len(one.entries), 'entry')}, {count(len(one.frames), 'frame')} of {one.rid}"
    )
    return 0


def write(into: Path, lines: Iterable[bytes]) -> int:
    """Write a file that is whole under its name or not there; its bytes. Raises Unusable."""
    beside = into.with_name(f".{into.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.writelines(lines)
        beside.replace(into)
        return into.stat().st_size
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Unusable(f"{into}: {(error.strerror or 'cannot be written').lower()}") from None


async def import_(
    screen: Screen, settings: Settings, names: list[str], *, tenant: str | None
) -> int:
    """Put the responses of files into the store; nothing of one whose file is not whole."""
    recordings = [(name, of_file(name)) for name in names]
    async with open_store(settings, make=True) as store:
        for name, one in recordings:
            with bar("packing") as told:
                try:
                    done = await recording.write(
                        store,
                        one,
                        retain_ms=int(settings.retention_s * 1000),
                        tenant=tenant,
                        on_progress=told,
                    )
                except (recording.StillRuns, LimitPassed) as error:
                    raise Unusable(f"{shown(name)}: {error.message}") from None
                except Refused as error:
                    if error.reason is not Reason.EXISTS:
                        raise
                    raise Unusable(
                        f"{shown(name)}: the store has another response {one.rid}"
                    ) from None
            said = {"id": one.rid, "file": name, "tenant": tenant or one.state.tenant}
            screen.data({**said, "expires": done.expires, "was_there": done.dup})
            word = "is there already" if done.dup else "imported"
            screen.say(f"{one.rid} {word}, kept until {moment(done.expires)} UTC")
    return 0
