"""A stream that is closed from its own frames keeps every law, wherever it was cut."""

from typing import Any

from hypothesis import given

from tests.translator import laws
from tests.translator.drive import (
    CUSTOM,
    added,
    args,
    call,
    completed,
    ev,
    fold,
    play,
    upstream,
    whole_call,
    whole_message,
)
from tests.translator.test_properties import TOOLS, streams
from translator.closing import Closing


def closed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stream with its closing events and a failed end."""
    closing = Closing()
    for event in events:
        closing.see(event)
    more, output = closing.close()
    end = {
        **events[0]["response"],
        "status": "failed",
        "output": output,
        "error": {"code": "server_error", "message": "m"},
    }
    last = [*more, {"type": "response.failed", "response": end}]
    numbered = [{**event, "sequence_number": len(events) + n} for n, event in enumerate(last)]
    return [*events, *numbered]


@given(streams())
def test_any_stream_cut_anywhere_is_closed_by_the_laws(events: list[dict[str, Any]]) -> None:
    log = upstream(*events, completed(), tools=TOOLS)
    shown = fold(log.entries).events[:-1]
    for cut in range(1, len(shown) + 1):
        laws.check(closed(shown[:cut]))


def test_what_was_shown_stays_and_an_open_call_is_only_listed() -> None:
    cite = ev(
        "output_text.annotation.added",
        item_id="msg_up",
        output_index=0,
        content_index=0,
        annotation={"type": "t"},
    )
    summary = ev(
        "reasoning_summary_text.delta", item_id="r", output_index=1, summary_index=0, delta="hm"
    )
    search = {"type": "web_search_call", "id": "w", "status": "in_progress"}
    log = upstream(
        *whole_message(["Hel", "lo"])[:4], cite, summary, added(search, 2), added(call("exec", ident="c"), 3),
        args('{"input":"ls', 3, "c"),
        ev("web_search_call.searching", item_id="w", output_index=2), added({"type": "program", "id": "p"}, 4),
        tools=[CUSTOM],
    )  # fmt: skip
    shown = fold(log.entries[:-1]).events
    events = closed(shown)
    laws.check(events)
    message, reasoning, hosted, custom, program = events[-1]["response"]["output"]
    assert message["content"][0] | {"logprobs": []} == {
        "type": "output_text", "text": "Hello", "annotations": [{"type": "t"}], "logprobs": [],
    }  # fmt: skip
    assert hosted["status"] == "failed"
    assert reasoning["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert {i["status"] for i in (message, reasoning, custom)} == {"incomplete"}
    assert custom["input"] == "ls"
    assert "status" not in program


def test_a_call_that_the_gateway_runs_ends_with_the_arguments_that_were_shown() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "status": "in_progress", "arguments": ""}
    seen = fold(upstream(completed()).entries).events[:2]
    place = {"item_id": "mcp_1", "output_index": 0}
    told = [
        added(item),
        ev("mcp_call.in_progress", **place),
        ev("mcp_call_arguments.delta", delta="{}", **place),
        ev("mcp_call_arguments.done", arguments="{}", **place),
    ]
    shown = [*seen, *({**event, "sequence_number": n} for n, event in enumerate(told, 2))]
    events = closed(shown)
    laws.check(events)
    assert events[-1]["response"]["output"] == [item | {"status": "incomplete", "arguments": "{}"}]


def test_a_stream_without_open_items_is_only_ended() -> None:
    told = play(*whole_call("f", "{}"), completed())
    assert [e["type"] for e in closed(told.events[:-1])[len(told.events) - 1 :]] == [
        "response.failed"
    ]
