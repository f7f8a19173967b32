"""What the strictest Chat Completions servers and chat templates demand of a request body."""

import json
import re
from typing import Any

MESSAGE_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content", "reasoning"},
    "tool": {"role", "tool_call_id", "content"},
}
PART_KEYS = {
    "text": "text",
    "image_url": "image_url",
    "file": "file",
    "input_audio": "input_audio",
}


def check_body(body: dict[str, Any]) -> None:
    """Raise AssertionError for a body that some server refuses or misreads."""
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    check_tools(body)
    check_messages(body["messages"])


def check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools")
    if tools is None:
        assert not {"tool_choice", "parallel_tool_calls"} & body.keys()
        return
    assert tools
    for tool in tools:
        assert set(tool) == {"type", "function"}
        assert tool["type"] == "function"
        assert tool["function"].keys() <= {"name", "description", "parameters", "strict"}
        assert None not in tool["function"].values()
    names = [tool["function"]["name"] for tool in tools]
    assert len(set(names)) == len(names)
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        assert choice == {"type": "function", "function": {"name": choice["function"]["name"]}}
        assert choice["function"]["name"] in names
    else:
        assert choice in ("none", "auto", "required")


def check_messages(messages: list[dict[str, Any]]) -> None:
    ids: list[str] = []
    waiting: list[str] = []
    for place, message in enumerate(messages):
        role = message["role"]
        assert message.keys() <= MESSAGE_KEYS[role], message
        if role == "tool":
            assert waiting, "a tool message without a call before it"
            assert message["tool_call_id"] == waiting.pop(0), "not in the order of the calls"
            assert isinstance(message["content"], str)
            continue
        assert not waiting, "something stands between calls and their outputs"
        if role == "system":
            assert place == 0
            assert message["content"]
        elif role == "user":
            check_content(message["content"])
        else:
            waiting = check_assistant(message)
            ids += waiting[:]
    assert not waiting, "a call has no output"
    assert len(set(ids)) == len(ids), "a call id came twice"


def check_content(content: Any) -> None:
    if isinstance(content, str):
        return
    assert isinstance(content, list)
    assert content
    for part in content:
        assert PART_KEYS[part["type"]] in part, part
        assert not str(part.get("text")).startswith("[{")
        if part["type"] == "image_url":
            assert re.match(r"https?:|data:", part["image_url"]["url"])


def check_assistant(message: dict[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    assert message["content"] is None or isinstance(message["content"], str)
    assert message["content"] or calls, "an empty assistant message"
    assert calls is None or calls
    assert not any(message.get(key) == "" for key in ("reasoning", "reasoning_content"))
    for call in calls or ():
        assert set(call) == {"id", "type", "function"}
        assert call["type"] == "function"
        assert set(call["function"]) == {"name", "arguments"}
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    return [call["id"] for call in calls or ()]
