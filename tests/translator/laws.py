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
    "web_search_call": {"web_search_call"},
    "mcp_call": {"mcp_call"},
    "mcp_call_arguments": {"mcp_call"},
    "mcp_list_tools": {"mcp_list_tools"},
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
    annotations(events)
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


def annotations(events: list[Event]) -> None:
    """What was told of a text one by one is what the whole part has; a citation lies in its text."""
    told: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for event in events:
        if event["type"] == "response.output_text.annotation.added":
            mine = told[event["output_index"], event["content_index"]]
            assert event["annotation_index"] == len(mine)
            mine.append(event["annotation"])
        elif event["type"] == "response.output_item.done" and event["item"]["type"] == "message":
            for at, part in enumerate(event["item"]["content"]):
                if part["type"] == "output_text":
                    assert part["annotations"] == told[event["output_index"], at]


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


# ---- items that the gateway runs (contract.md section 7) ------------------------------------------

LIVES = {
    "web_search_call": ["in_progress", "searching", "completed"],
    "mcp_list_tools": ["in_progress", "completed"],
    "mcp_call": ["in_progress", "delta", "done", "completed"],
    "mcp_approval_request": [],
}
"""The last words of the events between `output_item.added` and `output_item.done`, of an item that went well."""
PREFIXES = {
    "web_search_call": "ws_",
    "mcp_list_tools": "mcpl_",
    "mcp_call": "mcp_",
    "mcp_approval_request": "mcpr_",
}
RUN = ("web_search_call", "mcp_call")
MCP_ERRORS = ("mcp_tool_execution_error", "mcp_protocol_error", "http_error")


def gateway(events: list[Event]) -> None:
    """What holds for the items of tools that the gateway itself runs; beside `check`."""
    by_index: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event["type"] not in LIFE:
            by_index[event["output_index"]].append(event)
    whole = events[-1]["type"] == "response.completed"
    for mine in by_index.values():
        kind = mine[0]["item"]["type"]
        if kind in LIVES:
            assert mine[0]["item"]["id"].startswith(PREFIXES[kind])
            assert [e["type"] for e in mine].count("response.output_item.done") == 1
            _announced(mine[0]["item"])
            _life(kind, mine, whole=whole)
            {"mcp_call": _mcp_call, "web_search_call": _search}.get(kind, _plain)(mine)
    kinds = {at: mine[0]["item"]["type"] for at, mine in by_index.items()}
    listed = [at for at, kind in kinds.items() if kind == "mcp_list_tools"]
    assert listed == list(range(len(listed))), "the lists of tools come first"
    running = 0  # the last end of the calls before
    for at, mine in sorted(by_index.items()):
        begins, ends = mine[0]["sequence_number"], mine[-1]["sequence_number"]
        if kinds[at] not in RUN:
            assert begins > running, "nothing overtakes a call that runs"
        else:
            assert ends > running, "calls end in the order of the output"
            running = max(running, ends)


def _announced(item: Event) -> None:
    assert item.get("status", "in_progress") == "in_progress"
    assert not item.get("output")
    assert not item.get("error")
    if item["type"] == "mcp_call":
        assert item["arguments"] == ""
    if item["type"] == "mcp_list_tools":
        assert item["tools"] == []


def _life(kind: str, events: list[Event], *, whole: bool) -> None:
    """The events of one item: all of its kind where it has ended by itself, else the first of them."""
    words = [event["type"].rpartition(".")[2] for event in events[1:-1]]
    words = [w for at, w in enumerate(words) if w != "delta" or words[at - 1] != "delta"]
    end = events[-1]["item"]
    failed = bool(end.get("error")) or end.get("status") == "failed"
    good = LIVES[kind]
    bad = [*good[:-1], "failed"] if kind.startswith("mcp") and good else good
    wanted = bad if failed else good
    if whole or end.get("status") == "completed":
        assert end.get("status") != "incomplete"
        assert words == wanted
    else:
        assert words == wanted or words == good[: len(words)]
        if words and words[-1] in ("completed", "failed"):
            assert words == wanted


def _mcp_call(events: list[Event]) -> None:
    deltas = [e["delta"] for e in events if e["type"].endswith("arguments.delta")]
    dones = [e["arguments"] for e in events if e["type"].endswith("arguments.done")]
    item = events[-1]["item"]
    assert "" not in deltas
    assert item["arguments"] == "".join(deltas)
    assert dones in ([], [item["arguments"]])
    assert dones or not deltas
    assert item["name"]
    assert item["server_label"]
    assert item["status"] in ("completed", "failed", "incomplete")
    if item["status"] == "completed":
        assert isinstance(item["output"], str)
        assert item["error"] is None
    else:
        assert item["output"] is None
    if item["status"] == "failed":
        assert item["error"]["type"] in MCP_ERRORS


def _search(events: list[Event]) -> None:
    item = events[-1]["item"]
    assert item["status"] in ("completed", "failed")
    assert item["action"]["type"] in ("search", "open_page", "find_in_page")


def _plain(events: list[Event]) -> None:
    item = events[-1]["item"]
    assert item["server_label"]
    if item["type"] == "mcp_list_tools":
        assert isinstance(item["tools"], list)
        assert isinstance(item.get("error", ""), str)
        assert not (item.get("error") and item["tools"])
