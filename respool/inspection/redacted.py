"""A recording without what people and models wrote, that still folds: for `respool export --redact`.

In: a `Recording`. Out: one with the same entries at the same times, and the frames that their fold gives. Letters become
x and X, digits 0, everything outside ASCII x; blanks and punctuation stay, so lengths and shapes can still be seen.
Arguments of calls stay JSON with their names. What stays as it is: types, ids, names of tools and models, numbers, roles,
states and codes (KEPT). Grammars, log probabilities, images and opaque reasoning go.
"""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Final

from respool.inspection.account import payload
from respool.unusable import Unusable
from streams.recording import Recording
from streams.scripts.outputs import Frame
from translator.protocol.entries import Entry, Kind
from translator.protocol.json import dumps, loads
from translator.protocol.sse import fields
from translator.refold import Difference, compare, refold
from translator.step import NextRound

KEPT: Final = frozenset(
    {
        *(
            "type",
            "id",
            "object",
            "role",
            "status",
            "name",
            "call_id",
            "item_id",
            "namespace",
            "model",
        ),
        *(
            "server_label",
            "tool_choice",
            "include",
            "truncation",
            "effort",
            "service_tier",
            "phase",
        ),
        *(
            "previous_response_id",
            "approval_request_id",
            "finish_reason",
            "code",
            "reason",
            "detail",
        ),
        *("require_approval", "allowed_tools", "search_context_size", "verbosity", "key", "tool"),
        *("kind", "how", "api", "custom_formats", "reasoning_history", "event"),
        *("upstream", "limits", "tenant", "retry_after", "stream_options"),
    }
)
"""Fields whose values say what something is, never what it says."""

GONE: Final[dict[str, Any]] = {
    "logprobs": [],
    "top_logprobs": [],
    "bytes": None,
    "encrypted_content": None,
    "images": None,
    "image_url": "data:,",
    "partial_image_b64": "",
}
"""Fields that hold content in a form that cannot be blanked, and what stands in their place."""

SCHEMAS: Final = frozenset({"parameters", "input_schema", "schema"})
SCHEMA_KEPT: Final = frozenset({"type", "format", "required", "$ref"})
WORDS: Final = ("true", "false", "null")

JSON_TEXTS: Final = frozenset({"arguments"})
"""Fields that hold JSON as text."""

FOREIGN: Final = frozenset({"metadata", "results"})
"""Fields whose inner names are not the API's: nothing in there is known to be no content."""

WORD: Final = re.compile(r"[\w.:/@-]{0,160}", re.ASCII)
"""What a kept field may say: a word. A text in its place is blanked as any other."""

ASCII: Final = {
    **{ord(c): "x" for c in "abcdefghijklmnopqrstuvwxyz"},
    **{ord(c): "X" for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
    **{ord(c): "0" for c in "0123456789"},
}
OTHERS: Final = re.compile(r"[^\x00-\x7f]")


def blank(text: str) -> str:
    """A text of the same length that says nothing. Pieces give what the whole gives."""
    return OTHERS.sub("x", text.translate(ASCII))


class JsonText:
    """Blanks JSON that comes in pieces: the values, not the names. What is no JSON is blanked as any text."""

    def __init__(self) -> None:
        self._open: list[str] = []  # brackets that are not closed
        self._name_next = False  # the next string is a name
        self._string = ""  # "name" or "value" inside a string
        self._escape = 0  # characters of an escape that are still to come, the letter after the backslash among them

        self._hex = False  # whether they are the digits of a code point
        self._run = ""  # the number or the word outside a string that goes on

    def feed(self, piece: str) -> str:
        """The next piece, blanked."""
        return "".join(map(self._next, piece))

    def _next(self, c: str) -> str:
        if self._string:
            return self._inside(c)
        if self._open and c.isalnum():
            return self._outside(c)
        self._run = ""
        if c == '"':
            self._string = "name" if self._name_next else "value"
        elif c in "{[":
            self._open.append(c)
            self._name_next = c == "{"
        elif not self._open:
            return blank(c)
        elif c in "}]":
            self._open.pop()
            self._name_next = False
        elif c in ",:":
            self._name_next = c == "," and self._open[-1] == "{"
        return c

    def _outside(self, c: str) -> str:
        """A character of a number, of true, false or null, or of what is none of them."""
        self._run += c
        if c in "0123456789":
            return "0" if c == "0" else "1"  # a number must not begin with more than one 0
        if c in "eE" and self._run[:-1].isdigit():
            return c
        return c if any(word.startswith(self._run) for word in WORDS) else "x"

    def _inside(self, c: str) -> str:
        if self._escape > 1 or (self._escape == 1 and self._hex):
            self._escape -= 1
            return "0078"[3 - self._escape] if self._string == "value" else c
        if self._escape == 1:
            self._escape = 4 if c == "u" else 0
            self._hex = c == "u"
            return c
        if c == "\\":
            self._escape, self._hex = 1, False
        elif c == '"':
            self._string, self._name_next = "", False
        elif self._string == "value":
            return blank(c)
        return c


class Blanking:
    """One attempt of a round, or anything that has no pieces: remembers where each call's arguments are."""

    def __init__(self) -> None:
        self._texts: dict[Any, JsonText] = {}

    def value(self, value: Any, key: str = "") -> Any:
        """A value of a request, a body, an event, a result."""
        if key in GONE and value:
            return GONE[key]
        if isinstance(value, str):
            return _text(value, key)
        if key in KEPT:
            return value
        if key in FOREIGN:
            return _all(value)
        if isinstance(value, dict):
            return self._object(value, key)
        return [self.value(one, key) for one in value] if isinstance(value, list) else value

    def _object(self, value: dict[str, Any], key: str) -> dict[str, Any]:
        if key in SCHEMAS:
            return {name: _schema(one, name) for name, one in value.items()}
        if key == "format" and value.get("type") == "grammar":
            return {"type": "text"}
        return {name: self.value(one, name) for name, one in value.items()}

    def event(self, event: dict[str, Any]) -> dict[str, Any]:
        """An event of an upstream, in either dialect."""
        kind = str(event.get("type"))
        if kind.endswith("arguments.delta") and isinstance(event.get("delta"), str):
            place = event.get("item_id") or event.get("output_index")
            return {
                name: self._piece(place, one) if name == "delta" else self.value(one, name)
                for name, one in event.items()
            }
        found = self._object(event, "")
        for choice, was in zip(found.get("choices") or (), event.get("choices") or (), strict=True):
            for index, call in enumerate(_calls(was)):
                function = call.get("function") or {}
                if isinstance(function.get("arguments"), str):
                    place = (was.get("index"), call.get("index", index))
                    piece = self._piece(place, function["arguments"])
                    _calls(choice)[index]["function"]["arguments"] = piece
        return found

    def _piece(self, place: Any, text: str) -> str:
        return self._texts.setdefault(place, JsonText()).feed(text)


def _calls(choice: Any) -> list[dict[str, Any]]:
    """The pieces of calls in a chunk's choice."""
    delta = choice.get("delta") if isinstance(choice, dict) else None
    calls = delta.get("tool_calls") if isinstance(delta, dict) else None
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _text(text: str, key: str) -> str:
    if key in KEPT and WORD.fullmatch(text):
        return text
    return JsonText().feed(text) if key in JSON_TEXTS else blank(text)


def _all(value: Any) -> Any:
    """A value with every text in it blanked."""
    if isinstance(value, dict):
        return {name: _all(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_all(one) for one in value]
    return blank(value) if isinstance(value, str) else value


def _schema(value: Any, key: str = "") -> Any:
    """A JSON schema: its names and types stay, what it says goes."""
    if key in SCHEMA_KEPT and not isinstance(value, dict):
        return value
    if isinstance(value, dict):
        return {name: _schema(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_schema(one, key) for one in value]
    return blank(value) if isinstance(value, str) else value


def redacted(recording: Recording) -> Recording:
    """The recording without content. Raises Unusable where its replay is not identical: that would be hidden."""
    stored = [frame.data for frame in recording.frames]
    whole = recording.state.done
    result = compare(refold(recording.rid, recording.entries), stored, whole=whole)
    if isinstance(result, Difference):
        raise Unusable(
            f"{recording.rid} does not replay identically (frame {result.seq}): without its content that could not be seen"
        )
    entries: list[Entry] = []
    frames: list[Frame] = []
    for entry, brought in _folded(recording.rid, _blanked(recording.entries)):
        entries.append(entry)
        frames += [Frame(seq, data) for seq, data in enumerate(brought, len(frames))]
    if whole:
        frames[-1] = frames[-1]._replace(terminal=True)
    else:
        frames = frames[: len(stored)]
    refusal = recording.state.refusal
    state = dataclasses.replace(recording.state, refusal=_data(refusal) if refusal else b"")
    return dataclasses.replace(recording, state=state, entries=entries, frames=frames)


def changed(before: Recording, after: Recording) -> int | None:
    """The first frame that is of another type than before; None where all are alike."""
    kinds = [[payload(f.data).get("type") for f in one.frames] for one in (before, after)]
    if kinds[0] == kinds[1]:
        return None
    pairs = zip(*kinds, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(map(len, kinds)))


def _folded(rid: str, entries: Iterator[Entry]) -> Iterator[tuple[Entry, list[bytes]]]:
    """The entries with what they bring; the bodies of later rounds are those that the fold gives."""
    bodies: dict[int, bytes] = {}

    def told() -> Iterator[Entry]:
        for entry in entries:
            if entry.kind == Kind.ROUND and entry.round in bodies:
                yield entry._replace(data=bodies[entry.round])
            else:
                yield entry

    for turn in refold(rid, told()):
        for command in turn.commands:
            if isinstance(command, NextRound):
                bodies[command.number] = command.body
        yield turn.entry, turn.frames


def _blanked(entries: list[Entry]) -> Iterator[Entry]:
    attempt = Blanking()
    for entry in entries:
        if entry.kind == Kind.ATTEMPT:
            attempt = Blanking()
        if entry.kind == Kind.FRAME:
            yield entry._replace(data=_block(attempt, entry.data))
        else:
            yield entry._replace(data=_data(entry.data))


def _data(data: bytes) -> bytes:
    """The data of any other entry: one JSON object."""
    return dumps(Blanking().value(loads(data)))


def _block(attempt: Blanking, block: bytes) -> bytes:
    """An upstream block, as an SSE event or as the JSON that it is."""
    name, raw = fields(block)
    try:
        event = loads(raw)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        said = raw if raw.strip() == b"[DONE]" else blank(raw.decode("utf-8", "replace")).encode()
        return b"data: " + said
    data = dumps(attempt.event(event))
    if block.lstrip()[:1] == b"{":
        return data
    return (b"event: %b\n" % name.encode() if name else b"") + b"data: " + data
