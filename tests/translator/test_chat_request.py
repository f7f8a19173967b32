"""The exact body that a Chat Completions upstream gets, and the laws that hold for every one."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given

from tests.translator.bodies import (
    BODIES,
    RID,
    additional,
    body_of,
    call,
    check,
    custom,
    custom_call,
    custom_output,
    function,
    namespace,
    output,
    request,
    sent_chat,
    stand_in,
    user,
)
from tests.translator.strict_chat import check_body, check_messages
from translator import outbound
from translator.chat_request import CHAT_FIELDS, SERVER_FIELDS
from translator.protocol.errors import RequestError
from translator.protocol.json import dumps
from translator.protocol.request import CreateParams, parse
from translator.request_entry import input_items

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def chat_function(tool):
    """A tool of ours in Chat's shape."""
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}


def test_the_whole_body_of_a_plain_request():
    assert sent_chat(input="hi", instructions="Be kind") == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be kind"},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_second_turn_has_the_first_before_it():
    history = [user("hi"), custom_call("k", status="completed")]
    sent = sent_chat(history, input=[custom_output("k", "ok")], previous_response_id="resp_x")
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
    check_body(sent)


# ---- fields


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"max_output_tokens": 16}, {"max_tokens": 16}),
        ({"max_output_tokens": 16, "max_completion_tokens": 9, "max_tokens": 8}, {"max_tokens": 16}),
        ({"reasoning": {"effort": "none", "summary": "auto"}}, {"reasoning_effort": "none"}),
        ({"reasoning": {"effort": "high", "context": "all_turns"}}, {"reasoning_effort": "high"}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": False}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": SCHEMA, "strict": False},
                }
            },
        ),
        (
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "a",
                        "schema": {},
                        "strict": None,
                        "description": "",
                        "more": 1,
                    }
                }
            },
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {}, "description": ""},
                }
            },
        ),
        ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"top_logprobs": 0}, {"logprobs": True, "top_logprobs": 0}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"include": ["reasoning.encrypted_content"]}, {}),
        ({"parallel_tool_calls": False}, {}),
        ({"tool_choice": "auto", "tools": []}, {}),
        ({"tool_choice": "none"}, {}),
    ],
)  # fmt: skip
def test_each_field_has_its_form_in_chat(fields, sent):
    body = sent_chat(**fields)
    for key in ("model", "messages", "stream", "stream_options"):
        del body[key]
    assert body == sent


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0, "top_p": 0.0, "presence_penalty": 0, "frequency_penalty": -2},
        {"user": "", "safety_identifier": "u", "service_tier": "flex"},
        {"seed": 0, "stop": "", "logit_bias": {}, "top_k": 0, "max_tokens": 5},
        {"chat_template_kwargs": {"enable_thinking": False}, "vllm_xargs": None, "stop": None},
        {
            "max_completion_tokens": 5,
            "reasoning_effort": "low",
            "response_format": {"type": "text"},
        },
        {"web_search_options": {}, "prediction": {"type": "content", "content": "a"}},
    ],
)
def test_what_chat_or_its_servers_know_goes_up_as_it_is(fields):
    assert fields.items() <= sent_chat(**fields).items()


def test_null_says_nothing_in_the_fields_that_we_know():
    nulls = dict.fromkeys(set(CreateParams.model_fields) - {"model", "input"})
    assert set(sent_chat(**nulls)) == {"model", "messages", "stream", "stream_options"}


STAYS = {
    "background": True,
    "store": True,
    "stream": False,
    "include": ["reasoning.encrypted_content"],
    "previous_response_id": "resp_x",
    "truncation": "auto",
    "max_tool_calls": 3,
    "text": {"format": {"type": "text"}},
    "reasoning": {"summary": "auto"},
    "stream_options": {"include_obfuscation": False},
    "prompt_cache_key": "k",
    "client_metadata": {"thread_id": "t"},
    "context_management": [],
    "metadata": {"case": "1"},
    "encrypted_content": "blob",
    "reasoning_encrypted_content": "blob",
    "n": 2,
    "functions": [],
    "function_call": "auto",
    "modalities": ["audio"],
    "audio": {},
    "skills": ["a"],
    "foo": {"bar": 1},
    "x_trace": None,
    "messages": [{"role": "user", "content": "not this"}],
}


def test_what_chat_does_not_know_stays_here():
    assert sent_chat(input="hi", **STAYS) == sent_chat(input="hi")


def test_a_field_of_model_servers_is_none_of_either_api():
    assert not CHAT_FIELDS & SERVER_FIELDS
    assert not set(CreateParams.model_fields) & SERVER_FIELDS


# ---- tools


NOTHING = {"type": "object", "properties": {}}


def test_tools_are_functions_in_chats_shape():
    get = function("get", strict=False, description=None)
    bare = {"type": "function", "name": "bare", "parameters": None, "defer_loading": True}
    tools = [get, bare, custom("exec", description="Runs")]
    sent = sent_chat(tools=tools, tool_choice="auto", parallel_tool_calls=False)
    del get["description"]
    assert sent["tools"] == [
        chat_function(get),
        {"type": "function", "function": {"name": "bare", "parameters": NOTHING}},
        chat_function(stand_in("exec", description="Runs")),
    ]
    assert sent["tool_choice"] == "auto"
    (strict,) = sent_chat(tools=[bare | {"strict": True}])["tools"]
    assert strict["function"]["parameters"] == NOTHING | {"additionalProperties": False}
    assert sent["parallel_tool_calls"] is False


def test_additional_tools_are_promoted_and_no_message():
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /secret/"}
    declares = additional(namespace("functions", custom("exec", format=grammar)))
    sent = sent_chat(input=[declares, user()], tools=[function("get")], tool_choice="auto")
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["get", "exec"]
    assert len(sent["messages"]) == 1
    assert "secret" not in json.dumps(sent), "a grammar is no advice for the model"


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "get"}, "get"),
        ({"type": "function", "function": {"name": "get"}}, "get"),
        ({"type": "custom", "name": "exec"}, "exec"),
    ],
)
def test_a_choice_is_kept_in_chats_shape(choice, sent):
    body = sent_chat(tools=[function("get"), custom("exec")], tool_choice=choice)
    if sent in ("get", "exec"):
        sent = {"type": "function", "function": {"name": sent}}
    assert body.get("tool_choice") == sent
    assert len(body["tools"]) == 2


@pytest.mark.parametrize(
    ("mode", "sent"), [(None, "auto"), ("auto", "auto"), ("required", "required")]
)
def test_allowed_tools_are_the_only_ones_that_are_sent(mode, sent):
    selectors = [{"type": "custom", "name": "exec"}, {"type": "function", "name": "b"}]
    choice = {"type": "allowed_tools", "mode": mode, "tools": selectors}
    body = sent_chat(tools=[function("a"), custom("exec"), function("b")], tool_choice=choice)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["exec", "b"]
    assert body["tool_choice"] == sent


def test_a_forced_tool_of_the_gateways_is_forced_by_its_visible_name():
    body = {"model": "tiny", "tools": [{"type": "web_search"}, function("get")]}
    sent = body_of(body | {"tool_choice": {"type": "web_search"}}, [user()], api="chat")
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["web_search", "get"]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "web_search"}}
    assert sent["parallel_tool_calls"] is False


# ---- what is refused


def refusal(history=(), **fields):
    with pytest.raises(RequestError) as caught:
        check(request(**fields), history, "validate", "chat")
    return caught.value


def test_a_stored_prompt_is_refused():
    assert refusal(prompt={"id": "pmpt_1"}).param == "prompt"


@pytest.mark.parametrize("kind", ["shell_call", "computer_call_output", "apply_patch_call"])
def test_items_of_tools_that_chat_does_not_have_are_refused(kind):
    item = {"type": kind, "call_id": "c", "output": [5]}
    error = refusal(input=[user(), item])
    assert error.param == "input[1]"
    assert kind in error.message
    assert refusal([item]).param == "previous_response_id[0]"


def test_what_is_refused_before_a_responses_upstream_is_refused_here():
    assert refusal(input=[output("nope")]).param == "input"
    assert refusal(tools=[{"type": "tool_search"}]).param == "tools"
    assert refusal(tool_choice={"type": "function", "name": "a"}).param == "tool_choice"


# ---- every body


def made(body):
    """A body through the whole way; None if it was refused."""
    try:
        asked = parse(json.dumps(body).encode())
        outbound.check(asked, api="chat", custom_formats="validate")
    except RequestError:
        return None
    before = dumps(asked.body)
    items = input_items(RID, asked)
    sent = body_of(asked.body, items, api="chat", reasoning_history="reasoning_content")
    assert dumps(asked.body) == before, "only the copy is converted"
    return items, sent


@given(BODIES)
def test_what_check_lets_through_is_taken_by_a_strict_server(body):
    if done := made(body):
        items, sent = done
        check_body(sent)
        assert sent.keys() <= CHAT_FIELDS
        written = dumps(sent)
        assert b"blob" not in written
        assert b"encrypted_content" not in written
        answers = {item["call_id"] for item in items if item["type"].endswith("_output")}
        calls = [one for message in sent["messages"] for one in message.get("tool_calls", ())]
        assert len(calls) >= len(answers), "every call that was answered goes up"


# ---- Codex


def codex_turn(*, lite):
    """A second turn of Codex, cut to what matters: the whole history comes with each request."""
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /[\\s\\S]+/"}
    exec_tool = custom("exec", description="Run JavaScript", format=grammar)
    wait = function("wait", strict=False)
    lead = [additional(namespace("functions", exec_tool, wait))] if lite else []
    common = {
        "model": "gpt-5.6-sol",
        "stream": True,
        "store": False,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "context": "all_turns"},
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        "text": {"verbosity": "low"},
        "client_metadata": {"thread_id": "t"},
        "input": [
            *lead,
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "A"}]},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "B"}]},
            user([{"type": "input_text", "text": "run echo"}]),
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "**Thinking**"}],
                "content": None,
                "encrypted_content": "opaque-blob",
            },
            custom_call("call_1", "exec", "text(1)", id="ctc_1", status="completed")
            | ({"namespace": "functions"} if lite else {}),
            custom_output(
                "call_1",
                [
                    {"type": "input_text", "text": "Output:\n"},
                    {"type": "input_text", "text": "hello"},
                ],
            ),
        ],
    }  # fmt: skip
    return common if lite else common | {"tools": [exec_tool, wait]}


@pytest.mark.parametrize("lite", [True, False])
def test_a_second_turn_of_codex_reaches_a_chat_upstream_whole(lite):
    body = sent_chat(**codex_turn(lite=lite))
    check_body(body)
    assert set(body) == {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
        "verbosity",
        "stream",
        "stream_options",
    }
    assert body["messages"] == [
        {"role": "system", "content": "A\n\nB"},
        {"role": "user", "content": "run echo"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "exec", "arguments": '{"input":"text(1)"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Output:\nhello"},
    ]
    exec_function, wait = (tool["function"] for tool in body["tools"])
    assert exec_function["name"] == "exec"
    assert exec_function["parameters"]["required"] == ["input"]
    assert wait["name"] == "wait"
    assert "opaque" not in json.dumps(body)


def test_the_same_turn_reaches_a_responses_upstream_that_validates():
    asked = request(**codex_turn(lite=True))
    check(asked, formats="validate")
    body = body_of(asked.body, input_items(RID, asked))
    assert [item["type"] for item in body["input"]][-2:] == [
        "function_call",
        "function_call_output",
    ]


def test_history_of_a_chain_is_strict_too():
    history = [user("a"), call("x"), output("x"), user("b"), call("x", status="completed")]
    check_messages(sent_chat(history, input=[output("x"), user("c")])["messages"])


def test_every_field_is_told_in_the_documents():
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text()
    told = set(re.findall(r"[a-z]+(?:_[a-z]+)*", page))
    between = {
        "input",
        "background",
        "previous_response_id",
        "presence_penalty",
        "frequency_penalty",
    }
    assert set(CreateParams.model_fields) - between <= told
