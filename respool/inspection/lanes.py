"""Both logs side by side: what happened on the left, what the client was shown of it on the right.

In: entries and frames. Out: a line for each, or for a frame beside the entry that brought it. Called by
`respool.inspection.tailing` and `respool.inspection.replay`.
"""

from typing import Any, Final

from rich.text import Text

from respool.inspection.account import payload, said
from respool.inspection.reason import HOW
from respool.inspection.screen import Screen, short, size
from streams.scripts.outputs import Frame
from translator.protocol.entries import Entry, Kind
from translator.protocol.json import loads

LANE: Final = 60
"""Columns of the left lane; two of them and the time fit on a wide terminal."""

NARROWEST: Final = 26
BESIDE: Final = 18
"""Columns of the clock and of the frame's number."""

PREVIEW: Final = 24
"""Characters of a delta that are shown: one is recognised by less."""

TOLD: Final[dict[str, str]] = {
    Kind.ROUND_END: "how",
    Kind.TOOL_RESULT: "key",
    Kind.TOOLS_LISTED: "key",
    Kind.CANCEL: "reason",
}
"""The field of an entry that says most."""

IN_STYLE: Final = "cyan"
OUT_STYLE: Final = "green"


class Lanes:
    """Prints rows as they come. `began` is the time in ms that the clock on the left counts from."""

    def __init__(self, screen: Screen, began: int) -> None:
        self._screen = screen
        self._began = began
        width = screen.width
        self._lane = LANE if width is None else min(LANE, max(NARROWEST, (width - BESIDE) // 2))

    def row(self, t: int | None, entry: Entry | None, frame: Frame | None) -> None:
        """An entry, a frame, or a frame beside the entry that brought it."""
        if self._screen.as_json:
            self._json(t, entry, frame)
            return
        clock = f"+{(t - self._began) / 1000:.3f}" if t is not None else ""
        left = f"{entry.n:>6}  {entry_text(entry)}" if entry is not None else ""
        line = Text.assemble((f"{clock:>9} ", "dim"))
        line.append(filled(left, self._lane), IN_STYLE)
        if frame is not None:
            line.append(f" {frame.seq:>6}  {frame_text(frame)}", OUT_STYLE)
        width = self._screen.width
        if width is not None:
            line.truncate(width, overflow="ellipsis")
        self._screen.say(line)

    def _json(self, t: int | None, entry: Entry | None, frame: Frame | None) -> None:
        if entry is not None:
            said = {"n": entry.n, "t": entry.t, "kind": entry.kind, "round": entry.round}
            text = entry.data.decode("utf-8", "replace")
            self._screen.data({"in": {**said, "attempt": entry.attempt, "data": text}})
        if frame is not None:
            text = frame.data.decode("utf-8", "replace")
            self._screen.data({"out": {"seq": frame.seq, "t": t, "frame": text}})


def filled(text: str, width: int) -> str:
    """A lane, filled or cut to its width."""
    return f"{text[: width - 1]}…" if len(text) > width else f"{text:<{width}}"


def entry_text(entry: Entry) -> str:
    """What an entry says, in a few words."""
    if entry.kind == Kind.FRAME:
        return f"frame {event_text(said(entry.data), entry.data)}"
    if entry.kind == Kind.ROUND:
        return f"round {entry.round}, a body of {size(len(entry.data))}"
    if entry.kind == Kind.ATTEMPT:
        return f"attempt {entry.attempt} of round {entry.round}"
    if entry.kind in TOLD:
        about = loads(entry.data)
        told = about.get(TOLD[entry.kind])
        return f"{entry.kind} {told}{': ' + HOW[told] if told in HOW else ''}"
    return f"{entry.kind}, {size(len(entry.data))}"


def frame_text(frame: Frame) -> str:
    """What a public frame says, in a few words."""
    return event_text(payload(frame.data), frame.data)


def event_text(event: dict[str, Any], raw: bytes) -> str:
    """An event of either dialect: its type, and what tells it from its neighbours."""
    kind = event.get("type")
    if not isinstance(kind, str):
        return _chunk_text(event, raw)
    name = kind.removeprefix("response.")
    if isinstance(event.get("delta"), str):
        return f"{name} {short(repr(event['delta']), PREVIEW)}"
    item = event.get("item")
    if isinstance(item, dict):
        return f"{name} {item.get('type')} {item.get('name') or ''}".rstrip()
    return name


def _chunk_text(chunk: dict[str, Any], raw: bytes) -> str:
    """A chunk of a Chat Completions stream."""
    if b"[DONE]" in raw:
        return "[DONE]"
    for choice in chunk.get("choices") or ():
        if not isinstance(choice, dict):
            continue
        if choice.get("finish_reason"):
            return f"chunk finish_reason {choice['finish_reason']}"
        delta = choice.get("delta") or {}
        told = [f"{key} {short(repr(delta[key]), PREVIEW)}" for key in delta if delta[key]]
        return " ".join(["chunk", *told])
    return f"{'chunk' if 'choices' in chunk else 'block'} of {size(len(raw))}"
