"""The laws of every public stream (contract.md section 3), as assertions over its parsed events."""

import json
from collections import defaultdict
from typing import Any

Event = dict[str, Any]

ENDS = ("response.completed", "response.failed", "response.incomplete")
LIFE = ("response.created", "response.queued", "response.in_progress", *ENDS)
TEXTS = {
    "response.output_text": ("content_index", "text"),
    "response.refusal": ("content_index", "refusal"),
    "response.reasoning_text": ("content_index", "text"),
    "response.reasoning_summary_text": ("summary_index", "text"),
    "response.function_call_arguments": (None, "arguments"),
    "response.custom_tool_call_input": (None, "input"),
}
FAMILY = {
    "content_part": {"message", "reasoning"},
    "output_text": {"message"},
    "refusal": {"message"},
    "reasoning_text": {"reasoning"},
    "reasoning_summary_part": {"reasoning"},
    "reasoning_summary_text": {"reasoning"},
    "function_call_arguments": {"function_call"},
    "custom_tool_call_input": {"custom_tool_call"},
}
CALLS = ("function_call", "custom_tool_call")
IDENTITY = ("id", "type", "call_id", "name", "namespace", "server_label")


def parse(frame: bytes) -> Event:
    """One stored frame, strictly: event line, one data line, one blank line, LF only."""
    assert frame.endswith(b"\n\n"), frame[-20:]
    assert b"\r" not in frame
    head, _, data = frame[:-2].partition(b"\n")
    assert data.startswith(b"data: "), frame[:80]
    assert b"\n" not in data
    for cutter in ("\u2028", "\u2029", "\x85"):
        assert cutter not in data.decode()
    body = json.loads(data[6:])
    assert head == b"event: " + body["type"].encode()
    json.dumps(body, ensure_ascii=False).encode()  # no lone surrogates
    return body


def check(events: list[Event]) -> None:
    """All laws, for a stream that has ended."""
    numbering(events)
    lifecycle(events)
    items(events)
    texts(events)
    output(events)


def numbering(events: list[Event]) -> None:
    assert [e["sequence_number"] for e in events] == list(range(len(events)))


def lifecycle(events: list[Event]) -> None:
    types = [e["type"] for e in events]
    assert types[0] == "response.created"
    for once in ("response.created", "response.queued", "response.in_progress"):
        assert types.count(once) <= 1
    assert [t for t in types if t in ENDS] == types[-1:]
    responses = [e["response"] for e in events if e["type"] in LIFE]
    assert len({r["id"] for r in responses}) == 1
    assert all(not e.get("error") for e in events)
    end = responses[-1]
    assert (end["status"] == "failed") == bool(end["error"])
    if end["status"] == "incomplete":
        assert end["incomplete_details"]["reason"]


def cut_calls(events: list[Event]) -> dict[int, Event]:
    """Client calls that the terminal response lists as incomplete (D19)."""
    return {
        index: item
        for index, item in enumerate(events[-1]["response"]["output"])
        if item["type"] in CALLS and item["status"] == "incomplete"
    }


def items(events: list[Event]) -> None:
    added: dict[int, Event] = {}
    closed: dict[int, Event] = {}
    for event in events:
        if event["type"] in LIFE:
            continue
        index = event["output_index"]
        if event["type"] == "response.output_item.added":
            item = event["item"]
            assert index == len(added), "indexes are contiguous, in order of added"
            assert item["id"]
            assert item["id"] not in [i["id"] for i in added.values()]
            if item["type"] in CALLS:
                assert item["call_id"]
                assert item["name"]
            added[index] = item
            continue
        assert index in added, f"{event['type']} before added"
        assert index not in closed, f"{event['type']} after done"
        if event["type"] == "response.output_item.done":
            assert_same_identity(added[index], event["item"])
            closed[index] = event["item"]
        else:
            assert event["item_id"] == added[index]["id"]
            family = event["type"].split(".")[1]
            assert added[index]["type"] in FAMILY.get(family, {added[index]["type"]})
    cut = cut_calls(events)
    assert set(added) == set(closed) | set(cut)
    assert not set(closed) & set(cut)
    for index, item in enumerate(events[-1]["response"]["output"]):
        assert_same_identity(added[index], item)


def assert_same_identity(first: Event, later: Event) -> None:
    assert {k: first.get(k) for k in IDENTITY} == {k: later.get(k) for k in IDENTITY}


def texts(events: list[Event]) -> None:
    """Joined deltas = the done event = the part = the item."""
    joined: dict[tuple[Any, ...], str] = defaultdict(str)
    finished: dict[tuple[Any, ...], str] = {}
    parts: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for event in events:
        base, _, verb = event["type"].rpartition(".")
        if base in TEXTS:
            index_key, field = TEXTS[base]
            key = (event["output_index"], base, event.get(index_key or ""))
            assert key not in finished, "a text event after its done"
            if index_key:
                assert event[index_key] < len(parts[event["output_index"], index_key])
            if verb == "delta":
                assert event["delta"] != "", "an empty delta"
                joined[key] += event["delta"]
            else:
                finished[key] = event[field]
                assert event[field] == joined[key]
            if base == "response.output_text":
                assert isinstance(event["logprobs"], list)
            if event["type"] == "response.function_call_arguments.done":
                assert event["name"]
        elif base in ("response.content_part", "response.reasoning_summary_part"):
            _part(event, parts, finished)
        elif event["type"] == "response.output_item.done":
            _whole_item(event, joined, parts)
    for index, item in cut_calls(events).items():
        base = f"response.{'function_call_arguments' if item['type'] == 'function_call' else 'custom_tool_call_input'}"
        assert not [k for k in finished if k[:2] == (index, base)], (
            "a cut-off call was told as done"
        )
        assert item[TEXTS[base][1] or ""] == joined[index, base, None]


def _part(
    event: Event, parts: dict[tuple[Any, ...], list[str]], finished: dict[tuple[Any, ...], str]
) -> None:
    index_key = "summary_index" if "summary" in event["type"] else "content_index"
    part, key = event["part"], (event["output_index"], index_key)
    if event["type"].endswith("added"):
        assert event[index_key] == len(parts[key])
        parts[key].append(part["type"])
    else:
        text_key = (event["output_index"], _base(part["type"]), event[index_key])
        assert finished[text_key] == part.get("text", part.get("refusal"))


def _base(part_type: str) -> str:
    return {"summary_text": "response.reasoning_summary_text"}.get(
        part_type, f"response.{part_type}"
    )


def _whole_item(
    event: Event, joined: dict[tuple[Any, ...], str], parts: dict[tuple[Any, ...], list[str]]
) -> None:
    index, item = event["output_index"], event["item"]
    if item["type"] in ("message", "reasoning"):
        for listed, index_key in (("content", "content_index"), ("summary", "summary_index")):
            have = item.get(listed, [])
            assert [p["type"] for p in have] == parts[index, index_key]
            for at, part in enumerate(have):
                assert (
                    part.get("text", part.get("refusal")) == joined[index, _base(part["type"]), at]
                )
    elif item["type"] in CALLS:
        base = (
            "response.function_call_arguments"
            if item["type"] == "function_call"
            else "response.custom_tool_call_input"
        )
        assert item[TEXTS[base][1] or ""] == joined[index, base, None]


def output(events: list[Event]) -> None:
    """The terminal output is the items as they were done, and cut-off calls; nothing is left in progress."""
    done = {
        e["output_index"]: e["item"] for e in events if e["type"] == "response.output_item.done"
    }
    done |= cut_calls(events)
    response = events[-1]["response"]
    assert response["output"] == [done[index] for index in sorted(done)]
    for item in response["output"]:
        assert item.get("status") != "in_progress"
        assert response["status"] != "completed" or item.get("status") != "incomplete"
