"""What tool workers have written into the input log, read with care: entry data in, whole results out.

Called by the machine. The workers are ours, but what they pass on is a stranger's: whatever a field holds, the fold goes on.
"""

from typing import Any, Final, NamedTuple

import orjson


class Key(NamedTuple):
    """Whose result it is: a call's `<round>.<slot>`, or `list.<index>` (round is then LIST)."""

    round: int
    place: int


LIST: Final = -1

UNSAID: Final = {
    "type": "mcp_protocol_error",
    "code": -32603,
    "message": "The call failed.",
}
"""The error of a failed call of which nobody said why."""


def key_of(text: Any) -> Key | None:
    """A job's key; None for anything that is none."""
    head, dot, tail = text.partition(".") if isinstance(text, str) else ("", "", "")
    if not dot or not tail.isdecimal() or not (head == "list" or head.isdecimal()):
        return None
    return Key(LIST if head == "list" else int(head), int(tail))


def result_of(data: bytes) -> tuple[Key | None, dict[str, Any]]:
    """A `tool_result`: whose, and `{"ok", "content", "output", "error", "sources", "results", "images"}`."""
    said = _object(data)
    ok, error, content, output = (said.get(key) for key in ("ok", "error", "content", "output"))
    content = content if isinstance(content, str) else ""
    images = _texts(said.get("images"))
    failed = error if _is_error(error) else UNSAID
    return key_of(said.get("key")), {
        "ok": ok is True,
        "content": content,
        "output": (output if isinstance(output, str) else content) if ok is True else None,
        "error": None if ok is True else failed,
        "sources": _texts(said.get("sources")),
        "results": [one for one in _list(said.get("results")) if isinstance(one, dict)],
        "images": images or None,
    }


def listing_of(data: bytes) -> tuple[Key | None, dict[str, Any]]:
    """A `tools_listed`: whose, and `{"tools", "error"}`. A tool without a name is none."""
    said = _object(data)
    error = said.get("error")
    error = error if isinstance(error, str) and error else None
    given = [] if error else _list(said.get("tools"))
    tools = [_tool(one) for one in given if isinstance(one, dict)]
    named = [tool for tool in tools if tool["name"]]
    return key_of(said.get("key")), {"tools": named, "error": error}


def _is_error(said: Any) -> bool:
    """Whether a failure has one of the shapes in which a client may see it (contract.md section 7)."""
    if not isinstance(said, dict):
        return False
    if said.get("type") == "mcp_tool_execution_error":
        return isinstance(said.get("content"), list)
    known = said.get("type") in ("mcp_protocol_error", "http_error")
    return known and isinstance(said.get("code"), int) and isinstance(said.get("message"), str)


def _tool(said: dict[str, Any]) -> dict[str, Any]:
    """A tool as a client sees it; what its server does not say of it is no null: the AI SDK takes none."""
    name, description = said.get("name"), said.get("description")
    schema, annotations = said.get("input_schema"), said.get("annotations")
    tool: dict[str, Any] = {"name": name if isinstance(name, str) else ""}
    if isinstance(description, str):
        tool["description"] = description
    tool["input_schema"] = schema if isinstance(schema, dict) else {"type": "object"}
    if isinstance(annotations, dict):
        tool["annotations"] = annotations
    return tool


def _object(data: bytes) -> dict[str, Any]:
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError:
        said = None
    return said if isinstance(said, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [one for one in _list(value) if isinstance(one, str)]
