"""The laws as properties: event sequences from a grammar, with the faults that upstreams have, and plain garbage.

Chunk, replay and lifecycle laws are checked by `play`; here: no leak, one answer, garbage, boundary order.
"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.translator import laws
from tests.translator.drive import (
    CUSTOM,
    FUNCTION,
    Event,
    added,
    args,
    args_done,
    call,
    completed,
    created,
    done,
    ev,
    fold,
    message,
    play,
    text,
    upstream,
)

WORDS = st.sampled_from(["a", "bc", "😀", "\u2028", '"', "\\", "\n", "x" * 50])
NAMES = st.sampled_from(["exec", "get_weather", "nobody_declared"])
LATE_NAMES = st.sampled_from(["added", "arguments.done", "item.done"])
TOOLS = [CUSTOM, FUNCTION, {"type": "web_search"}]


@st.composite
def a_message(draw: st.DrawFn, index: int) -> list[Event]:
    ident = f"m{index}"
    words = draw(st.lists(WORDS, max_size=4))
    events = [text(word, index, ident) for word in words]
    if draw(st.booleans()):
        events.insert(0, added(message(ident, status="in_progress"), index))
    if draw(st.booleans()):
        events.append(done(message(ident, "".join(words)), index))
    return events


@st.composite
def a_reasoning(draw: st.DrawFn, index: int) -> list[Event]:
    place = {"item_id": f"r{index}", "output_index": index}
    kind = draw(st.sampled_from(["reasoning_text", "reasoning_summary_text", "reasoning"]))
    return [ev(f"{kind}.delta", delta=draw(WORDS), **place) for _ in range(draw(st.integers(1, 3)))]


@st.composite
def a_call(draw: st.DrawFn, index: int, names: st.SearchStrategy[str] = NAMES) -> list[Event]:
    """A call whose name and id come when they come."""
    name, ident = draw(names), f"f{index}"
    late, final_id = draw(LATE_NAMES), draw(st.sampled_from([ident, f"new{index}", None]))
    value = "".join(draw(st.lists(WORDS, max_size=4)))
    arguments = json.dumps({"input": value}, ensure_ascii=draw(st.booleans()))
    cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=4)))
    pieces = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
    call_id = draw(st.sampled_from([f"call{index}", "same", None]))
    early = name if late == "added" else draw(st.sampled_from([None, ""]))
    events = [added(call(early, ident=ident, call_id=call_id), index)]
    events += [args(piece, index, ident) for piece in pieces if piece]
    if draw(st.booleans()):
        events.insert(0, events.pop(1)) if len(events) > 1 else None
    if late == "arguments.done" or draw(st.booleans()):
        said = (
            {"name": name}
            if late == "arguments.done"
            else draw(st.sampled_from([{}, {"name": ""}]))
        )
        events.append(args_done(arguments, index, ident, **said))
    if late == "item.done" or draw(st.booleans()):
        events.append(done({**call(name, arguments, ident, call_id), "id": final_id}, index))
    return events


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Items one after the other or interleaved, in the order that each of them needs."""
    kinds = [a_message, a_reasoning, a_call]
    items = [draw(draw(st.sampled_from(kinds))(index)) for index in range(draw(st.integers(0, 4)))]
    if not draw(st.booleans()):
        return [created(), *[event for item in items for event in item]]
    events: list[Event] = []
    while any(items):
        events.append(draw(st.sampled_from([item for item in items if item])).pop(0))
    return events


ENDS = st.sampled_from(
    [
        [completed()],
        [completed(usage={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2})],
        [ev("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}})],
        [ev("failed", response={"error": {"code": "server_error", "message": "m"}})],
        ["[DONE]"],
        [],
    ]
)


@given(streams(), ENDS)
def test_every_stream_keeps_the_laws_in_every_way_of_folding(
    events: list[Event], end: list[Any]
) -> None:
    play(*events, *end, tools=TOOLS)


@given(streams(), ENDS)
def test_the_public_stream_folds_to_the_stored_response(
    events: list[Event], end: list[Any]
) -> None:
    told = play(*events, *end, tools=TOOLS)
    finished = {e["output_index"]: e["item"] for e in told.of("output_item.done")}
    finished |= laws.cut_calls(told.events)
    assert [finished[index] for index in sorted(finished)] == told.output
    assert told.events[-1]["response"] == told.response


@given(st.data(), ENDS)
def test_no_function_event_of_a_custom_or_gateway_call_leaks(
    data: st.DataObject, end: list[Any]
) -> None:
    names = st.sampled_from(["exec", "web_search"])
    events = [e for index in range(3) for e in data.draw(a_call(index, names))]
    told = play(*events, *end, tools=TOOLS)
    assert not [t for t in told.types if t.startswith("function_call")]
    assert not [e for e in told.events if (e.get("item") or {}).get("type") == "function_call"]
    assert not [e for e in told.events if (e.get("item") or {}).get("name") == "web_search"]
    for event in told.events:
        assert "fc_" not in json.dumps(event)


@given(streams())
def test_nothing_at_or_past_an_unnamed_call_is_shown_while_it_has_no_name(
    events: list[Event],
) -> None:
    """Checked after every event: what is shown lies below the first call whose name has not come yet."""
    log = upstream(tools=TOOLS)
    log.entries.pop()
    named: set[int] = set()
    unnamed: set[int] = set()
    shown_before = 0
    for event in events:
        index = event.get("output_index")
        item = event.get("item") or {}
        if index is not None and (
            "arguments" in event["type"] or item.get("type") == "function_call"
        ):
            name = item.get("name") or event.get("name")
            named |= {index} if name else set()
            unnamed |= {index} if index not in named else set()
            unnamed -= named
        log.frames(event)
        told = fold(log.entries)
        fresh = told.events[shown_before:]
        shown_before = len(told.events)
        if unnamed and index is not None and index >= min(unnamed):
            assert not [e for e in fresh if "output_index" in e and event_of(e, event)]


def event_of(shown: Event, cause: Event) -> bool:
    """Whether a public frame shows the very text that its cause brought."""
    return bool(cause.get("delta")) and shown.get("delta") == cause["delta"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
TYPES = st.sampled_from(
    [
        f"response.{t}"
        for t in [
            "output_item.added",
            "output_item.done",
            "content_part.added",
            "content_part.done",
            "output_text.delta",
            "output_text.done",
            "refusal.delta",
            "reasoning_text.delta",
            "reasoning_part.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "custom_tool_call_input.delta",
            "output_text.annotation.added",
            "completed",
            "incomplete",
            "failed",
            "created",
            "web_search_call.searching",
            "reasoning_summary_part.added",
        ]
    ]
    + ["error", "nonsense", ""]
)
ITEMS = JSON | st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["message", "function_call", "reasoning", "custom_tool_call", "web_search_call", "odd"]
        )
    },
    optional={
        "id": st.sampled_from(["a", "b", "", None]),
        "name": st.sampled_from(["exec", "web_search", "f", "", None, 3]),
        "call_id": st.sampled_from(["c", "d", "", None, 3]),
        "arguments": st.sampled_from(['{"input":"x"}', "{", "", None, {"a": 1}]),
        "input": st.text(max_size=3),
        "content": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["output_text", "refusal", "reasoning_text"]),
                    "text": WORDS,
                }
            ),
            max_size=2,
        )
        | JSON,
        "summary": JSON,
        "status": st.sampled_from(["completed", "incomplete", "in_progress", "failed", None]),
    },
)
GARBAGE = st.fixed_dictionaries(
    {"type": TYPES},
    optional={
        "item": ITEMS,
        "item_id": st.sampled_from(["a", "b", "", None, 5]),
        "output_index": st.sampled_from([0, 1, 2, 7, None, -1, "0"]),
        "content_index": st.sampled_from([0, 1, None, "x"]),
        "delta": WORDS | JSON,
        "text": WORDS | JSON,
        "arguments": st.sampled_from(['{"input":"x"}', "{", "", None]),
        "name": st.sampled_from(["exec", "", None]),
        "part": st.fixed_dictionaries(
            {
                "type": st.sampled_from(["output_text", "refusal", "reasoning_text", "odd"]),
                "text": WORDS,
            }
        )
        | JSON,
        "annotation": JSON,
        "response": st.fixed_dictionaries(
            {
                "status": st.sampled_from(["completed", "failed", "incomplete", None]),
                "output": JSON,
                "usage": JSON,
                "error": JSON,
            }
        )
        | JSON,
        "error": JSON,
    },
)


@given(st.lists(GARBAGE, max_size=8), ENDS)
def test_any_events_in_any_order_end_in_one_lawful_stream(
    events: list[Event], end: list[Any]
) -> None:
    told = fold(upstream(*events, *end, tools=TOOLS).entries)
    laws.check(told.events)


@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from([b"data: {", b"event: x\ndata: 1", b"{}", b"data"]),
        max_size=6,
    )
)
def test_any_bytes_end_in_one_lawful_stream(blocks: list[bytes]) -> None:
    told = fold(upstream(*blocks).entries)
    laws.check(told.events)
    assert told.response["status"] == "failed"
