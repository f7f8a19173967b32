"""The blocks of a Responses upstream and what stands around its items (upstream-quirks.md sections 2 and 3).

One test a symptom.
"""

import json
from typing import Any

import pytest

from tests.translator.drive import (
    CUSTOM,
    MESSAGE_LIFE,
    call,
    completed,
    created,
    done,
    ev,
    message,
    play,
    text,
    whole_message,
)


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


@pytest.mark.parametrize("block", [b"data:", b"event: ping\ndata:", b"data: ", b"data:\ndata:"])
def test_an_event_with_empty_data_is_none(block: bytes) -> None:
    assert play(block, *whole_message(["a"]), completed()).response["status"] == "completed"


def test_integers_past_64_bits_become_floats_and_infinite_ones_are_broken_json() -> None:
    odd = '{"type":"response.output_item.done","output_index":0,"item":{"type":"program","s":"\\ud800","n":@}}'
    big = play(odd.replace("@", "9" * 30), completed()).output[0]["n"]
    assert isinstance(big, float)
    assert play(odd.replace("@", "1e999")).response["status"] == "failed"
    assert play(odd.replace("@", "9" * 400)).response["status"] == "failed"


@pytest.mark.parametrize("reason", ["host gpu.internal key sk-1234567890", 5, "x" * 100])
def test_an_incomplete_reason_that_is_no_word_of_the_api_is_not_passed_on(reason: Any) -> None:
    end = ev("incomplete", response={"incomplete_details": {"reason": reason}})
    assert play(end).response["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize("details", [None, {"reason": "max_output_tokens"}])
def test_a_whole_json_body_that_does_not_say_its_status_is_what_its_details_say(
    details: dict[str, str] | None,
) -> None:
    body = {"object": "response", "output": [message("m", "a")], "incomplete_details": details}
    told = play(json.dumps(body).encode())
    assert told.response["status"] == ("incomplete" if details else "completed")
    assert told.output[0]["status"] == told.response["status"]


def test_an_error_object_whose_type_is_the_name_of_the_error_is_an_error() -> None:
    told = play(b'{"object":"error","message":"boom","type":"BadRequestError","code":400}')
    assert told.response["error"] == {"code": "server_error", "message": "boom"}


def test_a_response_that_the_upstream_cancelled_has_ended() -> None:
    end = ev("cancelled", response={"status": "cancelled", "output": []})
    told = play(*whole_message(["a"]), end, *whole_message(["b"], index=1, ident="m2"))
    assert (told.response["status"], len(told.output)) == ("failed", 1)
