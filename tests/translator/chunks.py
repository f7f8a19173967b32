"""A chat upstream for tests: chunks as Chat Completions servers send them, and what becomes of them."""

import json
from typing import Any

from tests.translator.drive import CUSTOM, FUNCTION, Told, play

Chunk = dict[str, Any]


def chunk(finish: str | None = None, **delta: Any) -> Chunk:
    return {
        "id": "cc",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def fragment(
    index: int | None = 0, call_id: Any = None, name: Any = None, arguments: Any = None, **more: Any
) -> Chunk:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    found: Chunk = {"function": function, **more}
    if index is not None:
        found["index"] = index
    if call_id is not None:
        found["id"] = call_id
    return found


def calls(*fragments: Chunk, finish: str | None = None, **delta: Any) -> Chunk:
    return chunk(finish, tool_calls=list(fragments), **delta)


def chat(*chunks: Any, end: str = "ok", **body: Any) -> Told:
    """Play a chat upstream; it ends with `[DONE]` unless another end is asked for."""
    blocks = [c if isinstance(c, (str, bytes)) else json.dumps(c) for c in chunks]
    marker = ["[DONE]"] if end == "ok" else []
    return play(
        *blocks, *marker, end=end, _api="chat", tools=body.pop("tools", [FUNCTION, CUSTOM]), **body
    )


def arguments_of(told: Told) -> list[str]:
    return [item.get("arguments", item.get("input")) for item in told.output]


USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "total_tokens": 7,
    "completion_tokens_details": {"reasoning_tokens": 2},
}
