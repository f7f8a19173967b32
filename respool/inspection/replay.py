"""`respool replay`: a response's input log folded again with the code at hand.

In: a `Recording`. Out: "identical", or the first frame that is another than the stored one, both versions; the machine's
state on the way; or the whole of it at its own pace. Called by `respool.cli`.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from respool.inspection.lanes import Lanes, entry_text
from respool.inspection.screen import Screen, bar, count, size, span
from respool.inspection.showing import found
from respool.settings import Settings
from respool.unusable import Unusable
from streams.recording import OnProgress, Recording, nothing
from streams.scripts.outputs import Frame
from translator.protocol.entries import Entry
from translator.protocol.json import dumps
from translator.refold import Difference, Identical, Turn, compare, refold, state_after

DIFFERENT: Final = 1
TELL_EVERY: Final = 1_000
"""Turns between two looks of the bar."""

WINDOW: Final = 160
"""Bytes shown on either side of the first that differs."""


class Broken(Exception):
    """Today's code does not get through the log."""

    def __init__(self, entry: Entry, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.entry = entry


def turns(recording: Recording, told: OnProgress) -> Iterator[Turn]:
    """The turns of a recording. Raises Broken."""
    total = len(recording.entries)
    done = 0
    folding = refold(recording.rid, recording.entries)
    while True:
        try:
            turn = next(folding, None)
        except Exception as error:
            raise Broken(recording.entries[min(done, total - 1)], error) from error
        if turn is None:
            return
        done += 1
        if not done % TELL_EVERY:
            told(done, total)
        yield turn


@dataclass(frozen=True, slots=True)
class Look:
    """What is wanted in place of the comparison: the state after a frame or an entry, or a play, `pace` times as fast."""

    at: int | None = None
    entry: int | None = None
    pace: float | None = None


COMPARE: Final = Look()


async def replay(screen: Screen, settings: Settings, name: str, look: Look = COMPARE) -> int:
    """Fold it again; 0 where it is identical, DIFFERENT where it is not."""
    recording, _ = await found(settings, name)
    if look.at is not None or look.entry is not None:
        return _state(screen, recording, look)
    began = time.perf_counter()
    try:
        if look.pace is not None:
            await _play(screen, recording, look.pace)
            return 0
        with bar("folding") as told:
            stored = [frame.data for frame in recording.frames]
            result = compare(turns(recording, told), stored, whole=recording.state.done)
    except Broken as broken:
        return _broken(screen, recording, broken)
    took = time.perf_counter() - began
    if isinstance(result, Identical):
        _identical(screen, recording, result, took)
        return 0
    _different(screen, recording, result)
    return DIFFERENT


def _identical(screen: Screen, recording: Recording, result: Identical, took: float) -> None:
    total = sum(len(frame.data) for frame in recording.frames[: result.frames])
    ran = "" if recording.state.done else " (it has not ended)"
    screen.data(
        {
            "id": recording.rid,
            "identical": True,
            "done": recording.state.done,
            "entries": result.entries,
            "frames": result.frames,
            "bytes": total,
            "took_ms": round(took * 1000, 3),
        }
    )
    screen.say(
        f"identical: {count(result.frames, 'frame')} ({size(total)})"
        f" from {count(result.entries, 'entry')}, folded in {span(took * 1000)}{ran}"
    )


def _different(screen: Screen, recording: Recording, found: Difference) -> None:
    screen.data(
        {
            "id": recording.rid,
            "identical": False,
            "seq": found.seq,
            "round": found.round or None,
            "entry": _entry(found.entry),
            "stored": _text(found.stored),
            "refolded": _text(found.refolded),
        }
    )
    what = f"the upstream body of round {found.round}" if found.round else f"frame {found.seq}"
    screen.say(Text(f"different: {what}, at {_place(found.entry)}", "bold red"))
    first = first_difference(found.stored, found.refolded)
    for word, data in (("stored", found.stored), ("refolded", found.refolded)):
        screen.say(Text(f"  {word:<9} {window(data, first)}"))


def _broken(screen: Screen, recording: Recording, broken: Broken) -> int:
    said = {"id": recording.rid, "identical": False, "entry": _entry(broken.entry)}
    screen.data({**said, "error": str(broken)})
    screen.say(Text(f"cannot be folded: {broken}, at {_place(broken.entry)}", "bold red"))
    return DIFFERENT


def _place(entry: Entry) -> str:
    return f"entry {entry.n} ({entry_text(entry)})"


def _entry(entry: Entry) -> dict[str, Any]:
    said = {"n": entry.n, "kind": entry.kind, "t": entry.t, "round": entry.round}
    return {**said, "data": _text(entry.data)}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def first_difference(one: bytes | None, other: bytes | None) -> int:
    """Where two texts part; 0 where there is only one."""
    if one is None or other is None:
        return 0
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def window(data: bytes | None, first: int) -> str:
    """A frame on one line, around the place where it parts from the other one."""
    if data is None:
        return "(none)"
    begin, end = max(0, first - WINDOW), first + WINDOW
    text = repr(data[begin:end].decode("utf-8", "replace"))[1:-1]
    return f"{'…' if begin else ''}{text}{'…' if end < len(data) else ''}"


def _state(screen: Screen, recording: Recording, look: Look) -> int:
    try:
        turn, state = state_after(recording.rid, recording.entries, n=look.entry, seq=look.at)
    except Exception as error:
        if type(error) is LookupError:
            raise Unusable(f"{recording.rid}: {error}") from None
        told = f"{type(error).__name__}: {error}"
        raise Unusable(f"{recording.rid}: the fold breaks before that: {told}") from error
    first, last = turn.first_seq, turn.first_seq + len(turn.frames) - 1
    frames = [first, last] if turn.frames else None
    screen.data({"entry": _entry(turn.entry), "frames": frames, "state": state})
    brought = "no frame" if not turn.frames else f"frame {last}"
    if first < last:
        brought = f"frames {first} to {last}"
    screen.say(Text(f"after {_place(turn.entry)}, which brought {brought}"))
    screen.say(Text(_indented(state)))
    return 0


def _indented(value: Any, depth: int = 1) -> str:
    """Plain JSON as lines that a person reads: short values stay on one."""
    line = dumps(value).decode()
    if len(line) <= 100 or not isinstance(value, dict | list) or not value:
        return line
    pad = "  " * depth
    if isinstance(value, dict):
        rows = [f"{dumps(key).decode()}: {_indented(one, depth + 1)}" for key, one in value.items()]
        return f"{{\n{pad}" + f",\n{pad}".join(rows) + f"\n{pad[2:]}}}"
    rows = [_indented(one, depth + 1) for one in value]
    return f"[\n{pad}" + f",\n{pad}".join(rows) + f"\n{pad[2:]}]"


async def _play(screen: Screen, recording: Recording, pace: float) -> None:
    """Both logs side by side, each entry `1/pace` as long after the first as it was."""
    lanes = Lanes(screen, recording.entries[0].t)
    loop = asyncio.get_running_loop()
    began, first = loop.time(), recording.entries[0].t
    for turn in turns(recording, nothing):
        entry = turn.entry
        due = began + (entry.t - first) / 1000 / pace
        if due > loop.time():
            screen.flush()
            await asyncio.sleep(due - loop.time())
        frames = [Frame(seq, data) for seq, data in enumerate(turn.frames, turn.first_seq)]
        lanes.row(entry.t, entry, frames[0] if frames else None)
        for frame in frames[1:]:
            lanes.row(entry.t, None, frame)
