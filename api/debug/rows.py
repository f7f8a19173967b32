"""Entries of an input log as the page lists them: an array each, without their bytes.

In: entries, and how many public frames each brought. Out: rows. What a frame is called and what it says is looked up
here, so that the page need not fetch the bytes of thousands of frames to list them. Called by `api.debug.inspection`.
"""

import re
from typing import Any, Final

import orjson

from translator.protocol.entries import Entry, Kind
from translator.protocol.sse import fields

PREVIEW_CHARS: Final = 120
"""More than a row of the page shows."""
NAME_CHARS: Final = 80
"""An upstream may call its events anything."""
PARSED_BYTES: Final = 16 * 1024
"""A larger frame is listed by the name on its `event:` line alone: a whole response or an image, not a piece of text."""
SURROGATES: Final = re.compile("[\ud800-\udfff]")

Row = list[Any]
"""[number, kind, time in ms, round, attempt, bytes, name, what it says, public frames]"""


def row(entry: Entry, frames: int) -> Row:
    """One entry."""
    name, said = _frame(entry.data) if entry.kind == Kind.FRAME else ("", _said(entry))
    return [
        *(entry.n, entry.kind, entry.t, entry.round, entry.attempt, len(entry.data)),
        *(name[:NAME_CHARS], SURROGATES.sub("\ufffd", said)[:PREVIEW_CHARS], frames),
    ]


def _frame(block: bytes) -> tuple[str, str]:
    """What an upstream's event is called, and the text in it."""
    name, data = fields(block)
    if len(data) > PARSED_BYTES:
        return name or "event", ""
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return name or "event", data[:PREVIEW_CHARS].decode("utf-8", "replace")
    if not isinstance(event, dict):
        return name or "event", ""
    kind = event.get("type") or name or event.get("object")
    return kind if isinstance(kind, str) else "event", _text(event)


def _text(event: dict[str, Any]) -> str:
    """The piece of text, arguments or reasoning in an event of either dialect; else what it is about."""
    for found in (event.get("delta"), event.get("text"), event.get("arguments")):
        if isinstance(found, str):
            return found
    item = event.get("item")
    if isinstance(item, dict):
        return _words(item.get("type"), item.get("name"))
    error = event.get("error")
    if isinstance(error, dict):
        return _words(error.get("message"))
    choices = event.get("choices")
    return _chunk(choices[0]) if isinstance(choices, list) and choices else ""


def _chunk(choice: Any) -> str:
    """What a chunk of Chat Completions says."""
    if not isinstance(choice, dict):
        return ""
    delta = choice.get("delta") or choice.get("message") or {}
    if not isinstance(delta, dict):
        return ""
    calls = delta.get("tool_calls")
    functions = [
        call["function"]
        for call in (calls if isinstance(calls, list) else [])
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
    return _words(
        *(delta.get(key) for key in ("reasoning_content", "reasoning", "content")),
        *(function.get(key) for function in functions for key in ("name", "arguments")),
        choice.get("finish_reason"),
    )


def _words(*found: Any) -> str:
    return " ".join(one for one in found if isinstance(one, str) and one)


def _said(entry: Entry) -> str:
    """What an entry that is no frame says, in a few words."""
    if entry.kind in (Kind.REQUEST, Kind.ROUND) or len(entry.data) > PARSED_BYTES:
        return ""
    try:
        said = orjson.loads(entry.data)
    except orjson.JSONDecodeError:
        return ""
    if not isinstance(said, dict):
        return ""
    error = said.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return _words(said.get("how"), said.get("reason"), said.get("key"), message)
