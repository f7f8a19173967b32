"""The Responses dialect: one block of the upstream → the events in it.

In: a block of the input log. Out: event objects with a `type`. A block that is a whole JSON body (the upstream answered
without a stream) becomes the events that a stream would have had. Called by the machine, first of all
(upstream-quirks.md sections 2 and 3). `body_of` reads a block of either dialect.
"""

import json
import math
from typing import Any, Final

import orjson

from translator.protocol.errors import ProtocolFault
from translator.protocol.json import MAX_DEPTH, refuse_deep
from translator.protocol.sse import fields

Event = dict[str, Any]

END_OF_STREAM: Final[Event] = {"type": "[DONE]"}
MAX_MARKER_BYTES: Final = 64
"""`[DONE]` with any blanks that an upstream puts around it; larger data is not compared with it."""

TEXTS: Final = frozenset({"delta", "choices"})
"""Fields that are taken apart into texts, whose halves of surrogate pairs are joined later."""

MAX_INT_DIGITS: Final = 20
"""Digits and sign of a 64-bit integer."""

_ENDS: Final = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
}


class ResponsesDialect:
    """Reads one attempt at a round; it has nothing to remember between blocks."""

    def events(self, block: bytes) -> list[Event]:
        """The events of one block; none for data that is no event. Raises ProtocolFault for broken JSON.

        `[DONE]` says nothing here: a Responses stream ends with its terminal event.
        """
        name, body = body_of(block)
        if body is END_OF_STREAM or not isinstance(body, dict):
            return []
        kind = body.get("type")
        typed = kind and isinstance(kind, str) and body.get("object") != "error"
        return [body] if typed else _typeless(body, name)

    def end(self) -> list[Event]:
        """What the end of the body says: nothing."""
        return []

    @property
    def usage(self) -> None:
        """Nothing: usage comes with the terminal event."""


def body_of(block: bytes) -> tuple[str | None, Any]:
    """The event line and the JSON value of a block, END_OF_STREAM for `[DONE]`. Raises ProtocolFault for broken JSON."""
    name, data = fields(block)
    if not data.strip():
        return name, None  # an event without data is none
    if len(data) < MAX_MARKER_BYTES and data.strip() == b"[DONE]":
        return name, END_OF_STREAM
    return name, _loads(data)


def _typeless(body: Event, name: str | None) -> list[Event]:
    """An object that does not say its type: an error, what the event line says, or a whole Response.

    A Response that failed is whole all the same: what it has of output stands before its error.
    """
    if body.get("object") == "error":  # vLLM's and SGLang's own, whose type says which error it is
        return [{"type": "error", "error": body.get("error") or body}]
    whole = body.get("object") == "response" or isinstance(body.get("output"), list)
    told = bool(name) and name != "message"
    if isinstance(body.get("error"), (dict, str)) and (told or not whole):
        return [{"type": "error", "error": body["error"]}]
    if told:
        return [{**body, "type": name}]
    return _whole(body) if whole else []


def _whole(response: Event) -> list[Event]:
    """A Response that came in one piece, as events: each item done, then the end."""
    output = response.get("output")
    found: list[Event] = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(output if isinstance(output, list) else [])
    ]
    status = response.get("status")
    if not status and found and not response.get("error"):  # not said; but what came is there
        status = "incomplete" if response.get("incomplete_details") else "completed"
    return [*found, {"type": _ENDS.get(str(status), "response.failed"), "response": response}]


def _loads(data: bytes) -> Any:
    """Read JSON, lone surrogates kept: the halves of a pair may come in two deltas (contract.md D16)."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _loads_slowly(data)
    if len(data) > 2 * MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _refuse_deep(value)
    return value


def _refuse_deep(value: Any) -> None:
    """What is shown again inside an event of ours must not be nested past what can be written."""
    if isinstance(value, dict):
        value = {key: inner for key, inner in value.items() if key not in TEXTS}
    try:
        refuse_deep(value)
    except ValueError as error:
        raise ProtocolFault("The upstream sent JSON that is nested too deeply.") from error


def _loads_slowly(data: bytes) -> Any:
    try:
        text = data.decode("utf-8", "replace")
        value = json.loads(text, parse_constant=_refuse, parse_int=_int, parse_float=_float)
        if isinstance(value, dict):
            return {k: inner if k in TEXTS else mended(inner) for k, inner in value.items()}
    except (ValueError, RecursionError) as error:
        raise ProtocolFault("The upstream sent an event that is not JSON.") from error
    return value


def showable(value: Any) -> Any:
    """A value from inside `choices` that is to be shown as it is. Raises ProtocolFault for one nested too deeply."""
    value = mended(value)
    _refuse_deep([value])
    return value


def _int(digits: str) -> int | float:
    """As orjson reads integers: those past 64 bits become floats, which can be written again."""
    value = int(digits) if len(digits) <= MAX_INT_DIGITS else float(digits)
    return value if -(2**63) <= value < 2**64 else _float(digits)


def _float(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits)


def _refuse(_: str) -> Any:
    raise ValueError("NaN and Infinity are not JSON")


def mended(value: Any) -> Any:
    """A value without lone surrogates: each becomes U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [mended(inner) for inner in value]
    if isinstance(value, dict):
        return {mended(key): mended(inner) for key, inner in value.items()}
    return value
