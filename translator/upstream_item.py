"""What an upstream's items, parts and errors say, read with tolerance.

In: JSON objects of an upstream's events, of which nothing is known yet. Out: the one thing asked for, where missing,
null and empty are all "not said" (upstream-quirks.md section 1, rule 4). Called by the accumulator.
"""

from typing import Any, Final

import orjson

from translator.items import PartKind
from translator.protocol.errors import ERROR_CODES, TOO_MANY_REQUESTS, ProtocolFault
from translator.register import id_of

ITEM_TYPES: Final = frozenset(
    {
        "message", "reasoning", "function_call", "custom_tool_call",
        "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
        "mcp_call", "mcp_tool_call", "mcp_list_tools", "mcp_approval_request",
        "shell_call", "shell_call_output", "local_shell_call", "local_shell_call_output",
        "apply_patch_call", "apply_patch_call_output", "computer_call", "computer_call_output",
        "tool_search_call", "tool_search_output", "program", "program_output", "compaction",
    }
)  # fmt: skip
"""Items of OpenAI's API that an upstream may bring (and the older name of mcp_call): the first four are ours to tell,
the others it runs by itself."""

PART_KINDS: Final[dict[str, PartKind]] = {
    "output_text": "output_text",
    "text": "output_text",
    "refusal": "refusal",
    "reasoning_text": "reasoning_text",
    "reasoning": "reasoning_text",
    "summary_text": "summary_text",
}


def is_json(text: str) -> bool:
    """Whether a text is one whole JSON value."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def listed(value: Any) -> list[Any]:
    """A list as it is; anything else says nothing."""
    return value if isinstance(value, list) else []


def error_of(error: Any) -> tuple[str | None, str | None]:
    """The code and message of an upstream's error object, or of an error that is only a text."""
    if isinstance(error, dict):
        return code_of(error), id_of(error.get("message"))
    return None, id_of(error)


def code_of(error: dict[str, Any]) -> str | None:
    """An error's code. Some servers give an HTTP status in its place, and say in its type what clients know."""
    words = [word for word in (error.get("code"), error.get("type")) if isinstance(word, str)]
    known = next((word for word in words if word in ERROR_CODES), None)
    if str(TOO_MANY_REQUESTS) in (str(error.get("code")), str(error.get("status"))):
        known = known or "rate_limit_exceeded"
    return known or id_of(error.get("code"))


def type_of(payload: Any) -> str:
    """The type of an upstream's item; where it is not said, what its keys say."""
    if not isinstance(payload, dict):
        raise ProtocolFault("The upstream sent an item that is no object.")
    item_type = payload.get("type")
    if isinstance(item_type, str) and item_type:
        if item_type not in ITEM_TYPES:
            raise ProtocolFault("The upstream sent an item of an unknown type.")
        return item_type
    if "arguments" in payload:
        return "function_call"
    if "content" in payload:
        return "message"
    raise ProtocolFault("The upstream sent an item without a type.")


def is_empty(payload: dict[str, Any]) -> bool:
    """Whether a message or reasoning item says nothing at all."""
    if type_of(payload) not in ("message", "reasoning"):
        return False
    parts = [*parts_in(payload.get("content")), *parts_in(payload.get("summary"))]
    return not any(map(text_of, parts)) and not payload.get("encrypted_content")


def call_id_of(payload: dict[str, Any], key: str = "call_id") -> str | None:
    """A call's id; a number is its digits."""
    call_id = payload.get(key)
    if isinstance(call_id, int) and not isinstance(call_id, bool):
        return str(call_id)
    return id_of(call_id)


def parts_in(content: Any) -> list[dict[str, Any]]:
    """The parts of an item's content or summary; a mere text is one (as in requests)."""
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}] if content else []
    return [part for part in listed(content) if isinstance(part, dict)]


def arguments_of(payload: dict[str, Any]) -> str:
    """A call's arguments or input; an object is taken as its JSON."""
    value = payload.get("arguments")
    if value is None:
        value = payload.get("input")
    if isinstance(value, dict):
        return orjson.dumps(value).decode()
    return value if isinstance(value, str) else ""


def text_of(part: dict[str, Any]) -> str:
    """The text of a part, a text event or a refusal; empty where none is said."""
    for key in ("text", "refusal"):
        if isinstance(value := part.get(key), str):
            return value
    return ""


def part_kind(part: dict[str, Any]) -> PartKind:
    """What kind of part it is. Raises ProtocolFault for one that nobody knows."""
    kind = PART_KINDS.get(str(part.get("type")))
    if kind is None:
        raise ProtocolFault("The upstream sent a content part of an unknown type.")
    return kind
