"""The public Response object: a request entry in, its 31 keys out.

Called by the machine, which fills in output, usage and status as the log is folded.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from translator.protocol.entries import RequestEntry
from translator.protocol.tools import is_gateway_type, shown, shown_choice

ECHOED: Final[Mapping[str, Any]] = {
    "instructions": None,
    "previous_response_id": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "safety_identifier": None,
    "prompt_cache_key": None,
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "service_tier": "default",
    "store": True,
    "background": False,
}
"""Fields shown as the client sent them, and what they are where the request is silent."""

OPENAI_ONLY: Final = ("prompt", "prompt_cache_retention", "user")
"""Fields that OpenAI's Response also has; shown if the client sent them. Not so where the Response tells by that name what
was done (`moderation`): nobody did it here."""


def template(entry: RequestEntry, created_at: int) -> dict[str, Any]:
    """The Response before anything has happened: queued in the background, else in progress.

    All 31 keys are there (contract.md section 5). null is "not said"; 0, false and "" are values.
    """
    sent = {key: value for key, value in entry["request"].items() if value is not None}
    echoed = {key: sent.get(key, silent) for key, silent in ECHOED.items()}
    return {
        "id": entry["id"],
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "queued" if echoed["background"] else "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": sent["model"],
        "output": [],
        "usage": None,
        **echoed,
        "tool_choice": shown_choice(sent.get("tool_choice", "auto")),
        "tools": [shown(tool) for tool in sent.get("tools", ())],
        "parallel_tool_calls": parallel_calls(sent, entry),
        "reasoning": {"effort": None, "summary": None, **sent.get("reasoning", {})},
        "text": text_config(sent.get("text", {})),
        "metadata": sent.get("metadata", {}),
        **{key: sent[key] for key in OPENAI_ONLY if key in sent},
    }


def parallel_calls(sent: Mapping[str, Any], entry: RequestEntry) -> bool:
    """What holds for parallel calls: as asked, else not with tools of the gateway's (D17)."""
    asked: bool | None = sent.get("parallel_tool_calls")
    if asked is not None:
        return asked
    items = [*entry["input"], *entry["history"]]
    added = [tool for item in items if item["type"] == "additional_tools" for tool in item["tools"]]
    return not any(is_gateway_type(tool["type"]) for tool in [*sent.get("tools", ()), *added])


def text_config(sent: Mapping[str, Any]) -> dict[str, Any]:
    """The form of the text; a schema shows all its keys."""
    format = sent.get("format") or {"type": "text"}
    if format["type"] == "json_schema":
        format = {"description": None, **format, "strict": bool(format.get("strict"))}
    return {**sent, "format": format}


CHAT_NAMES: Final = {
    "input_tokens": "prompt_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens": "completion_tokens",
    "output_tokens_details": "completion_tokens_details",
}
"""What Chat calls what is counted."""

CACHE_HIT: Final = "prompt_cache_hit_tokens"


def usage(reported: object) -> dict[str, Any] | None:
    """What an upstream of either API reported, in the public form; None if it reported nothing usable."""
    if isinstance(reported, dict) and not (
        reported.get("input_tokens") or reported.get("output_tokens")
    ):
        reported = in_our_words(reported)
    if not isinstance(reported, dict) or not any(
        is_count(reported.get(key)) for key in ("input_tokens", "output_tokens", "total_tokens")
    ):
        return None
    taken, given = count(reported, "input_tokens"), count(reported, "output_tokens")
    total = reported.get("total_tokens")
    return {
        "input_tokens": taken,
        "input_tokens_details": details(reported, "input", "cached_tokens", "cache_write_tokens"),
        "output_tokens": given,
        "output_tokens_details": details(reported, "output", "reasoning_tokens"),
        "total_tokens": total if is_count(total) else taken + given,
    }


def in_our_words(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Usage as Chat spells it, which some servers of the Responses API do, too; DeepSeek tells of its cache apart."""
    said = {ours: reported.get(theirs) for ours, theirs in CHAT_NAMES.items()}
    found = {name: value for name, value in said.items() if value is not None}
    if not found.get("input_tokens_details") and is_count(hit := reported.get(CACHE_HIT)):
        found["input_tokens_details"] = {"cached_tokens": hit}
    return {**reported, **found}


def details(reported: Mapping[str, Any], side: str, *keys: str) -> dict[str, int]:
    """The details of one side; vLLM sends null for some of them, SGLang and Moonshot tell them beside the totals."""
    sent = reported.get(f"{side}_tokens_details")
    told = {**reported, **sent} if isinstance(sent, dict) else reported
    return {key: count(told, key) for key in keys}


def count(reported: Mapping[str, Any], key: str) -> int:
    """A number of tokens; 0 where it is missing or no number of anything."""
    value = reported.get(key)
    return value if is_count(value) else 0


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def add_usage(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any] | None:
    """The sum over two rounds; None only if neither reported any."""
    if one is None or other is None:
        return one or other
    return {
        key: add_usage(value, other[key]) if isinstance(value, dict) else value + other[key]
        for key, value in one.items()
    }
