"""How chat upstreams end, and whole bodies: rows of upstream-quirks.md section 4, one test a symptom."""

import json
from typing import Any

import pytest

from tests.translator.chunks import USAGE, Chunk, calls, chat, chunk, fragment
from tests.translator.drive import CUSTOM, fold, play, upstream


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "eos", None])
def test_every_finish_of_no_known_meaning_is_a_completion_and_done_alone_is_one(
    finish: str | None,
) -> None:
    assert chat(chunk(content="x"), chunk(finish)).response["status"] == "completed"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        *((word, "max_output_tokens") for word in ("length", "model_length", "repetition")),
        *((word, "content_filter") for word in ("content_filter", "sensitive")),
        ("MAX_TOKENS", "max_output_tokens"),
    ],
)
def test_a_cut_is_incomplete_and_so_is_the_last_item(finish: str, reason: str) -> None:
    told = chat(chunk(reasoning="r"), chunk(content="x"), chunk(finish))
    assert told.response["incomplete_details"] == {"reason": reason}
    assert [i["status"] for i in told.output] == ["completed", "incomplete"]


@pytest.mark.parametrize("finish", ["abort", "error", "insufficient_system_resource"])
def test_half_a_call_of_a_server_that_gave_up_is_not_handed_out_as_whole(finish: str) -> None:
    half = calls(fragment(0, "c", "get_weather", '{"city":"O'))
    told = chat(chunk(content="x"), half, chunk(finish), {"choices": [], "usage": USAGE})
    assert told.response["status"] == "failed"
    assert told.response["error"]["code"] == "server_error"
    assert told.response["usage"]["total_tokens"] == 7
    assert [i["status"] for i in told.output] == ["completed", "incomplete"]
    assert not told.of("function_call_arguments.done")


def test_a_budget_spent_in_reasoning_leaves_the_reasoning_alone() -> None:
    assert [i["type"] for i in chat(chunk(reasoning="r"), chunk("length")).output] == ["reasoning"]


def test_a_call_cut_by_the_limit_gets_no_done_and_one_that_another_follows_does() -> None:
    told = chat(
        calls(fragment(0, "a", "get_weather", '{"a":1}')),
        calls(fragment(1, "b", "exec", '{"input":"rm')),
        chunk("length"),
    )
    assert [i["status"] for i in told.output] == ["completed", "incomplete"]
    assert len(told.of("output_item.done")) == 1


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk("stop"), {"choices": [], "usage": USAGE}],
        [{**chunk("stop"), "usage": USAGE}],
        [
            {**chunk(content=""), "usage": {**USAGE, "total_tokens": 1}},
            chunk("stop"),
            {"choices": [], "usage": USAGE},
            {"usage": None},
        ],
        [chunk("stop"), chunk("stop"), {"choices": [], "usage": USAGE}],
    ],
)
def test_the_last_usage_counts_wherever_it_comes_and_there_is_one_end(chunks: list[Chunk]) -> None:
    told = chat(chunk(content="x"), *chunks)
    usage = told.response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 4, 7)
    assert usage["output_tokens_details"]["reasoning_tokens"] == 2


def test_a_finish_without_done_is_an_end_and_neither_is_a_failure() -> None:
    assert chat(chunk(content="x"), chunk("stop"), end="eof").response["status"] == "completed"
    assert chat(chunk(content="x"), end="eof").response["status"] == "failed"
    assert chat(chunk(content="x"), chunk(""), end="eof").response["status"] == "failed"
    for end in ("reset", "timeout"):
        assert chat(chunk(content="x"), chunk("stop"), end=end).response["status"] == "completed"
        assert chat(chunk(content="x"), chunk("length"), end=end).response["status"] == "incomplete"
        assert chat(chunk(content="x"), end=end).response["status"] == "failed"


@pytest.mark.parametrize(
    "block",
    [
        b'event: error\ndata: {"message":"boom","code":"rate_limit_exceeded"}',
        b'data: {"object":"error","message":"boom","code":"rate_limit_exceeded"}',
    ],
)
def test_an_error_that_only_its_event_line_or_its_object_tells_is_a_failure(block: bytes) -> None:
    told = chat(chunk(content="a"), block)
    assert told.response["status"] == "failed"
    assert told.response["error"] == {"code": "rate_limit_exceeded", "message": "boom"}


def test_an_error_chunk_is_a_failure_whatever_follows() -> None:
    error = {"error": {"message": "Slow down at http://10.1.1.1/x", "code": "rate_limit_exceeded"}}
    told = chat(chunk(content="x"), error, chunk(content="y"), chunk("stop"))
    assert told.response["error"] == {
        "code": "rate_limit_exceeded",
        "message": "Slow down at [removed]",
    }


@pytest.mark.parametrize("block", ["oops", '{"choices":[', "null", "5", "[1]"])
def test_broken_json_is_a_failure_and_other_values_are_ignored(block: str) -> None:
    status = chat(chunk(content="x"), block, chunk("stop")).response["status"]
    assert status == ("completed" if block in ("null", "5", "[1]") else "failed")


def test_a_stream_that_repeats_the_message_so_far_beside_each_delta_goes_on_to_its_end() -> None:
    def both(delta: Any, so_far: str, finish: str | None = None) -> Chunk:
        one = chunk(finish, **delta)
        one["choices"][0]["message"] = {"role": "assistant", "content": so_far}
        return one

    told = chat(
        both({"content": "I"}, "I"), both({"content": " am"}, "I am"), both({}, "I am", "stop")
    )
    assert told.deltas("output_text") == ["I", " am"]
    assert told.output[0]["content"][0]["text"] == "I am"


def test_a_whole_body_is_taken_as_a_stream_of_one() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "reasoning_content": "hm",
        "tool_calls": [fragment(None, "c", "exec", '{"input":"ls"}', type="function")],
    }
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": USAGE,
    }
    told = play(json.dumps(body, indent=1).encode(), end="ok", _api="chat", tools=[CUSTOM])
    assert [i["type"] for i in told.output] == ["reasoning", "message", "custom_tool_call"]
    assert told.response["usage"]["total_tokens"] == 7
    body["choices"][0]["finish_reason"] = "length"  # type: ignore[index]
    assert play(json.dumps(body).encode(), end="ok", _api="chat").response["status"] == "incomplete"


BODIES = (
    {"detail": "Internal error"},
    {"status": "ok"},
    {},
    {"id": "x", "choices": []},
    chunk(content="x"),
)


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_a_whole_body_that_is_no_completion_is_none(body: Chunk) -> None:
    """The upstream's answer is JSON, and its end is an end: `ok`, without `[DONE]`."""
    log = upstream(json.dumps(body).encode(), end="ok", _api="chat")
    assert fold(log.entries).response["status"] == "failed"


@pytest.mark.parametrize("finish", [None, "stop"])
def test_a_whole_message_behind_deltas_says_nothing_new(finish: str | None) -> None:
    said = {"content": "ab", "reasoning_content": "hm"}
    message = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **said}}
    last = {"object": "chat.completion", "choices": [message], "usage": USAGE}
    told = chat(chunk(reasoning="hm"), chunk(content="a"), chunk(content="b"), last)
    assert [item["type"] for item in told.output] == ["reasoning", "message"]
    assert told.output[1]["content"][0]["text"] == "ab"
    assert told.response["usage"]["total_tokens"] == 7
    role = {"index": 0, "delta": None, "message": {"role": "assistant", "content": ""}}
    told = chat({"choices": [role]}, chunk(content="a"), chunk("stop"))
    assert told.output[0]["content"][0]["text"] == "a"


def test_usage_counts_wherever_a_provider_puts_it_and_an_empty_one_says_nothing() -> None:
    beside = {"choices": [], "usage": USAGE}
    for last in (
        {"choices": [{"index": 0, "delta": {}, "usage": USAGE}]},
        {"choices": [], "x_groq": {"usage": USAGE}},
        beside,
    ):
        told = chat(chunk(content="x"), chunk("stop"), last, {"choices": [], "usage": {}})
        assert told.response["usage"]["total_tokens"] == 7
    failures = ([chunk(content="x"), beside], [beside, {"error": {"message": "boom"}}])
    for chunks in failures:
        told = chat(*chunks, end="eof")
        assert (told.response["status"], told.response["usage"]["total_tokens"]) == ("failed", 7)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": 429, "message": "slow"}, "rate_limit_exceeded"),
        ({"code": "429", "message": "slow"}, "rate_limit_exceeded"),
        ({"type": "insufficient_quota", "code": None}, "insufficient_quota"),
        ({"code": "context_length_exceeded", "type": "server_error"}, "context_length_exceeded"),
        ({"code": ["odd"], "type": {}}, "server_error"),
    ],
)
def test_an_error_in_the_stream_or_in_its_choice_keeps_a_code_that_clients_know(
    error: dict[str, Any], code: str
) -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": "error", "error": error}
    for last in ({"error": error}, {"choices": [choice]}):
        told = chat(chunk(content="x"), last)
        assert (told.response["status"], told.response["error"]["code"]) == ("failed", code)


def test_an_error_in_a_list_or_in_groqs_extension_fails_the_response() -> None:
    error = {"code": 429, "message": "Quota is used up.", "status": "RESOURCE_EXHAUSTED"}
    told = chat(chunk(content="x"), [{"error": error}])
    assert told.response["error"] == {
        "code": "rate_limit_exceeded",
        "message": "Quota is used up.",
    }
    groq = {**chunk("stop"), "x_groq": {"id": "req", "error": "over capacity"}}
    told = chat(chunk(content="x"), groq)
    assert told.response["status"] == "failed"
    assert told.response["error"]["message"] == "over capacity"
    assert chat(chunk(content="x"), ["odd"], chunk("stop")).response["status"] == "completed"


def test_two_whole_messages_in_one_body_are_one_end() -> None:
    bodies = [{"finish_reason": "stop", "message": {"content": text}} for text in "ab"]
    told = chat({"choices": bodies})
    assert told.output[0]["content"][0]["text"] == "a"


def test_other_choices_than_the_first_are_not_taken() -> None:
    other = chunk(content="other")
    other["choices"][0]["index"] = 1
    assert chat(chunk(content="x"), other, chunk("stop")).deltas("output_text") == ["x"]
