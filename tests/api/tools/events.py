"""What a stream says of the tools that the gateway runs (contract.md section 7), as assertions over its parsed events."""

from typing import Any

from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

Event = dict[str, Any]

SDK_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
"""What openai-python knows; it does not check what it reads, so we do."""

TOOL_KEYS = {"name", "description", "input_schema", "annotations"}
KEYS = {
    "web_search_call": {"id", "type", "status", "action"},
    "mcp_list_tools": {"id", "type", "server_label", "tools", "error"},
    "mcp_call": {
        *("id", "type", "server_label", "name", "arguments", "status"),
        *("approval_request_id", "output", "error"),
    },
    "mcp_approval_request": {"id", "type", "server_label", "name", "arguments"},
}
ERROR_KEYS = {
    "mcp_tool_execution_error": {"type", "content"},
    "mcp_protocol_error": {"type", "code", "message"},
    "http_error": {"type", "code", "message"},
}


def check(events: list[Event]) -> None:
    """What `laws.gateway` leaves open, of a response that was completed (the SDK knows not all reasons of others).

    Items have the keys of their type, each event of their life is there once, and they end in the order of the output.
    """
    for event in events:
        SDK_EVENT.validate_python(event)
    ends = []
    for index, item in enumerate(events[-1]["response"]["output"]):
        if item["type"] in KEYS:
            check_item(item)
            assert types_of(events, index) == life_of(item)
            ends.append(position(events, "output_item.done", index))
    assert ends == sorted(ends), "completions come in the order of the output"
    check_lists(events)


def check_item(item: Event) -> None:
    """A finished item has the keys of its type, no more and no less."""
    optional = {"error"} if item["type"] == "mcp_list_tools" else set()
    assert KEYS[item["type"]] - optional <= set(item) <= KEYS[item["type"]], item
    if item["type"] == "mcp_call":
        failed = item["status"] == "failed"
        assert (item["output"] is None) == (item["error"] is not None) == failed
        if failed:
            assert set(item["error"]) == ERROR_KEYS[item["error"]["type"]]
    if item["type"] == "web_search_call":
        assert item["action"].keys() - {"sources"} == {"type", "query", "queries"}
    for tool in item.get("tools", []):
        assert {"name", "input_schema"} <= set(tool) <= TOOL_KEYS
        assert None not in tool.values()


def life_of(item: Event) -> list[str]:
    """The events of a finished item, in order."""
    match item["type"], item.get("status"):
        case "web_search_call", _:
            between = [f"web_search_call.{step}" for step in ("in_progress", "searching")]
            between.append("web_search_call.completed")
        case "mcp_list_tools", _:
            end = "failed" if item.get("error") else "completed"
            between = ["mcp_list_tools.in_progress", f"mcp_list_tools.{end}"]
        case "mcp_call", status:
            end = "failed" if status == "failed" else "completed"
            between = [
                *("mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"),
                f"mcp_call.{end}",
            ]
        case _:
            between = []
    return ["output_item.added", *between, "output_item.done"]


def check_lists(events: list[Event]) -> None:
    """The lists of the servers come right after `response.in_progress`, before everything else."""
    output = events[-1]["response"]["output"]
    lists = [index for index, item in enumerate(output) if item["type"] == "mcp_list_tools"]
    assert lists == list(range(len(lists)))
    kinds = [event["type"] for event in events]
    begun = kinds.index("response.in_progress") + 1
    in_lists = [event.get("output_index") in lists for event in events[begun:]]
    assert in_lists == sorted(in_lists, reverse=True)


def types_of(events: list[Event], index: int) -> list[str]:
    """The events of one item."""
    return [
        event["type"].removeprefix("response.")
        for event in events
        if event.get("output_index") == index
    ]


def position(events: list[Event], kind: str, index: int) -> int:
    """Where the first event of a type of one item stands."""
    (at, *_) = [
        event["sequence_number"]
        for event in events
        if event["type"] == f"response.{kind}" and event.get("output_index") == index
    ]
    return at
