"""The scripted model in the words of Chat Completions: its requests in, the same answers out as chunks.

In: the body of `POST /v1/chat/completions`; the events that `respool.demo_upstream.answer` gives for a Responses body.
Out: that Responses body; the chunks that a Chat server would stream. Called by `respool.demo_upstream`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

Json = dict[str, Any]

DELTAS: Final = {
    "response.reasoning_text.delta": "reasoning_content",
    "response.output_text.delta": "content",
    "response.refusal.delta": "refusal",
}
"""The field of a chunk's delta in which a piece of text comes."""


def responses_request(body: Json) -> Json:
    """The Responses body that asks for the same."""
    asked: Json = {
        "model": body.get("model"),
        "input": [item for message in body.get("messages") or [] for item in items(message)],
        "tools": [{"type": "function", **tool["function"]} for tool in body.get("tools") or []],
    }
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        choice = {"type": "function", "name": choice["function"]["name"]}
    form = body.get("response_format")
    if form:
        asked["text"] = {"format": {"type": form["type"], **(form.get("json_schema") or {})}}
    return {**asked, "tool_choice": choice}


def items(message: Json) -> Iterator[Json]:
    """A message as items."""
    if message["role"] == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": message["content"],
        }
        return
    if message.get("content"):
        yield {"type": "message", "role": message["role"], "content": message["content"]}
    for call in message.get("tool_calls") or []:
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def chunks(events: Iterable[Json], model: object) -> Iterator[Json]:
    """An answer in chunks: the role, the pieces, how it finished, what it used."""
    yield chunk(model, {"role": "assistant", "content": ""})
    calls = 0
    for event in events:
        kind = event["type"]
        if kind in DELTAS:
            yield chunk(model, {DELTAS[kind]: event["delta"]})
        elif kind == "response.output_item.added" and event["item"]["type"] == "function_call":
            item = event["item"]
            function = {"name": item["name"], "arguments": ""}
            named = {"id": item["call_id"], "type": "function", "function": function}
            yield chunk(model, {"tool_calls": [{"index": calls, **named}]})
            calls += 1
        elif kind == "response.function_call_arguments.delta":
            piece = {"index": calls - 1, "function": {"arguments": event["delta"]}}
            yield chunk(model, {"tool_calls": [piece]})
        elif kind == "response.completed":
            yield chunk(model, {}, "tool_calls" if calls else "stop")
            yield {**chunk(model, {}), "choices": [], "usage": usage(event["response"]["usage"])}


def chunk(model: object, delta: Json, finish: str | None = None) -> Json:
    """One chunk."""
    return {
        "id": "chatcmpl-upstream",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def usage(counts: Json) -> Json:
    """The usage under Chat's names."""
    return {
        "prompt_tokens": counts["input_tokens"],
        "completion_tokens": counts["output_tokens"],
        "total_tokens": counts["total_tokens"],
    }
