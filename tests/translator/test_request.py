"""A create request is read, or refused with the field's place and never with its value."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.bodies import BODIES, JSON, request
from translator.protocol.errors import RequestError
from translator.protocol.request import (
    MAX_ENTRIES,
    MAX_INPUT_ITEMS,
    MAX_INPUT_PARTS,
    CreateParams,
    parse,
)


def refusal(raw):
    with pytest.raises(RequestError) as caught:
        parse(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    assert caught.value.status == 400
    assert caught.value.type == "invalid_request_error"
    assert caught.value.code is None
    return caught.value


def fault(**fields):
    """The place that a refusal names, for a body that is right but for these fields."""
    return refusal({"model": "tiny", "input": "hi", **fields}).param


def test_the_body_is_kept_as_it_was_sent():
    body = {"model": "m", "input": "hi", "temperature": 0, "user": "", "top_k": None, "x": {"y": 1}}
    assert parse(json.dumps(body).encode()).body == body


def test_a_string_is_one_message_of_the_user():
    part = {"type": "input_text", "text": "hi"}
    assert request().input == [{"type": "message", "role": "user", "content": [part]}]


def test_items_without_a_type_are_messages_or_references():
    items = [{"role": "user", "content": "a"}, {"id": "msg_1"}, {"type": "compaction", "id": "c"}]
    made = request(input=items)
    assert [item["type"] for item in made.input] == ["message", "item_reference", "compaction"]
    assert made.body["input"] == items


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "action": {"type": "search", "query": "q"}},
        {"type": "mcp_call", "server_label": "s", "name": "n", "arguments": "{}", "output": "o"},
        {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "n"}]},
        {"type": "mcp_approval_request", "server_label": "s", "name": "n", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": ""},
    ],
    ids=lambda item: item["type"],
)
def test_what_only_the_gateway_can_know_of_an_item_is_not_believed_of_a_client(item):
    known = {"result": {"content": "c", "images": [5], "round": "r/1"}, "declared": "x"}
    assert request(input=[item | known]).input == [item]


def test_what_an_image_has_given_is_its_clients_to_say():
    item = {"type": "image_generation_call", "id": "ig_1", "result": "QQ=="}
    assert request(input=[item]).input == [item]


def test_what_a_silent_request_means():
    made = request()
    assert (made.model, made.stream, made.store, made.background) == ("tiny", False, True, False)
    assert made.previous_response_id is None


def test_what_a_request_says_is_heard():
    made = request(stream=True, background=True, store=True, previous_response_id="resp_x")
    assert (made.stream, made.store, made.background) == (True, True, True)
    assert made.previous_response_id == "resp_x"
    assert not request(store=False).store


@pytest.mark.parametrize("name", sorted(set(CreateParams.model_fields) - {"model", "input"}))
def test_null_is_not_said(name):
    assert request(**{name: None}).body[name] is None


def test_input_may_be_missing_where_something_else_brings_it():
    assert request(input=None, previous_response_id="resp_x").input == []
    assert request(input=None, prompt={"id": "pmpt_1"}).input == []
    assert fault(input=None) == "input"


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"model":"m","input":"\xff"}', b'{"a":NaN}', b"[" * 100_000, b"{}{}"]
)
def test_what_is_no_json_is_refused(raw):
    assert refusal(raw).param is None


def test_a_byte_order_mark_is_no_part_of_the_body():
    body = b'{"model":"m","input":"hi"}'
    assert parse(b"\xef\xbb\xbf" + body).body == parse(body).body
    with pytest.raises(RequestError):
        parse(b"\xef\xbb\xbf" * 2 + body)


def test_deep_nesting_is_refused():
    raw = b'{"model":"m","input":"hi","x":' + b"[" * 300 + b"]" * 300 + b"}"
    assert "nested" in refusal(raw).message


@pytest.mark.parametrize("raw", [b"null", b"5", b'"text"', b"[]"])
def test_what_is_no_object_is_refused(raw):
    assert "object" in refusal(raw).message


def test_lone_surrogates_become_replacement_characters():
    raw = rb'{"model":"m","input":"a\ud800b"}'
    assert parse(raw).input[0]["content"][0]["text"] == "a\ufffdb"


def test_a_missing_field_is_called_missing():
    error = refusal({"input": "hi"})
    assert (error.message, error.param) == ("Missing required parameter: 'model'.", "model")


SECRET = "s3cret"


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"model": 5}, "model"),
        ({"model": ""}, "model"),
        ({"input": 5}, "input"),
        ({"input": {"role": SECRET}}, "input"),
        ({"input": [SECRET]}, "input[0]"),
        ({"input": [{}]}, "input[0].role"),
        ({"input": [{"role": SECRET, "content": "a"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [SECRET]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"text": "a"}]}]}, "input[0].content[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]},
            "input[0].content[0].text",
        ),
        ({"input": [{"type": 5, "id": SECRET}]}, "input[0].type"),
        ({"input": [{"type": SECRET}]}, "input[0].type"),
        ({"input": [{"id": ""}]}, "input[0].id"),
        ({"input": [{"type": "item_reference"}]}, "input[0].id"),
        ({"input": [{"type": "mcp_call", "id": 5}]}, "input[0].id"),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "f"}]},
            "input[0].arguments",
        ),
        (
            {"input": [{"type": "custom_tool_call", "call_id": "", "name": "f", "input": ""}]},
            "input[0].call_id",
        ),
        (
            {
                "input": [
                    {"type": "custom_tool_call_output", "call_id": "c", "output": {"a": SECRET}}
                ]
            },
            "input[0].output",
        ),
        (
            {
                "input": [
                    {
                        "type": "custom_tool_call_output",
                        "call_id": "c",
                        "output": [{"type": "output_text", "text": SECRET}],
                    }
                ]
            },
            "input[0].output[0].type",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": [SECRET]}]},
            "input[0].output[0]",
        ),
        ({"input": [{"type": "reasoning", "summary": SECRET}]}, "input[0].summary"),
        ({"input": [{"type": "additional_tools", "tools": [5]}]}, "input[0].tools[0]"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"store": SECRET}, "store"),
        ({"instructions": [SECRET]}, "instructions"),
        ({"previous_response_id": 5}, "previous_response_id"),
        ({"max_output_tokens": 15}, "max_output_tokens"),
        ({"max_output_tokens": True}, "max_output_tokens"),
        ({"max_output_tokens": 16.0}, "max_output_tokens"),
        ({"max_tool_calls": 0}, "max_tool_calls"),
        ({"include": SECRET}, "include"),
        ({"include": ["reasoning.encrypted_content", SECRET]}, "include[1]"),
        ({"metadata": [SECRET]}, "metadata"),
        ({"metadata": {SECRET: 5}}, "metadata"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"metadata": {SECRET * 11: ""}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"truncation": SECRET}, "truncation"),
        ({"temperature": SECRET}, "temperature"),
        ({"top_p": True}, "top_p"),
        ({"reasoning": SECRET}, "reasoning"),
        ({"reasoning": {"effort": SECRET}}, "reasoning.effort"),
        ({"text": {"format": SECRET}}, "text.format"),
        ({"text": {"format": {}}}, "text.format.type"),
        ({"text": {"format": {"type": SECRET}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        ({"service_tier": SECRET}, "service_tier"),
        ({"stream_options": {"include_obfuscation": SECRET}}, "stream_options.include_obfuscation"),
        ({"conversation": SECRET}, "conversation"),
        ({"conversation": SECRET, "previous_response_id": "resp_x"}, "conversation"),
        ({"background": True, "store": False}, "store"),
        ({"tools": {"type": SECRET}}, "tools"),
        ({"tools": [SECRET]}, "tools[0]"),
        ({"tools": [{"name": SECRET}]}, "tools[0].type"),
        ({"tools": [{"type": SECRET}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "function": {"name": SECRET}}]}, "tools[0].name"),
        (
            {"tools": [{"type": "function", "name": "a", "parameters": SECRET}]},
            "tools[0].parameters",
        ),
        ({"tools": [{"type": "custom", "name": "a", "format": SECRET}]}, "tools[0].format"),
        ({"tools": [{"type": "custom", "name": "a", "format": {}}]}, "tools[0].format.type"),
        (
            {"tools": [{"type": "custom", "name": "a", "format": {"type": SECRET}}]},
            "tools[0].format.type",
        ),
        (
            {
                "tools": [
                    {"type": "custom", "name": "a", "format": {"type": "grammar", "syntax": "x"}}
                ]
            },
            "tools[0].format.syntax",
        ),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}]},
            "tools[0].tools[0].type",
        ),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{}]}]}, "tools[0].tools[0].type"),
        ({"tools": [{"type": "mcp"}]}, "tools[0].server_label"),
        (
            {"tools": [{"type": "mcp", "server_label": "a", "authorization": [SECRET]}]},
            "tools[0].authorization",
        ),
        (
            {"tools": [{"type": "mcp", "server_label": "a", "headers": {SECRET: 5}}]},
            "tools[0].headers",
        ),
        ({"tool_choice": SECRET}, "tool_choice"),
        ({"tool_choice": 5}, "tool_choice"),
        ({"tool_choice": {"name": SECRET}}, "tool_choice.type"),
        ({"tool_choice": {"type": SECRET}}, "tool_choice.type"),
        ({"tool_choice": {"type": "custom"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "function", "function": {}}}, "tool_choice.function.name"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice.server_label"),
        ({"tool_choice": {"type": "allowed_tools", "tools": []}}, "tool_choice.tools"),
        (
            {"tool_choice": {"type": "allowed_tools", "tools": [{"type": SECRET}]}},
            "tool_choice.tools[0].type",
        ),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "none", "tools": [{"type": "mcp"}]}},
            "tool_choice.mode",
        ),
    ],
)
def test_a_refusal_names_the_place_and_never_the_value(fields, place):
    error = refusal({"model": "tiny", "input": "hi", **fields})
    assert error.param == place
    assert SECRET not in json.dumps(error.body())


@pytest.mark.parametrize(
    "fields",
    [
        {"max_output_tokens": 16, "max_tool_calls": 1},
        {"metadata": {"k" * 64: "v" * 512} | {str(n): "" for n in range(15)}},
        {"temperature": 0, "top_p": 1, "top_logprobs": 0, "presence_penalty": -2.5},
        {
            "text": {
                "format": {"type": "json_schema", "name": "a", "schema": {}},
                "verbosity": "low",
            }
        },
        {"text": {"format": {"type": "json_object"}}, "reasoning": {"effort": "xhigh"}},
        {"include": ["reasoning.encrypted_content", "web_search_call.action.sources"]},
        {"stream_options": {"include_obfuscation": False}, "client_metadata": {"a": 5}},
        {"tools": [{"type": "web_search_2031_01_01"}, {"type": "tool_search", "execution": 5}]},
        {"tool_choice": {"type": "web_search_preview"}},
        {"tool_choice": {"type": "mcp", "server_label": "a", "name": None}},
        {"input": [{"role": "user", "content": [{"type": "input_video", "url": 5}]}]},
        {"input": [{"role": "assistant", "content": "a", "phase": "final_answer"}]},
        {"input": [{"type": "reasoning", "id": "rs", "content": None, "summary": []}]},
        {"input": []},
    ],
)
def test_what_clients_send_is_taken(fields):
    assert request(**fields).body.items() >= fields.items()


@given(JSON | st.dictionaries(st.sampled_from([*CreateParams.model_fields]), JSON))
def test_any_json_is_read_or_refused(body):
    with contextlib.suppress(RequestError):
        parse(json.dumps(body).encode())


@given(st.binary())
def test_any_bytes_are_read_or_refused(raw):
    with pytest.raises(RequestError):
        parse(raw)


@given(BODIES)
def test_what_is_read_is_what_was_sent(body):
    raw = json.dumps(body).encode()
    try:
        made = parse(raw)
    except RequestError:
        return
    assert made.body == json.loads(raw)
    assert all(isinstance(item["type"], str) for item in made.input)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": [{"role": "user", "content": "x"}] * (MAX_INPUT_ITEMS + 1)}, "input"),
        ({"input": [{"role": "user", "content": ["x"] * (MAX_INPUT_PARTS + 1)}]}, "input"),
        ({"input": ["x"] * 2, "tools": [{}] * (MAX_ENTRIES + 1)}, "tools"),
        ({"input": "x", "unknown": [0] * (MAX_ENTRIES + 1)}, None),
    ],
)
def test_lists_that_are_too_long_are_refused_before_they_are_looked_at(fields, param):
    with pytest.raises(RequestError) as caught:
        parse(json.dumps({"model": "m", **fields}).encode())
    assert caught.value.param == param
    assert "more than" in caught.value.message
