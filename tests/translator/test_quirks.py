"""Each row of upstream-quirks.md sections 2 and 3 that the fold answers for, one test a symptom."""

import json
from typing import Any

import pytest

from tests.translator.drive import (
    CUSTOM,
    FUNCTION,
    added,
    args,
    args_done,
    call,
    completed,
    created,
    done,
    ev,
    message,
    play,
    text,
    whole_call,
    whole_message,
)

MESSAGE_LIFE = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
]


# ---- blocks -------------------------------------------------------------------------------------


def test_the_json_type_decides_and_the_event_line_only_where_it_is_missing() -> None:
    wrong = (
        b'event: nonsense\ndata: {"type":"response.output_text.delta","delta":"a","item_id":"m"}'
    )
    missing = b'event: response.output_text.delta\ndata: {"delta":"b","item_id":"m"}'
    assert play(wrong, missing, completed()).deltas("output_text") == ["a", "b"]


def test_pretty_printed_data_lines_are_one_event() -> None:
    pretty = json.dumps(text("a"), indent=1).encode()
    assert play(b"data: " + pretty.replace(b"\n", b"\ndata: "), completed()).deltas(
        "output_text"
    ) == ["a"]


@pytest.mark.parametrize(
    "data", ["null", "7", '"text"', "[1]", "{}", '{"type":5}', '{"choices":[]}']
)
def test_data_that_is_no_event_is_ignored(data: str) -> None:
    assert play(data, *whole_message(["a"]), completed()).response["status"] == "completed"


@pytest.mark.parametrize(
    "data", ['{"type":"response.output_text.delta","delta":"a', "oops", '{"a":NaN}', "[" * 5000]
)
def test_broken_json_fails_the_response(data: str) -> None:
    told = play(*whole_message(["a"])[:3], data, completed())
    assert told.response["status"] == "failed"
    assert "JSON" in told.response["error"]["message"]


def test_nesting_that_could_not_be_written_again_fails_the_response() -> None:
    deep = (
        '{"type":"response.output_item.added","item":{"type":"x","a":'
        + "[" * 300
        + "]" * 300
        + "}}"
    )
    assert play(deep).response["status"] == "failed"


def test_braces_inside_a_delta_are_text() -> None:
    assert play(text("{[" * 500), completed()).deltas("output_text") == ["{[" * 500]


def test_halves_of_a_surrogate_pair_join_over_deltas() -> None:
    halves = [
        '{"type":"response.output_text.delta","item_id":"m","delta":"a\\ud83d"}',
        '{"type":"response.output_text.delta","item_id":"m","delta":"\\ude00b"}',
    ]
    told = play(*halves, completed())
    assert told.output[0]["content"][0]["text"] == "a😀b"


def test_a_lone_surrogate_becomes_one_replacement_character() -> None:
    lone = '{"type":"response.output_text.delta","item_id":"m\\ud800","delta":"%s"}'
    assert (
        play(lone % "x\\ud83d", lone % "y", completed()).output[0]["content"][0]["text"]
        == "x\ufffdy"
    )
    assert play(lone % "x\\ud83d", completed()).output[0]["content"][0]["text"] == "x\ufffd"
    assert play(lone % "\\ude00", completed()).output[0]["content"][0]["text"] == "\ufffd"


def test_invalid_utf8_becomes_replacement_characters() -> None:
    raw = b'data: {"type":"response.output_text.delta","item_id":"m","delta":"a\xffb"}'
    assert play(raw, completed()).deltas("output_text") == ["a\ufffdb"]


def test_a_whole_json_body_is_shown_as_a_stream() -> None:
    body = {
        "id": "resp_up", "object": "response", "status": "completed", "error": None,
        "output": [message("m", "Hi"), call("exec", '{"input":"ls"}', status="completed")],
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    }  # fmt: skip
    told = play(json.dumps(body, indent=2).encode(), tools=[CUSTOM])
    assert told.item_types()[:6] == MESSAGE_LIFE
    assert [i["type"] for i in told.output] == ["message", "custom_tool_call"]
    assert told.response["usage"]["total_tokens"] == 3


def test_a_whole_json_body_without_a_known_status_or_with_an_error_is_a_failure() -> None:
    assert play(b'{"object":"response","output":[]}').response["status"] == "failed"
    assert play(b'{"error":{"message":"no","code":null}}').response["error"]["message"] == "no"


@pytest.mark.parametrize("line", ["", "event: message\n"])
def test_a_whole_json_body_that_failed_shows_its_output_before_its_error(line: str) -> None:
    body = {
        "object": "response", "status": "failed", "output": [message("m", "Hi")],
        "error": {"code": "rate_limit_exceeded", "message": "slow down"},
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    }  # fmt: skip
    told = play(f"{line}data: {json.dumps(body)}".encode())
    assert told.item_types()[:6] == MESSAGE_LIFE
    assert told.response["status"] == "failed"
    assert told.response["error"] == body["error"]
    assert told.response["usage"]["total_tokens"] == 3


# ---- items and ids ------------------------------------------------------------------------------


def test_ids_and_indexes_that_are_missing_everywhere() -> None:
    told = play(
        ev("output_item.added", item={"type": "message", "role": "assistant", "content": []}),
        ev("output_text.delta", delta="a"),
        ev(
            "output_item.done",
            item={"type": "message", "content": [{"type": "output_text", "text": "a"}]},
        ),
        ev("output_item.added", item={"type": "function_call", "name": "f", "arguments": ""}),
        ev("function_call_arguments.delta", delta="{}"),
        ev("output_item.done", item={"type": "function_call", "name": "f", "arguments": "{}"}),
        completed(),
    )
    assert told.output[1]["call_id"].startswith("call_")
    assert [i["type"] for i in told.output] == ["message", "function_call"]


def test_ids_that_only_the_deltas_name_and_calls_that_only_their_call_id_tells_apart() -> None:
    def bare(call_id: str, arguments: str = "") -> dict[str, Any]:
        return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}

    told = play(
        added(bare("c1"), None), args('{"a":1}', None, "x1"), added(bare("c2"), None), args('{"a":2}', None, "x2"),
        done(bare("c1", '{"a":1}'), None), done(bare("c2", '{"a":2}'), None), completed(),
    )  # fmt: skip
    assert [(i["call_id"], i["arguments"]) for i in told.output] == [
        ("c1", '{"a":1}'),
        ("c2", '{"a":2}'),
    ]


def test_an_id_that_changes_between_added_and_done_is_found_by_its_index() -> None:
    told = play(
        added(message("a", status="in_progress")),
        text("x", 0, "b"),
        done(message("c", "x")),
        completed(),
    )
    assert len(told.output) == 1


def test_the_announced_call_id_stands() -> None:
    told = play(
        added(call("get_weather", call_id="first")), args("{}"),
        done(call("other", "{}", call_id="second")), completed(tools=[FUNCTION]),
    )  # fmt: skip
    assert (told.output[0]["call_id"], told.output[0]["name"]) == ("first", "get_weather")


def test_two_calls_with_one_call_id_get_different_ones_and_a_number_becomes_text() -> None:
    told = play(
        *whole_call("f", "{}", 0, "a", "same"), *whole_call("f", "{}", 1, "b", "same"), completed()
    )
    first, second = (i["call_id"] for i in told.output)
    assert first == "same"
    assert second.startswith("call_")
    numeric = play(added({**call("f"), "call_id": 7}), args("{}"), completed())
    assert numeric.output[0]["call_id"] == "7"


@pytest.mark.parametrize("index", [-1, 1.5, "0", True])
def test_an_output_index_that_is_no_index_is_a_protocol_fault(index: Any) -> None:
    told = play(ev("output_item.added", item=message(), output_index=index))
    assert told.response["status"] == "failed"


def test_a_second_live_item_on_one_index_is_a_protocol_fault_and_an_equal_repeat_is_none() -> None:
    first = added(message("a", status="in_progress"))
    assert play(first, added(message("b", status="in_progress"))).response["status"] == "failed"
    assert play(first, first, text("x", 0, "a"), completed()).response["status"] == "completed"


def test_an_index_that_is_used_again_after_its_item_ended_is_a_new_item() -> None:
    told = play(*whole_message(["a"], 0, "m1"), *whole_message(["b"], 0, "m2"), completed())
    assert [i["content"][0]["text"] for i in told.output] == ["a", "b"]


def test_a_differing_second_done_is_a_protocol_fault_and_an_equal_one_is_none() -> None:
    events = whole_message(["a"])
    assert play(*events, events[-1], completed()).response["status"] == "completed"
    assert play(*events, done(None), completed()).response["status"] == "completed"
    assert play(*events, done(message("msg_up", "b")), completed()).response["status"] == "failed"


@pytest.mark.parametrize("item", [None, 5, [], {}])
def test_items_that_are_no_items(item: Any) -> None:
    told = play(
        ev("output_item.added", item=item, output_index=0), *whole_message(["a"]), completed()
    )
    assert told.response["status"] == ("completed" if item is None else "failed")
    told = play(ev("output_item.done", item=item, output_index=0), completed())
    assert told.response["status"] == ("completed" if item in (None, {}) else "failed")


def test_an_item_without_a_type_is_known_by_its_keys() -> None:
    assert (
        play(done({"id": "m", "content": [{"type": "text", "text": "a"}]}), completed()).output[0][
            "type"
        ]
        == "message"
    )
    assert (
        play(done({"id": "c", "name": "f", "arguments": "{}"}), completed()).output[0]["type"]
        == "function_call"
    )


def test_an_item_that_changes_its_type_is_a_protocol_fault() -> None:
    assert play(added(message("a")), done(call("f", "{}", "a"))).response["status"] == "failed"
    assert play(text("x", 0, "a"), added(call("f", ident="a"))).response["status"] == "failed"


def test_an_item_that_was_never_closed_is_closed_before_the_end() -> None:
    told = play(added(message(status="in_progress")), text("a"), completed())
    assert told.item_types() == MESSAGE_LIFE


def test_an_item_that_the_upstream_runs_itself_is_shown_as_it_is() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_up",
        "status": "in_progress",
        "action": {"type": "search"},
    }
    place = {"item_id": "ws_up", "output_index": 0}
    told = play(
        added(search), ev("web_search_call.in_progress", **place), ev("web_search_call.searching", **place),
        ev("web_search_call.extension", **place), ev("web_search_call.completed", **place),
        done({**search, "status": "completed", "action": {"type": "search", "query": "q"}}), completed(),
    )  # fmt: skip
    assert told.item_types() == [
        "output_item.added", "web_search_call.in_progress", "web_search_call.searching",
        "web_search_call.completed", "output_item.done",
    ]  # fmt: skip
    assert told.output[0]["action"] == {"type": "search", "query": "q"}
    assert b"ws_up" not in b"".join(told.frames)


def test_an_item_of_an_unknown_type_is_shown_added_and_done() -> None:
    told = play(
        added({"type": "program", "id": "p", "call_id": "c"}),
        done({"type": "program", "id": "p", "call_id": "d", "code": "x"}),
        completed(),
    )
    assert told.item_types() == ["output_item.added", "output_item.done"]
    assert told.output[0]["call_id"] == "c"


def test_a_hosted_item_that_was_cut_is_incomplete_and_a_failed_one_stays_failed() -> None:
    search = {"type": "web_search_call", "id": "w", "status": "in_progress"}
    assert play(added(search)).output[0]["status"] == "incomplete"
    assert play(done({**search, "status": "failed"}), completed()).output[0]["status"] == "failed"


# ---- text ---------------------------------------------------------------------------------------


def test_a_message_that_is_only_done_gets_its_whole_lifecycle() -> None:
    told = play(done(message("m", "Hi")), completed())
    assert told.item_types() == MESSAGE_LIFE


def test_missing_parts_and_dones_are_made_up() -> None:
    told = play(text("a", None, "m"), text("b", None, "m"), completed())
    assert told.deltas("output_text") == ["a", "b"]
    assert told.item_types()[-3:] == MESSAGE_LIFE[-3:]


def test_a_content_index_that_grows_with_each_delta_is_one_part() -> None:
    told = play(
        added(message(status="in_progress")), text("He", content_index=0), text("ll", content_index=1),
        text("o", content_index=2), ev("output_text.done", item_id="msg_up", output_index=0, content_index=3, text="Hello"),
        done(message("msg_up", "Hello")), completed(),
    )  # fmt: skip
    assert {e["content_index"] for e in told.events if "content_index" in e} == {0}


def test_two_parts_and_a_refusal_are_three_parts() -> None:
    def part(index: int, kind: str) -> dict[str, Any]:
        return ev(
            "content_part.added",
            item_id="msg_up",
            output_index=0,
            content_index=index,
            part={"type": kind},
        )

    told = play(
        added(message(status="in_progress")), part(0, "output_text"), text("a"),
        ev("content_part.done", item_id="msg_up", output_index=0, content_index=0,
           part={"type": "output_text", "text": "a"}),
        part(1, "output_text"), text("b", content_index=1), part(2, "refusal"),
        ev("refusal.delta", item_id="msg_up", output_index=0, content_index=2, delta="no"), completed(),
    )  # fmt: skip
    assert [p.get("text", p.get("refusal")) for p in told.output[0]["content"]] == ["a", "b", "no"]


def test_text_that_only_came_with_added_counts_at_the_end() -> None:
    told = play(
        added(message(status="in_progress")),
        ev(
            "content_part.added",
            item_id="msg_up",
            output_index=0,
            content_index=0,
            part={"type": "output_text", "text": "all"},
        ),
        completed(),
    )
    assert told.deltas("output_text") == ["all"]


def test_a_done_text_that_extends_the_streamed_one_brings_the_rest() -> None:
    told = play(*whole_message(["Hel"])[:3], done(message("msg_up", "Hello")), completed())
    assert told.deltas("output_text") == ["Hel", "lo"]


def test_a_done_text_that_contradicts_the_streamed_one_is_counted_and_loses() -> None:
    told = play(*whole_message(["Hel"])[:3], done(message("msg_up", "Bye")), completed())
    assert told.output[0]["content"][0]["text"] == "Hel"
    assert [n.name for n in told.notes if n.kind == "tolerated"] == [
        "finished text differs from the streamed one"
    ]


def test_closing_events_of_an_item_that_was_never_opened() -> None:
    empty = [
        ev("output_text.done", output_index=1, item_id="x", content_index=0, text=""),
        ev(
            "content_part.done",
            output_index=1,
            item_id="x",
            content_index=0,
            part={"type": "output_text", "text": ""},
        ),
        ev("content_part.done", output_index=1, item_id="x", content_index=0, part=None),
        ev("content_part.added", output_index=1, item_id="x", content_index=0, part=None),
        done(message("x", ""), 1),
    ]
    assert len(play(*whole_message(["a"]), *empty, completed()).output) == 1
    said = ev("output_text.done", output_index=1, item_id="x", content_index=0, text="said")
    assert play(*whole_message(["a"]), said, completed()).output[1]["content"][0]["text"] == "said"


def test_text_for_an_item_that_ended_is_a_protocol_fault_and_a_late_done_is_none() -> None:
    events = whole_message(["a"])
    assert play(*events, text("b")).response["status"] == "failed"
    late = ev("output_text.done", item_id="msg_up", output_index=0, content_index=0, text="a")
    assert play(*events, late, completed()).response["status"] == "completed"


@pytest.mark.parametrize("delta", [5, ["a"], {"a": 1}])
def test_a_delta_that_is_no_text_is_a_protocol_fault(delta: Any) -> None:
    assert play(ev("output_text.delta", item_id="m", delta=delta)).response["status"] == "failed"
    assert (
        play(ev("function_call_arguments.delta", item_id="m", delta=delta)).response["status"]
        == "failed"
    )


def test_deltas_that_say_nothing_show_nothing() -> None:
    told = play(
        *whole_message(["a"])[:3],
        text(""),
        ev("output_text.delta", item_id="msg_up"),
        ev("function_call_arguments.delta"),
        completed(),
    )
    assert told.deltas("output_text") == ["a"]


def test_a_content_part_of_an_unknown_type_is_a_protocol_fault() -> None:
    part = ev(
        "content_part.added",
        item_id="m",
        output_index=0,
        content_index=0,
        part={"type": "hologram"},
    )
    assert play(part).response["status"] == "failed"


def test_logprobs_are_on_the_deltas_and_all_of_them_on_the_done() -> None:
    one, two = {"token": "a", "logprob": -1}, {"token": "b", "logprob": -2}
    told = play(
        added(message(status="in_progress")), text("x"), {**text("a"), "logprobs": [one]},
        {**text("b"), "logprobs": [two]}, completed(),
    )  # fmt: skip
    assert [e["logprobs"] for e in told.of("output_text.delta")] == [[], [one], [two]]
    assert told.of("output_text.done")[0]["logprobs"] == [one, two]
    assert told.output[0]["content"][0]["logprobs"] == [one, two]


def test_annotations_are_announced_once_whether_streamed_or_only_at_the_end() -> None:
    cite = {
        "type": "url_citation",
        "url": "https://a",
        "title": "A",
        "start_index": 0,
        "end_index": 1,
    }
    end = message("msg_up", "x")
    end["content"][0]["annotations"] = [cite, {**cite, "url": "https://b"}]
    streamed = ev(
        "output_text.annotation.added",
        item_id="msg_up",
        output_index=0,
        content_index=0,
        annotation=cite,
    )
    told = play(*whole_message(["x"])[:3], streamed, streamed, done(end), completed())
    assert [e["annotation_index"] for e in told.of("output_text.annotation.added")] == [0, 1]
    assert told.output[0]["content"][0]["annotations"] == end["content"][0]["annotations"]


CITE = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 1}
PLACE = {"item_id": "msg_up", "output_index": 0, "content_index": 0}


@pytest.mark.parametrize("before", [4, 5, 6], ids=["text.done", "part.done", "item.done"])
def test_an_annotation_behind_the_end_of_its_text_doubles_nothing(before: int) -> None:
    late = ev("output_text.annotation.added", annotation=CITE, **PLACE)
    events = whole_message(["see u"])
    told = play(*events[:before], late, *events[before:], completed())
    (part,) = told.output[0]["content"]
    assert part["text"] == "see u"
    shown = [CITE] if before == 4 else []  # behind the part's end it cannot be shown any more
    assert part["annotations"] == shown
    assert [e["annotation"] for e in told.of("output_text.annotation.added")] == shown


@pytest.mark.parametrize("teller", ["content_part.done", "output_item.done"])
def test_annotations_and_logprobs_that_only_the_part_or_the_item_tells_behind_its_text_are_kept(
    teller: str,
) -> None:
    detail = {"annotations": [CITE], "logprobs": [{"token": "x"}]}
    told_whole = {"type": "output_text", "text": "x", **detail}
    end = message("msg_up", "x")
    if teller == "output_item.done":
        end["content"] = [told_whole]
    life = [*whole_message(["x"])[:3], ev("output_text.done", text="x", **PLACE)]
    if teller == "content_part.done":
        life.append(ev(teller, part=told_whole, **PLACE))
    told = play(*life, done(end), completed())
    (part,) = told.output[0]["content"]
    assert {name: part[name] for name in detail} == detail
    assert [e["annotation"] for e in told.of("output_text.annotation.added")] == [CITE]
    assert told.of("output_text.done")[0]["logprobs"] == detail["logprobs"]


def test_a_part_whose_end_is_not_told_closes_before_the_next_one_opens() -> None:
    first, second = PLACE, {**PLACE, "content_index": 1}
    told = play(
        added(message()),
        text("a"),
        ev("output_text.done", text="a", **first),
        text("b", content_index=1),
        ev("output_text.done", text="b", **second),
        done(message("msg_up", None)),
        completed(),
    )
    assert [part["text"] for part in told.output[0]["content"]] == ["a", "b"]
    kinds = [e["type"].removeprefix("response.") for e in told.events if "part" in e["type"]]
    assert kinds == ["content_part.added", "content_part.done"] * 2


@pytest.mark.parametrize("nothing", [{}, {"annotation": None}])
def test_an_annotation_event_without_an_annotation_announces_nothing(
    nothing: dict[str, None],
) -> None:
    empty = ev("output_text.annotation.added", item_id="msg_up", output_index=0, **nothing)
    told = play(added(message()), text("a"), empty, completed())
    assert told.of("output_text.annotation.added") == []
    assert told.output[0]["content"][0]["annotations"] == []


def test_a_phase_is_kept() -> None:
    said = {**message("msg_up", "x"), "phase": "commentary"}
    told = play(
        added({**said, "content": [], "status": "in_progress"}), text("x"), done(said), completed()
    )
    assert told.output[0]["phase"] == "commentary"


# ---- reasoning ----------------------------------------------------------------------------------


def test_vllms_reasoning_parts_become_content_parts() -> None:
    place = {"item_id": "rs_up", "output_index": 0, "content_index": 0}
    item = {
        "type": "reasoning",
        "id": "rs_up",
        "summary": None,
        "content": None,
        "encrypted_content": None,
    }
    told = play(
        added({**item, "status": "in_progress"}),
        ev("reasoning_part.added", part={"type": "reasoning_text", "text": ""}, **place),
        ev("reasoning_text.delta", delta="hm", **place), ev("reasoning_text.done", text="hm", **place),
        ev("reasoning_part.done", part={"type": "reasoning_text", "text": "hm"}, **place),
        done({**item, "content": [{"type": "reasoning_text", "text": "hm"}]}), completed(),
    )  # fmt: skip
    assert told.item_types() == [
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done",
        "content_part.done", "output_item.done",
    ]  # fmt: skip
    assert told.output[0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert told.output[0]["summary"] == []
    assert "encrypted_content" not in told.output[0]


def test_summaries_have_indexes_of_their_own_and_encrypted_content_is_kept() -> None:
    place = {"item_id": "rs_up", "output_index": 0}
    item = {"type": "reasoning", "id": "rs_up", "encrypted_content": "opaque"}
    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    told = play(
        added(item),
        ev("reasoning_summary_part.added", summary_index=0, part={"type": "summary_text", "text": ""}, **place),
        ev("reasoning_summary_text.delta", summary_index=0, delta="a", **place),
        ev("reasoning_summary_text.done", summary_index=0, text="a", **place),
        ev("reasoning_summary_part.done", summary_index=0, part=summary[0], **place),
        ev("reasoning.delta", delta="raw", **place),
        ev("reasoning_summary_text.delta", summary_index=1, delta="b", **place),
        done({**item, "summary": summary}), completed(),
    )  # fmt: skip
    assert [e["summary_index"] for e in told.of("reasoning_summary_part.added")] == [0, 1]
    assert told.output[0]["summary"] == summary
    assert told.output[0]["content"] == [{"type": "reasoning_text", "text": "raw"}]
    assert told.output[0]["encrypted_content"] == "opaque"


def test_reasoning_text_in_a_message_is_a_protocol_fault() -> None:
    told = play(
        added(message(status="in_progress")),
        ev("reasoning_text.delta", item_id="msg_up", output_index=0, delta="x"),
    )
    assert told.response["status"] == "failed"


def test_a_reasoning_item_with_only_opaque_content_is_kept_and_an_empty_one_is_dropped() -> None:
    opaque = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
    assert len(play(done(opaque), completed()).output) == 1
    assert play(done({**opaque, "encrypted_content": None}), completed()).output == []


# ---- calls --------------------------------------------------------------------------------------


def test_arguments_before_added_are_held_and_released_with_the_announcement() -> None:
    told = play(
        args('{"a":'),
        added(call("f")),
        args("1}"),
        args_done('{"a":1}'),
        done(call("f", '{"a":1}')),
        completed(),
    )
    assert told.deltas("function_call_arguments") == ['{"a":', "1}"]


def test_arguments_done_is_the_only_carrier() -> None:
    told = play(added(call("f")), args_done('{"a":1}'), done(call("f", '{"a":1}')), completed())
    assert told.deltas("function_call_arguments") == ['{"a":1}']


def test_full_arguments_in_added_and_again_at_done_count_once() -> None:
    told = play(added(call("f", '{"a":1}')), done(call("f", '{"a":1}')), completed())
    assert told.of("output_item.added")[0]["item"]["arguments"] == ""
    assert told.output[0]["arguments"] == '{"a":1}'
    assert play(added(call("f", '{"a":1}')), completed()).output[0]["arguments"] == '{"a":1}'


def test_a_done_with_empty_arguments_leaves_the_deltas_standing() -> None:
    told = play(added(call("f")), args('{"a":1}'), args_done(""), done(call("f", "")), completed())
    assert told.output[0]["arguments"] == '{"a":1}'


def test_other_arguments_at_done_lose_against_whole_streamed_ones_and_are_a_fault_against_half() -> (
    None
):
    assert (
        play(added(call("f")), args('{"a":1}'), args_done('{"a":2}'), completed()).output[0][
            "arguments"
        ]
        == '{"a":1}'
    )
    assert (
        play(added(call("f")), args('{"a":'), args_done('{"b":2}')).response["status"] == "failed"
    )


def test_a_call_without_arguments_has_an_empty_object_and_a_custom_one_an_empty_input() -> None:
    told = play(
        *[e for e in whole_call("f", "") if e["type"] != "response.function_call_arguments.delta"],
        completed(),
    )
    assert told.deltas("function_call_arguments") == ["{}"]
    assert told.output[0]["arguments"] == "{}"
    told = play(*whole_call("exec", ""), completed(), tools=[CUSTOM])
    assert told.output[0]["input"] == ""


def test_arguments_that_are_an_object_are_taken_as_their_json() -> None:
    told = play(added(call("f")), done({**call("f"), "arguments": {"a": 1}}), completed())
    assert told.output[0]["arguments"] == '{"a":1}'


def test_an_empty_object_before_the_arguments_is_a_false_start_and_alone_it_is_the_arguments() -> (
    None
):
    told = play(
        added(call("f")),
        args("{}"),
        args('{"a":1}'),
        args_done('{"a":1}'),
        done(call("f", '{"a":1}')),
        completed(),
    )
    assert told.deltas("function_call_arguments") == ['{"a":1}']
    for end in ([args_done("{}"), done(call("f", "{}"))], [args_done("")], []):
        told = play(added(call("f")), args("{}"), *end, completed())
        assert told.deltas("function_call_arguments") == ["{}"]
    assert (
        play(added(call("f")), args("{}"), args(" "), completed()).output[0]["arguments"] == "{} "
    )
    assert (
        play(
            added(call("exec")), args("{}"), args('{"input":"x"}'), completed(), tools=[CUSTOM]
        ).output[0]["input"]
        == "x"
    )


def test_the_tail_of_an_open_call_after_the_next_item_was_opened() -> None:
    told = play(
        added(call("f", ident="f1")), args('{"a":', 0, "f1"), added(message("m", status="in_progress"), 1),
        text("x", 1, "m"),
        args("1}", 0, "f1"), args_done('{"a":1}', 0, "f1"), done(call("f", '{"a":1}', "f1")),
        done(message("m", "x"), 1), completed(),
    )  # fmt: skip
    assert [i["type"] for i in told.output] == ["function_call", "message"]
    assert told.output[0]["arguments"] == '{"a":1}'


def test_arguments_for_a_finished_call_or_a_message() -> None:
    events = whole_call("f", "{}")
    assert play(*events, args("{}")).response["status"] == "failed"
    assert play(*events, args_done("{}"), completed()).response["status"] == "completed"
    assert (
        play(added(message("fc_up", status="in_progress")), args("{}")).response["status"]
        == "failed"
    )


def test_an_upstreams_own_namespace_stays() -> None:
    told = play(added({**call("f"), "namespace": "ns"}), args("{}"), completed())
    assert told.output[0]["namespace"] == "ns"


def test_fifty_thousand_small_deltas_are_linear() -> None:
    told = play_only(
        [added(call("exec")), args('{"input":"'), *[args("x")] * 50_000, args('"}'), completed()]
    )
    assert len(told.output[0]["input"]) == 50_000


def play_only(events: list[dict[str, Any]]) -> Any:
    """Folded once: the ways of `play` are quadratic."""
    from tests.translator.drive import fold, upstream

    return fold(upstream(*events, tools=[CUSTOM]).entries)


def test_life_events_of_the_upstream_are_never_shown() -> None:
    told = play(
        created(),
        ev("in_progress", response={"id": "other"}),
        ev("queued"),
        *whole_message(["a"]),
        completed(),
    )
    assert told.types.count("in_progress") == 1
    assert b"resp_up" not in b"".join(told.frames)


def test_unknown_events_are_ignored_and_counted() -> None:
    told = play(
        ev("whatever", x=1), ev("odd.delta", item_id="msg_up"), *whole_message(["a"]), completed()
    )
    assert [(n.name, n.size) for n in told.notes if n.kind == "tolerated"] == [("unknown event", 2)]


def test_nothing_after_the_upstreams_end_is_taken() -> None:
    told = play(*whole_message(["a"]), completed(), *whole_message(["b"], 1, "m2"))
    assert len(told.output) == 1


def test_a_late_part_added_is_the_part_that_its_delta_opened() -> None:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    part = ev("content_part.added", part={"type": "output_text", "text": ""}, **place)
    told = play(text("a", 0, "m"), part, text("b", 0, "m"), completed())
    assert len(told.output[0]["content"]) == 1


def test_null_parts_and_details_of_other_types_say_nothing() -> None:
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    said = {
        **message("msg_up", "a"),
        "content": [None, {"type": "output_text", "text": "a", "logprobs": None}],
    }
    told = play(
        *whole_message(["a"])[:3], ev("output_text.done", part=None, **place),
        {**text("b", content_index=1), "logprobs": "none"}, done(said), completed(),
    )  # fmt: skip
    assert [part["text"] for part in told.output[0]["content"]] == ["a", "b"]


def test_a_text_done_whose_part_is_no_object_says_nothing_new() -> None:
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    told = play(text("ab"), ev("output_text.done", part="none", **place), completed())
    assert told.output[0]["content"][0]["text"] == "ab"


def test_logprobs_of_a_text_that_turns_out_to_be_reasoning_are_not_shown() -> None:
    thought = ev("reasoning_text.delta", delta="a", item_id="r", output_index=0)
    told = play(thought, {**text("b", 0, "m"), "logprobs": [{"token": "b"}]}, completed())
    assert told.deltas("reasoning_text") == ["a", "b"]
    assert told.of("output_text.delta") == []


def test_details_of_an_output_text_in_a_reasoning_item_are_not_shown() -> None:
    detail = {"annotations": [{"type": "url_citation", "url": "u"}], "logprobs": [{"token": "a"}]}
    whole = {"type": "output_text", "text": "ab", **detail}
    item = {"type": "reasoning", "id": "r", "content": [whole], "summary": []}
    thought = ev("reasoning_text.delta", delta="a", item_id="r", output_index=0)
    told = play(thought, done(item), completed())
    assert told.deltas("reasoning_text") == ["a", "b"]
    assert told.of("output_text.annotation.added") == told.of("output_text.delta") == []


def test_logprobs_that_only_the_done_item_tells_are_kept() -> None:
    said = message("msg_up", "a")
    said["content"][0]["logprobs"] = [{"token": "a", "logprob": -1}]
    told = play(done(said), completed())
    assert told.output[0]["content"][0]["logprobs"] == [{"token": "a", "logprob": -1}]


def test_lone_surrogates_anywhere_in_an_item_are_mended() -> None:
    item = '{"type":"program","fingerprint":"\\ud800","list":["\\ude00"]}'
    raw = '{"type":"response.output_item.done","output_index":0,"item":@}'.replace("@", item)
    (shown,) = play(raw, completed()).output
    assert (shown["fingerprint"], shown["list"]) == ("\ufffd", ["\ufffd"])
    assert play('["\\ud800"]', completed()).response["status"] == "completed"


def test_a_deeply_nested_item_fails_the_response_and_a_long_flat_one_does_not() -> None:
    deep: Any = 1
    for _ in range(230):
        deep = [deep]
    flat = [{"a": []}] * 300
    assert (
        play(done({"type": "program", "x": deep}))
        .response["error"]["message"]
        .endswith("nested too deeply.")
    )
    assert (
        play(json.dumps(flat), done({"type": "program", "x": flat}), completed()).response["status"]
        == "completed"
    )


def test_a_second_live_item_on_one_index_under_another_id_from_a_delta() -> None:
    told = play(
        added(message("a", status="in_progress")),
        added(call("f", ident="b"), 1),
        added(call("g", ident="a"), 1),
    )
    assert told.response["status"] == "failed"


def test_text_without_ids_skips_open_items_of_other_kinds() -> None:
    told = play(
        added(message("m", status="in_progress")), added(call("f", ident="c"), 1), ev("output_text.delta", delta="a"),
        ev("function_call_arguments.delta", delta="{}"),
        ev("output_item.done", item={"type": "reasoning", "content": []}), completed(),
    )  # fmt: skip
    assert [i["type"] for i in told.output] == ["message", "function_call"]


def test_a_done_without_its_item_closes_what_was_streamed() -> None:
    told = play(added(message(status="in_progress")), text("a"), done(None), completed())
    assert told.output[0]["content"][0]["text"] == "a"


def test_an_id_that_is_used_again_on_anothers_index_is_a_protocol_fault() -> None:
    told = play(
        *whole_message(["a"], 0, "a"),
        added(message("b", status="in_progress"), 1),
        added(message("a"), 1),
    )
    assert told.response["status"] == "failed"


def test_a_part_that_ended_before_its_message_was_cut_ends_once() -> None:
    told = play(*whole_message(["a"])[:5], ev("incomplete", response={}))
    assert told.types.count("content_part.done") == 1
    assert told.output[0]["status"] == "incomplete"


# ---- what a hostile reading found ---------------------------------------------------------------


@pytest.mark.parametrize("block", [b"data:", b"event: ping\ndata:", b"data: ", b"data:\ndata:"])
def test_an_event_with_empty_data_is_none(block: bytes) -> None:
    assert play(block, *whole_message(["a"]), completed()).response["status"] == "completed"


def test_a_text_that_only_the_part_or_the_item_tells_after_an_empty_done_is_streamed() -> None:
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "hello", "annotations": []}
    for told_text in ({"text": ""}, {}):
        empty = ev("output_text.done", **told_text, **place)
        by_part = [empty, ev("content_part.done", part=part, **place)]
        by_item = [empty, ev("content_part.done", part={**part, "text": ""}, **place)]
        for closing in (by_part, by_item):
            opened = whole_message(["x"])[:2]
            told = play(*opened, *closing, done(message("msg_up", "hello")), completed())
            assert told.deltas("output_text") == ["hello"]


@pytest.mark.parametrize("late", ["\n", '{"a":1}', "x"])
def test_whole_arguments_do_not_change_after_their_done(late: str) -> None:
    head = [added(call("f")), args('{"a":1}'), args_done('{"a":1}')]
    by_delta = play(*head, args(late), done(call("f", '{"a":1}')), completed())
    by_item = play(*head, done(call("f", '{"a":1}' + late)), completed())
    for told in (by_delta, by_item):
        assert told.deltas("function_call_arguments") == ['{"a":1}']
        assert told.output[0]["arguments"] == '{"a":1}'


def test_arguments_that_were_not_whole_at_their_done_may_still_grow() -> None:
    told = play(
        added(call("f")),
        args('{"a"'),
        args_done('{"a"'),
        args(":1}"),
        done(call("f", '{"a":1}')),
        completed(),
    )
    assert told.output[0]["arguments"] == '{"a":1}'


@pytest.mark.parametrize(
    "field",
    [
        '"delta":"\\ud800"',
        '"delta":' + "[" * 230 + "]" * 230,
        '"delta":"\\ud800","code":99999999999999999999999',
    ],
)
def test_what_a_hosted_event_brings_can_be_written_again_or_fails_the_response(field: str) -> None:
    item = {"type": "code_interpreter_call", "id": "ci", "status": "in_progress", "code": ""}
    raw = '{"type":"response.code_interpreter_call_code.delta","item_id":"ci","output_index":0,@}'.replace(
        "@", field
    )
    told = play(added(item), raw, completed())
    assert told.response["status"] in ("completed", "failed")


def test_integers_past_64_bits_become_floats_and_infinite_ones_are_broken_json() -> None:
    odd = '{"type":"response.output_item.done","output_index":0,"item":{"type":"program","s":"\\ud800","n":@}}'
    big = play(odd.replace("@", "9" * 30), completed()).output[0]["n"]
    assert isinstance(big, float)
    assert play(odd.replace("@", "1e999")).response["status"] == "failed"
    assert play(odd.replace("@", "9" * 400)).response["status"] == "failed"


def test_a_hosted_event_says_no_more_than_its_kind_does() -> None:
    search = {"type": "web_search_call", "id": "w", "status": "in_progress"}
    odd = ev(
        "web_search_call.searching",
        item_id="w",
        output_index=0,
        error={"x": 1},
        response_id="resp_up",
    )
    told = play(added(search), odd, completed())
    assert set(told.of("web_search_call.searching")[0]) == {
        "type",
        "sequence_number",
        "item_id",
        "output_index",
    }


@pytest.mark.parametrize("item_type", ["banana", "line\nbreak"])
def test_an_item_of_a_type_that_nobody_knows_is_a_protocol_fault(item_type: str) -> None:
    assert play(added({"type": item_type, "id": "x"})).response["status"] == "failed"
    assert play(done({"type": item_type, "id": "x"})).response["status"] == "failed"


@pytest.mark.parametrize("reason", ["host gpu.internal key sk-1234567890", 5, "x" * 100])
def test_an_incomplete_reason_that_is_no_word_of_the_api_is_not_passed_on(reason: Any) -> None:
    end = ev("incomplete", response={"incomplete_details": {"reason": reason}})
    assert play(end).response["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_call_outside_allowed_tools_never_shows_and_is_counted() -> None:
    choice = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "get_weather"}],
    }
    told = play(
        *whole_call("exec", '{"input":"x"}'),
        *whole_call("get_weather", "{}", 1, "f2", "c2"),
        *whole_call("nobody_declared", "{}", 2, "f3", "c3"),
        completed(),
        tools=[CUSTOM, FUNCTION],
        tool_choice=choice,
    )
    assert [i["name"] for i in told.output] == ["get_weather"]
    assert len([n for n in told.notes if n.kind == "call of a tool that is not allowed"]) == 2


def test_thousands_of_parts_items_and_annotations_are_linear() -> None:
    place = {"item_id": "m", "output_index": 1}
    parts = [
        ev("content_part.added", content_index=n, part={"type": "output_text", "text": ""}, **place)
        for n in range(1000)
    ]
    notes = [
        ev(
            "output_text.annotation.added",
            content_index=0,
            annotation={"type": "t", "n": n},
            **place,
        )
        for n in range(1000)
    ]
    behind = [done(message(f"x{n}", "y"), n + 2) for n in range(1000)]
    first = added(call(None, ident="f"), 0)
    named = done(call("f", "{}", "f"), 0)
    told = play_only([first, *parts, *notes, *behind, named, completed()])
    assert len(told.output) == 1002


def test_a_large_input_of_escapes_is_decoded_quickly_and_right() -> None:
    text = "line\n" * 200_000
    arguments = json.dumps({"input": text})
    told = play_only(
        [
            added(call("exec")),
            args(arguments),
            args_done(arguments),
            done(call("exec", arguments)),
            completed(),
        ]
    )
    assert told.output[0]["input"] == text


@pytest.mark.parametrize("carrier", ["item_id", "call_id"])
@pytest.mark.parametrize("ids", [True, False])
def test_a_call_that_is_told_by_its_call_id_is_that_call(carrier: str, ids: bool) -> None:
    """llama.cpp#20607: deltas name the call by its call id; by order alone two calls would swap their arguments."""
    calls = {"fc_a": ("get_weather", '{"x":1}'), "fc_b": ("get_time", '{"y":2}')}
    items = {
        ident: {**call(name, call_id=ident), "id": f"id_{ident}" if ids else None}
        for ident, (name, _) in calls.items()
    }
    tell = {"function_call_arguments.delta": "delta", "function_call_arguments.done": "arguments"}
    told = play(
        *(added(item, None) for item in items.values()),
        *(
            ev(kind, **{field: calls[ident][1], carrier: ident})
            for kind, field in tell.items()
            for ident in items
        ),
        *(done({**item, "arguments": calls[ident][1]}, None) for ident, item in items.items()),
        completed(),
        tools=[FUNCTION, {**FUNCTION, "name": "get_time"}],
    )
    assert told.response["status"] == "completed"
    assert [(i["name"], i["arguments"]) for i in told.output] == list(calls.values())


@pytest.mark.parametrize("said", [{"type": None}, {}])
def test_an_item_whose_end_does_not_say_its_type_is_the_one_that_is_known(
    said: dict[str, None],
) -> None:
    end = {k: v for k, v in message("msg_up", "a").items() if k != "type"} | said
    told = play(added(message()), text("a"), done(end), completed())
    assert told.response["status"] == "completed"
    assert told.output[0]["content"][0]["text"] == "a"


@pytest.mark.parametrize("blank", ["", "\n"])
def test_blanks_behind_the_end_of_a_message_fail_nothing(blank: str) -> None:
    told = play(*whole_message(["a"]), text(blank), completed())
    assert told.response["status"] == "completed"
    assert told.output[0]["content"][0]["text"] == "a"


@pytest.mark.parametrize("ident", [None, ""])
def test_a_done_that_is_told_again_without_id_and_index_is_no_second_call(
    ident: str | None,
) -> None:
    first, second = (
        {**call("get_weather", '{"x":1}', call_id=c, status="completed"), "id": ident} for c in "cd"
    )
    told = play(
        added({**first, "arguments": "", "status": "in_progress"}, None),
        done(first, None),
        done(first, None),
        added({**second, "arguments": "", "status": "in_progress"}, None),
        done(first, None),
        done(second, None),
        completed(),
    )
    assert told.response["status"] == "completed"
    assert [item["call_id"] for item in told.output] == ["c", "d"]


HOSTED = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t"}


def hosted(kind: str, **fields: Any) -> dict[str, Any]:
    return ev(f"mcp_call_arguments.{kind}", item_id="mcp_1", output_index=0, **fields)


@pytest.mark.parametrize("begun", ["", '{"a":1}'])
@pytest.mark.parametrize("pieces", [(), ('{"a"', ":1}"), ('{"a"',)])
@pytest.mark.parametrize("told", [True, False])
def test_arguments_of_a_call_that_the_upstream_runs_are_streamed_and_ended_once(
    begun: str, pieces: tuple[str, ...], told: bool
) -> None:
    whole = '{"a":1}'
    play_out = play(
        added({**HOSTED, "arguments": begun, "status": "in_progress"}),
        *(hosted("delta", delta=piece) for piece in pieces),
        *([hosted("done", arguments=whole)] * 2 if told else ()),
        done({**HOSTED, "arguments": whole, "output": "x", "status": "completed"}),
        completed(),
    )
    assert play_out.of("output_item.added")[0]["item"]["arguments"] == ""
    assert "".join(play_out.deltas("mcp_call_arguments")) == whole
    assert [e["arguments"] for e in play_out.of("mcp_call_arguments.done")] == [whole]
    assert play_out.output[0]["arguments"] == whole


def test_a_call_that_the_upstream_runs_and_does_not_end_has_what_was_streamed() -> None:
    told = play(
        added({**HOSTED, "arguments": "", "status": "in_progress"}),
        hosted("delta", delta='{"a"'),
        hosted("delta", delta=5),
        ev("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}}),
    )
    (item,) = told.output
    assert (item["status"], item["arguments"]) == ("incomplete", '{"a"')


def test_a_whole_that_is_not_what_was_streamed_takes_nothing_back() -> None:
    told = play(
        added({**HOSTED, "arguments": "", "status": "in_progress"}),
        hosted("delta", delta='{"a"'),
        done({**HOSTED, "arguments": "{}", "status": "completed"}),
        completed(),
    )
    assert (
        told.of("mcp_call_arguments.done")[0]["arguments"] == told.output[0]["arguments"] == '{"a"'
    )


def test_code_that_the_upstream_runs_is_streamed_likewise() -> None:
    code = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "c", "outputs": None}
    told = play(
        added({**code, "code": None, "status": "in_progress"}),
        done({**code, "code": "print(1)", "status": "completed"}),
        completed(),
    )
    assert told.deltas("code_interpreter_call_code") == ["print(1)"]
    assert (
        told.of("code_interpreter_call_code.done")[0]["code"]
        == told.output[0]["code"]
        == "print(1)"
    )
