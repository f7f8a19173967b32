"""The scripted upstream, judged by the strictest reader at hand: the official client's helper."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from respool.demo_upstream import AFTER_CALL, HELLO, PATCH, answer, sample, serving
from streams.store import Store
from tests.api.gateway import Gateway, Listed, running
from tests.ingest.server import Server
from translator.protocol.upstream import Upstream

PATCH_TOOL = {
    "type": "function",
    "name": "apply_patch",
    "parameters": {"type": "object", "properties": {"input": {"type": "string"}}},
    "strict": False,
}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


@pytest.fixture
async def client():
    async with serving() as url, AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
        yield client


async def final(client, **request):
    async with client.responses.stream(model="demo-fast", **request) as stream:
        return await stream.get_final_response()


async def test_a_prompt_is_answered_with_text(client):
    response = await final(client, input="Say hello.")
    assert response.output_text == HELLO
    assert response.usage.total_tokens > 12


async def test_a_tool_that_the_prompt_is_about_is_called(client):
    response = await final(client, input="Weather in Oslo?", tools=[PATCH_TOOL, WEATHER])
    call = response.output[1]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})


async def test_a_tool_with_a_single_input_gets_a_text_worth_streaming(client):
    content = [{"type": "input_text", "text": "Patch the greeting"}]
    response = await final(client, input=[{"role": "user", "content": content}], tools=[PATCH_TOOL])
    assert json.loads(response.output[1].arguments) == {"input": PATCH}


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        ("none", None),
        ("auto", None),
        ("required", "apply_patch"),
        ({"type": "function", "name": "get_weather"}, "get_weather"),
        ({"type": "function", "name": "unknown"}, None),
    ],
)
def test_tool_choice_decides(choice, called):
    body = {"input": "Hi", "tools": [PATCH_TOOL, WEATHER], "tool_choice": choice}
    output = list(answer(body))[-1]["response"]["output"]
    assert [item.get("name") for item in output if item["type"] == "function_call"] == (
        [called] if called else []
    )


async def test_the_turn_after_a_call_is_text(client):
    turn = [
        {"role": "user", "content": "Weather in Oslo?"},
        {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "rain"},
    ]
    assert (await final(client, input=turn, tools=[WEATHER])).output_text == AFTER_CALL


async def test_a_schema_is_answered_with_json_that_fits(client):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
    }
    text = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    response = await final(client, input="Call me Ada", text=text)
    assert json.loads(response.output_text) == {"name": "Ada", "n": 1}


async def test_the_kitchen_sink_has_every_item_that_an_upstream_can_send(client):
    async with client.responses.stream(
        model="kitchen-sink-fast", input="Anything", tools=[WEATHER]
    ) as stream:
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert [part.type for part in response.output[1].content] == ["output_text", "refusal"]
    assert "response.reasoning_summary_text.delta" in kinds
    assert "response.reasoning_text.delta" in kinds


async def test_the_models_are_listed(client):
    names = [model.id async for model in client.models.list()]
    assert names == ["demo", "demo-fast", "kitchen-sink"]


def test_the_same_request_gets_the_same_answer():
    body = {"model": "kitchen-sink", "input": "x", "tools": [WEATHER]}
    assert list(answer(body)) == list(answer(body))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": ["b", "a"]}, "b"),
        ({"type": ["string", "null"]}, "words"),
        ({"type": "array"}, []),
        ({"type": "number"}, 1.5),
        ({}, {}),
    ],
)
def test_a_sample_fits_its_schema(schema, value):
    assert sample(schema, "some words") == value


def test_a_sample_needs_no_prompt():
    assert sample({"type": "string"}, "") == "nothing"


def said(body: dict[str, Any]) -> str:
    """The text of the answer to a request."""
    events = list(answer({"model": "demo-fast", **body}))
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


def test_a_name_given_earlier_in_the_conversation_is_remembered() -> None:
    turns = [
        {"role": "user", "content": "Hi, my name is Ada."},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "What is my name?"},
    ]
    assert said({"input": turns}) == "Ada"
    assert said({"input": turns[2:]}) == HELLO


# ---- the same over Chat


@pytest.fixture
async def gateway(store: Store):
    """A gateway in front of the scripted upstream, once in each of its dialects."""
    async with serving() as url:
        listed = Listed(
            Upstream("chat", url, "chat", models=("chat-fast", "kitchen-sink-fast")),
            Upstream("responses", url, "responses"),
        )
        async with running(store, Server(), upstreams=listed) as made:
            yield made


ASKED = [
    {"input": "Say hello."},
    {"input": "Weather in Oslo?", "tools": [PATCH_TOOL, WEATHER]},
    {"input": "Patch it", "tools": [{"type": "custom", "name": "apply_patch"}, WEATHER]},
    {"input": "Hi", "tools": [WEATHER], "tool_choice": {"type": "function", "name": "get_weather"}},
    {"input": "Hi", "tools": [WEATHER], "tool_choice": "required", "instructions": "Be brief."},
    {"input": "colour", "text": {"format": {"type": "json_object"}}},
    {
        "input": [
            {"role": "user", "content": "My name is Ada. Weather?"},
            {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "rain"},
        ],
        "tools": [WEATHER],
    },
    {
        "input": [
            {"role": "user", "content": "My name is Ada."},
            {"role": "user", "content": "What is my name?"},
        ]
    },
]


def without_ids(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [{k: v for k, v in i.items() if not k.endswith("id")} for i in response["output"]]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: str(asked["input"])[:20])
async def test_both_dialects_give_the_same_answer(gateway: Gateway, asked: dict[str, Any]):
    over_chat = await gateway.made(model="chat-fast", **asked)
    over_responses = await gateway.made(model="fast-fast", **asked)
    assert over_chat["status"] == over_responses["status"] == "completed"
    assert without_ids(over_chat) == without_ids(over_responses)
    assert over_chat["usage"] == over_responses["usage"]


async def test_the_kitchen_sink_is_as_full_over_chat(gateway: Gateway):
    made = await gateway.made(model="kitchen-sink-fast", tools=[WEATHER])
    assert [item["type"] for item in made["output"]] == ["reasoning", "message", "function_call"]
    assert [part["type"] for part in made["output"][1]["content"]] == ["output_text", "refusal"]


def test_json_is_answered_where_json_is_asked_for() -> None:
    assert json.loads(said({"input": "colour", "text": {"format": {"type": "json_object"}}}))
