"""A response as a fold: the seeds' requirements, and upstreams that misbehave (upstream-quirks.md section 3)."""

from typing import Any

import pytest

from tests.translator.drive import (
    CUSTOM,
    FUNCTION,
    RID,
    START_MS,
    Log,
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
    request_entry,
    text,
    upstream,
    whole_call,
    whole_message,
)
from translator.machine import ForeignLog, Machine
from translator.protocol.entries import Entry
from translator.step import Reopen

CUSTOM_LIFE = [
    "output_item.added",
    "custom_tool_call_input.delta",
    "custom_tool_call_input.done",
    "output_item.done",
]


# ---- the response's life ------------------------------------------------------------------------


def test_a_foreground_response_begins_created_and_in_progress() -> None:
    told = play(created(), *whole_message(["Hel", "lo"]), completed())
    assert told.types == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [e["response"]["status"] for e in told.events[:2]] == ["in_progress"] * 2
    assert told.response["status"] == "completed"
    assert told.response["created_at"] == START_MS // 1000
    assert told.response["completed_at"] >= told.response["created_at"]
    assert told.output[0]["content"][0]["text"] == "Hello"


def test_a_background_response_is_queued_until_the_first_attempt() -> None:
    log = Log(background=True)
    assert [e["response"]["status"] for e in fold(log.entries).events] == ["queued", "queued"]
    log.attempt()
    assert fold(log.entries).types == ["created", "queued", "in_progress"]


def test_the_terminal_frame_holds_the_stored_response() -> None:
    told = play(*whole_message(["x"]), completed())
    assert told.events[-1]["response"] == told.response
    assert told.response["id"] == RID


def test_created_and_the_end_show_the_clients_own_tools_and_choice() -> None:
    choice = {"type": "custom", "name": "exec"}
    told = play(
        *whole_call("exec", '{"input":"ls"}'), completed(), tools=[CUSTOM], tool_choice=choice
    )
    for event in (told.events[0], told.events[1], told.events[-1]):
        assert event["response"]["tools"] == [CUSTOM]
        assert event["response"]["tool_choice"] == choice


def test_nothing_follows_the_terminal_frame() -> None:
    log = upstream(*whole_message(["x"]), completed())
    log.frames(text("late")).add("cancel", {"reason": "client"}).end("reset")
    told = fold(log.entries)
    assert told.types.count("completed") == 1
    assert told.types[-1] == "completed"


def test_a_log_that_does_not_begin_with_our_request_is_refused() -> None:
    foreign = request_entry().replace(b'"version": 1', b'"version": 99')
    for entry in (
        Entry(1, "request", 0, foreign),
        Entry(1, "frame", 0, b"data: 1"),
        Entry(1, "cancel", 0, b"{}"),
    ):
        with pytest.raises(ForeignLog):
            Machine(RID).feed(entry)


# ---- custom tools (seeds 000 and 001) -----------------------------------------------------------


def test_a_custom_call_streams_as_input_deltas_under_one_id_and_no_function_event_shows() -> None:
    told = play(
        created(),
        added(call("exec")),
        *[args(piece) for piece in ('{"input":"CUSTOM', "_C", "AS", "SET", "TE", "_OK", '"}')],
        args_done('{"input":"CUSTOM_CASSETTE_OK"}', name="exec"),
        done(call("exec", '{"input":"CUSTOM_CASSETTE_OK"}', status="completed")),
        completed(),
        tools=[CUSTOM],
    )
    assert told.deltas("custom_tool_call_input") == ["CUSTOM", "_C", "AS", "SET", "TE", "_OK"]
    assert told.item_types() == [CUSTOM_LIFE[0], *[CUSTOM_LIFE[1]] * 6, *CUSTOM_LIFE[2:]]
    (item,) = told.output
    assert item["id"].startswith("ctc_")
    assert item | {"id": ""} == {
        "id": "", "type": "custom_tool_call", "status": "completed", "call_id": "call_up",
        "name": "exec", "input": "CUSTOM_CASSETTE_OK",
    }  # fmt: skip
    assert b"function_call" not in b"".join(told.frames)
    assert b"fc_up" not in b"".join(told.frames)


def test_a_custom_call_does_not_delay_what_follows() -> None:
    log = upstream(
        added(call("exec")),
        args('{"input":"a'),
        added(message("m2", status="in_progress"), 1),
        text("b", 1, "m2"),
        tools=[CUSTOM],
    )
    types = fold(log.entries[:-1]).item_types()
    assert types == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
    ]


def test_an_ordinary_function_and_an_undeclared_name_stay_function_calls() -> None:
    for tools in ([FUNCTION], []):
        told = play(*whole_call("get_weather", '{"city":"Oslo"}'), completed(), tools=tools)
        assert told.item_types() == [
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
        ]
        assert told.of("function_call_arguments.done")[0]["name"] == "get_weather"
        assert told.output[0]["id"].startswith("fc_")


def test_a_done_only_custom_call_after_reasoning_gets_its_whole_lifecycle_in_order() -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_up",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    told = play(
        done(reasoning, 0),
        done(call("exec", '{"input":"ls"}', status="completed"), 1),
        completed(),
        tools=[CUSTOM],
    )
    assert told.item_types() == [
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done",
        "content_part.done", "output_item.done", *CUSTOM_LIFE,
    ]  # fmt: skip


def test_a_native_custom_call_without_input_events_gets_them() -> None:
    native = {
        "type": "custom_tool_call",
        "id": "x",
        "call_id": "c",
        "name": "exec",
        "input": "ls",
        "status": "completed",
    }
    told = play(
        added({**native, "input": "", "status": "in_progress"}),
        done(native),
        completed(),
        tools=[CUSTOM],
    )
    assert told.item_types() == CUSTOM_LIFE
    assert told.output[0]["input"] == "ls"


def test_a_native_custom_call_streams_its_input() -> None:
    native = {"type": "custom_tool_call", "id": "x", "call_id": "c", "name": "exec", "input": ""}
    place = {"item_id": "x", "output_index": 0}
    told = play(
        added(native),
        ev("custom_tool_call_input.delta", delta="l", **place),
        ev("custom_tool_call_input.delta", delta="s", **place),
        ev("custom_tool_call_input.done", input="ls", **place),
        done({**native, "input": "ls"}),
        completed(),
    )
    assert told.deltas("custom_tool_call_input") == ["l", "s"]


def test_a_raw_fallback_is_observable_and_holds_no_content() -> None:
    told = play(*whole_call("exec", '{"patch":"secret"}'), completed(), tools=[CUSTOM])
    assert told.output[0]["input"] == '{"patch":"secret"}'
    (note,) = [n for n in told.notes if n.kind == "custom input without its envelope"]
    assert (note.name, note.size) == ("exec", 18)


# ---- unnamed calls and the boundary -------------------------------------------------------------


def test_a_held_call_whose_done_brings_a_new_id_comes_out_whole_under_one_id() -> None:
    told = play(
        created(),
        added(call("", ident="tmp_1", call_id="")),
        args('{"input":"ls', ident="tmp_1"),
        args(' -l"}', ident="tmp_1"),
        done(call("exec", '{"input":"ls -l"}', "fc_9", "call_9", "completed")),
        completed(),
        tools=[CUSTOM],
    )
    assert told.item_types() == [CUSTOM_LIFE[0], CUSTOM_LIFE[1], CUSTOM_LIFE[1], *CUSTOM_LIFE[2:]]
    assert told.deltas("custom_tool_call_input") == ["ls", " -l"]
    assert told.output[0]["call_id"] == "call_9"
    assert b"tmp_1" not in b"".join(told.frames)


def test_a_held_call_found_by_id_alone_and_one_found_by_being_the_only_one() -> None:
    for ident in ("tmp_1", "fc_9"):
        told = play(
            added(call(None, ident="tmp_1"), None),
            args('{"input":"ls"}', None, "tmp_1"),
            done(call("exec", '{"input":"ls"}', ident, "call_9", "completed"), None),
            completed(),
            tools=[CUSTOM],
        )
        assert told.output[0]["input"] == "ls"
        assert len(told.output) == 1


@pytest.mark.parametrize("name", [None, "", 5])
def test_a_missing_or_empty_name_in_arguments_done_is_still_unknown(name: Any) -> None:
    log = upstream(
        added(call(None)),
        args('{"input":"x"}'),
        args_done('{"input":"x"}', name=name),
        tools=[CUSTOM],
    )
    assert fold(log.entries[:-1]).item_types() == []
    log.entries.pop()
    log.frames(done(call("exec", '{"input":"x"}', status="completed")), completed())
    assert fold(log.entries).item_types() == CUSTOM_LIFE


def test_a_name_in_arguments_done_releases_the_call() -> None:
    log = upstream(
        added(call(None)),
        args('{"input":"x"}'),
        args_done('{"input":"x"}', name="exec"),
        tools=[CUSTOM],
    )
    assert fold(log.entries[:-1]).item_types() == CUSTOM_LIFE[:3]


def test_later_items_wait_behind_an_unnamed_call_and_earlier_ones_flow() -> None:
    before = [
        added(message("m0", status="in_progress"), 0),
        added(call(None, ident="f1"), 1),
        args('{"a":1}', 1, "f1"),
        *whole_message(["later"], 2, "m2"),
    ]
    log = upstream(*before, text("early", 0, "m0"), tools=[FUNCTION])
    assert fold(log.entries[:-1]).deltas("output_text") == ["early"]
    told = play(
        *before,
        text("early", 0, "m0"),
        done(call("get_weather", '{"a":1}', "f1"), 1),
        completed(),
        tools=[FUNCTION],
    )
    assert [i["type"] for i in told.output] == ["message", "function_call", "message"]
    assert told.deltas("output_text") == ["early", "later"]


def test_two_unnamed_calls_release_in_output_order() -> None:
    told = play(
        added(call(None, ident="a", call_id=None), 0),
        added(call(None, ident="b", call_id=None), 1),
        done(call("second", "{}", "b", "cb"), 1),
        done(call("first", "{}", "a", "ca"), 0),
        completed(),
    )
    assert [i["name"] for i in told.output] == ["first", "second"]


def test_a_gateway_owned_name_never_shows_and_nothing_past_it() -> None:
    web = {"type": "web_search"}
    told = play(
        *whole_message(["before"], 0), *whole_call("web_search", '{"query":"q"}', 1),
        *whole_message(["after"], 2, "m2"), completed(), tools=[web],
    )  # fmt: skip
    assert told.response["status"] == "cancelled", "nobody runs it here"
    assert [item["type"] for item in told.output] == ["message", "web_search_call", "message"]
    assert b"function_call" not in b"".join(told.frames)
    assert b'"web_search"' not in b"".join(told.frames).replace(b'{"type":"web_search"}', b"")


def test_what_waits_past_the_bound_comes_as_one_delta_and_waiting_never_fails() -> None:
    pieces = ["x" * 40_000] * 9
    arguments = '{"input":"' + "".join(pieces) + '"}'
    told = play(
        added(call(None)), args('{"input":"'), *[args(p) for p in pieces], args('"}'),
        done(call("exec", arguments)), completed(), tools=[CUSTOM],
    )  # fmt: skip
    assert [len(d) for d in told.deltas("custom_tool_call_input")] == [360_000]
    assert told.output[0]["input"] == "".join(pieces)


def test_what_waits_below_the_bound_keeps_its_deltas() -> None:
    told = play(
        added(call(None, ident="f0"), 0), *whole_message(["y" * 1000] * 20, 1),
        done(call("get_weather", "{}", "f0"), 0), completed(),
    )  # fmt: skip
    assert len(told.deltas("output_text")) == 20


def test_deferred_text_past_the_bound_comes_as_one_delta_behind_a_small_unnamed_call() -> None:
    told = play(
        added(call(None, ident="f0"), 0), *whole_message(["y" * 30_000] * 10, 1),
        done(call("get_weather", "{}", "f0"), 0), completed(),
    )  # fmt: skip
    assert len(told.deltas("output_text")) == 1


def test_a_call_that_is_never_named_fails_a_completed_round() -> None:
    told = play(added(call(None)), args("{}"), completed())
    assert told.response["status"] == "failed"
    assert told.response["error"]["code"] == "server_error"
    assert told.output == []


def test_a_call_that_is_never_named_is_dropped_and_counted_when_the_round_is_cut() -> None:
    cut = ev(
        "incomplete",
        response={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    )
    told = play(added(call(None, ident="f0"), 0), *whole_message(["y"], 1), cut)
    assert told.response["status"] == "incomplete"
    assert [i["type"] for i in told.output] == ["message"]
    assert [n.kind for n in told.notes if n.kind == "call dropped"]


# ---- the certain end of a call (D19) ------------------------------------------------------------


def incomplete(reason: str | None = "max_output_tokens") -> dict[str, Any]:
    return ev(
        "incomplete", response={"status": "incomplete", "incomplete_details": {"reason": reason}}
    )


def test_a_call_that_the_token_limit_cut_off_gets_no_done_even_if_the_upstream_says_done() -> None:
    for tools in ([], [CUSTOM]):
        told = play(*whole_call("exec", '{"input":"rm -rf /tm'), incomplete(), tools=tools)
        assert told.response["status"] == "incomplete"
        assert told.output[0]["status"] == "incomplete"
        assert not told.of("output_item.done")


def test_a_whole_call_before_the_limit_is_done_at_once() -> None:
    told = play(
        *whole_call("exec", '{"input":"ls"}'),
        *whole_message(["cu"], 1)[:3],
        incomplete(),
        tools=[CUSTOM],
    )
    assert [i["status"] for i in told.output] == ["completed", "incomplete"]


def test_an_uncertain_done_comes_once_another_item_follows() -> None:
    log = upstream(*whole_call("exec", "bare text"), tools=[CUSTOM])
    assert fold(log.entries[:-1]).item_types() == CUSTOM_LIFE[:2]
    log.entries.pop()
    log.frames(added(message("m", status="in_progress"), 1))
    assert fold(log.entries).item_types() == [*CUSTOM_LIFE, "output_item.added"]


def test_a_cut_custom_call_lists_what_was_streamed_of_it() -> None:
    told = play(added(call("exec")), args('{"input":"half a com'), tools=[CUSTOM])
    assert told.response["status"] == "failed"
    assert told.output[0]["input"] == "half a com"
    assert told.output[0]["status"] == "incomplete"


def test_an_item_that_the_upstream_ends_as_incomplete_follows_the_response() -> None:
    cut = message("msg_up", "He", "incomplete")
    told = play(*whole_message(["He"])[:3], done(cut), incomplete())
    assert told.output[0]["status"] == "incomplete"
    told = play(*whole_message(["He"])[:3], done(cut), completed())
    assert told.output[0]["status"] == "completed"


# ---- endings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["eof", "ok", "reset", "timeout", "too_large", "refused", "http"])
def test_an_end_without_a_terminal_event_is_a_failure_and_what_came_stays(end: str) -> None:
    told = play(*whole_message(["Hel"])[:3], end=end)
    assert told.response["status"] == "failed"
    assert told.response["error"]["code"] == "server_error"
    assert told.output[0]["status"] == "incomplete"
    assert told.output[0]["content"][0]["text"] == "Hel"
    assert told.types[-1] == "failed"
    assert "error" not in told.types


def test_done_marker_without_a_terminal_event_is_a_failure() -> None:
    assert play(*whole_message(["x"]), "[DONE]", end="ok").response["status"] == "failed"


def test_the_round_ends_own_message_and_known_code_reach_the_client() -> None:
    log = (
        Log().attempt().end("http", error={"code": "rate_limit_exceeded", "message": "Slow down."})
    )
    error = fold(log.entries).response["error"]
    assert error == {"code": "rate_limit_exceeded", "message": "Slow down."}
    log = Log().attempt().end("http", error={"code": "whatever", "message": "No."})
    assert fold(log.entries).response["error"]["code"] == "server_error"


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        (
            ev(
                "failed",
                response={"error": {"code": "context_length_exceeded", "message": "Too long."}},
            ),
            "context_length_exceeded",
            "Too long.",
        ),
        (
            ev(
                "failed",
                response={"error": {"code": "odd", "message": "At http://10.0.0.7:8000/v1 now."}},
            ),
            "server_error",
            "At [removed] now.",
        ),
        (ev("failed", response=None), "server_error", "The upstream failed."),
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "Later."},
            "rate_limit_exceeded",
            "Later.",
        ),
        ({"type": "error", "error": {"message": "Nested."}}, "server_error", "Nested."),
        ('{"error": {"message": "No type at all."}}', "server_error", "No type at all."),
        ('{"error": "Only text."}', "server_error", "Only text."),
        (completed(status="cancelled"), "server_error", "The upstream failed."),
    ],
)
def test_an_error_of_the_upstream_is_one_failed_frame(event: Any, code: str, message: str) -> None:
    told = play(*whole_message(["x"])[:3], event)
    assert told.response["error"] == {"code": code, "message": message}
    assert told.output[0]["status"] == "incomplete"


def test_completed_that_says_incomplete_is_incomplete() -> None:
    end = completed(status="incomplete", incomplete_details={"reason": "content_filter"})
    told = play(*whole_message(["x"])[:3], end)
    assert told.types[-1] == "incomplete"
    assert told.response["incomplete_details"] == {"reason": "content_filter"}


def test_incomplete_without_a_reason_has_one() -> None:
    assert play(incomplete(None)).response["incomplete_details"] == {"reason": "max_output_tokens"}


def test_response_done_is_an_alias_of_completed() -> None:
    assert play(*whole_message(["x"]), ev("done", response={})).response["status"] == "completed"


@pytest.mark.parametrize("output", [[], None, [message("x", "")]])
def test_the_upstreams_terminal_output_does_not_matter_where_items_were_streamed(
    output: Any,
) -> None:
    told = play(added(call("get_weather")), args('{"a":1}'), completed(output, usage=None))
    assert [i["type"] for i in told.output] == ["function_call"]
    assert told.response["usage"] is None


def test_a_terminal_output_is_used_where_nothing_was_streamed() -> None:
    told = play(created(), completed([message("x", "whole")]))
    assert told.deltas("output_text") == ["whole"]


def test_usage_is_taken_from_the_upstream_and_has_all_keys() -> None:
    told = play(
        *whole_message(["x"]),
        completed(usage={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}),
    )
    usage = told.response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 4, 7)
    assert "cached_tokens" in usage["input_tokens_details"]
    assert "reasoning_tokens" in usage["output_tokens_details"]


def test_cancel_ends_as_incomplete_with_status_cancelled() -> None:
    log = (
        Log(background=True)
        .attempt()
        .frames(*whole_message(["Hel"])[:3], added(call("f", ident="f"), 1), args('{"a', 1, "f"))
    )
    told = fold(log.add("cancel", {"reason": "client"}).entries)
    assert told.types[-1] == "incomplete"
    assert told.response["status"] == "cancelled"
    assert told.response["error"] is None
    assert [i["status"] for i in told.output] == ["incomplete", "incomplete"]
    assert len(told.of("output_item.done")) == 1


def test_cancel_before_any_attempt_ends_the_response() -> None:
    told = fold(Log(background=True).add("cancel", {"reason": "client"}).entries)
    assert told.types == ["created", "queued", "incomplete"]


def test_a_passed_deadline_is_a_failure() -> None:
    told = fold(Log().attempt().add("cancel", {"reason": "deadline"}).entries)
    assert told.response["status"] == "failed"


def test_a_response_over_its_byte_limit_fails_alone_and_keeps_the_laws() -> None:
    told = play(*whole_message(["x" * 600] * 40), completed(), _max_response_bytes=20_000)
    assert told.response["status"] == "failed"
    assert "20000 bytes" in told.response["error"]["message"]


# ---- lost rounds --------------------------------------------------------------------------------


def test_a_lost_round_is_tried_again_while_nothing_of_it_is_public() -> None:
    log = Log().attempt().frames(created()).end("lost")
    told = fold(log.entries)
    assert told.reopened == [1]
    assert told.machine.feed(log.attempt(2).entries[-1]).frames == []
    log.frames(*whole_message(["again"]), completed())
    told = fold(log.entries)
    assert told.output[0]["content"][0]["text"] == "again"
    assert told.types[:2] == ["created", "in_progress"]


def test_a_lost_round_of_which_something_is_public_fails() -> None:
    told = fold(Log().attempt().frames(*whole_message(["x"])[:3]).end("lost").entries)
    assert told.reopened == []
    assert told.response["status"] == "failed"


def test_attempts_are_bounded() -> None:
    log = Log()
    for number in (1, 2, 3):
        log.attempt(number).end("lost")
    told = fold(log.entries)
    assert told.reopened == [1, 1]
    assert told.response["status"] == "failed"


def test_an_unnamed_call_of_a_lost_attempt_leaves_nothing_behind() -> None:
    log = Log().attempt().frames(added(call(None)), args("{")).end("lost").attempt(2)
    told = fold(log.frames(*whole_message(["x"]), completed()).entries)
    assert [i["type"] for i in told.output] == ["message"]


def test_commands_are_made_again_by_whoever_folds_again() -> None:
    log = Log().attempt().end("lost")
    assert Machine(RID).feed(log.entries[0]).commands == ()
    machine = Machine(RID)
    steps = [machine.feed(entry) for entry in log.entries]
    assert steps[-1].commands == [Reopen(1)]


def test_a_round_that_begins_again_after_a_part_of_it_was_shown_fails_the_response() -> None:
    told = fold(Log().attempt().frames(*whole_message(["x"])[:3]).attempt(2).entries)
    assert told.response["status"] == "failed"
