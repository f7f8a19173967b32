"""The source of Chat Completions, end to end: a client that speaks Responses, an upstream that speaks Chat.

Six cases of custom tools (tools of an `additional_tools` item, merged with top-level ones, call and
output in the history, streamed events, ids and names in pieces, a function that stays one), the two
ways to a JSON answer, and what a strict Chat server would refuse.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams.store import Store
from tests.api.chat import (
    JSON_HEAD,
    asked,
    called,
    chat_upstream,
    chunk,
    completion,
    events_of,
    fragment,
    said,
    turn,
)
from tests.api.gateway import DONE, Gateway, running
from tests.ingest.server import Server

EXEC = {
    "type": "custom",
    "name": "exec",
    "description": "Runs a line in a shell.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /[a-z \\/]+/"},
}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a place.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
LITE = {"type": "additional_tools", "role": "developer", "tools": [EXEC]}
USER = {"role": "user", "content": "Where are we?"}
BOTH_WAYS = pytest.mark.parametrize("stream", [True, False], ids=["stream", "blocking"])
PWD = ('{"in', 'put":"p', "w", 'd"}')


@pytest.fixture
async def gateway(store: Store, upstream: Server) -> AsyncIterator[Gateway]:
    """In this file it stands in front of a Chat upstream."""
    async with running(store, upstream, upstreams=chat_upstream(upstream)) as made:
        yield made


def function_of(tool: dict[str, Any]) -> dict[str, Any]:
    """What a Chat server is told of a custom tool."""
    return {
        "type": "function",
        "function": {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": {
                "type": "object",
                "properties": {"input": {"type": "string"}},
                "required": ["input"],
                "additionalProperties": False,
            },
        },
    }


def only(items: list[dict[str, Any]]) -> dict[str, Any]:
    (item,) = items
    return item


# ---- the six cases


@BOTH_WAYS
async def test_additional_tools_go_up_as_one_function_that_requires_an_input(
    gateway: Gateway, stream: bool
):
    gateway.upstream.play(*called("exec", *PWD))
    response = await turn(gateway, stream=stream, input=[LITE, USER], tool_choice="auto")
    body = asked(gateway)
    assert body["tools"] == [function_of(EXEC)]
    assert body["tool_choice"] == "auto"
    assert body["messages"] == [{"role": "user", "content": "Where are we?"}]
    call = only(response["output"])
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "exec", "pwd")


async def test_additional_tools_are_kept_and_listed_as_the_client_sent_them(gateway: Gateway):
    gateway.upstream.play(*called("exec", *PWD))
    response = await turn(gateway, stream=False, input=[LITE, USER])
    assert response["tools"] == []
    listed = await gateway.get(response["id"], "/input_items?order=asc")
    first = listed.json["data"][0]
    assert first["id"].startswith("at_")
    assert {key: first[key] for key in LITE} == LITE


@BOTH_WAYS
async def test_additional_tools_are_merged_with_those_of_the_request(
    gateway: Gateway, stream: bool
):
    gateway.upstream.play(*called("exec", *PWD))
    tools = [WEATHER, EXEC]
    response = await turn(gateway, stream=stream, input=[LITE, USER], tools=tools)
    weather = {"type": "function", "function": {k: v for k, v in WEATHER.items() if k != "type"}}
    assert asked(gateway)["tools"] == [weather, function_of(EXEC)], "the same tool twice is one"
    assert response["tools"] == tools
    assert only(response["output"])["type"] == "custom_tool_call"


async def test_two_different_tools_of_one_name_are_refused(gateway: Gateway):
    gateway.upstream.play(*said("never"))
    other = {**EXEC, "description": "Runs something else."}
    reply = await gateway.create(input=[LITE, USER], tools=[other])
    assert reply.status == 400
    assert "'exec'" in reply.error["message"]
    assert gateway.upstream.requests == []


@pytest.mark.parametrize("output", ["/root", [{"type": "input_text", "text": "/root"}]])
@BOTH_WAYS
async def test_a_custom_call_and_its_output_are_a_tool_call_and_a_tool_message(
    gateway: Gateway, stream: bool, output: Any
):
    gateway.upstream.play(*called("exec", *PWD))
    gateway.upstream.play(*said("You are in ", "/root."))
    first = await turn(gateway, stream=stream, input=[LITE, USER], store=False)
    call = only(first["output"])
    answer = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": output}
    second = await turn(gateway, stream=stream, input=[LITE, USER, call, answer], store=False)
    assert second["output"][0]["content"][0]["text"] == "You are in /root."
    assert second["status"] == "completed"
    user, assistant, tool = asked(gateway)["messages"]
    assert user["role"] == "user"
    tool_call = only(assistant["tool_calls"])
    assert tool_call["id"] == tool["tool_call_id"] == "call_1"
    assert tool_call["function"]["name"] == "exec"
    assert json.loads(tool_call["function"]["arguments"]) == {"input": "pwd"}
    assert tool == {"role": "tool", "tool_call_id": "call_1", "content": "/root"}


@BOTH_WAYS
async def test_a_chain_brings_the_call_and_its_tools_without_their_being_sent_again(
    gateway: Gateway, stream: bool
):
    gateway.upstream.play(*called("exec", *PWD))
    gateway.upstream.play(*said("done"))
    first = await turn(gateway, stream=stream, input=[LITE, USER])
    answer = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "/root"}
    chained = {"previous_response_id": first["id"], "input": [answer]}
    await turn(gateway, stream=stream, **chained)
    body = asked(gateway)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]
    assert body["tools"] == [function_of(EXEC)]


async def test_a_custom_call_streams_its_raw_input(gateway: Gateway):
    gateway.upstream.play(*called("exec", *PWD))
    events = events_of(await gateway.create(stream=True, input=[LITE, USER]))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "completed",
    ]
    added, *deltas, whole, done, end = events[2:]
    assert [delta["delta"] for delta in deltas] == ["p", "w", "d"]
    assert whole["input"] == "pwd"
    assert added["item"] == {**done["item"], "input": "", "status": "in_progress"}
    assert done["item"] == only(end["response"]["output"])
    assert done["item"]["id"].startswith("ctc_")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    counts = end["response"]["usage"]
    assert (counts["input_tokens"], counts["output_tokens"]) == (3, 2)


async def test_a_call_is_announced_once_its_id_and_its_name_are_both_known(gateway: Gateway):
    pieces = [
        fragment(name="ex"),
        fragment(call_id="call_7"),
        fragment(name="ec"),
        *(fragment(arguments=piece) for piece in PWD),
    ]
    steps = [chunk(tool_calls=[piece]) for piece in pieces]
    gateway.upstream.play(*steps, chunk("tool_calls"), DONE)
    events = events_of(await gateway.create(stream=True, input=[LITE, USER]))
    added = only([event for event in events if event["type"] == "response.output_item.added"])
    item = added["item"]
    assert (item["type"], item["name"], item["call_id"]) == ("custom_tool_call", "exec", "call_7")
    assert events[-1]["response"]["output"][0]["input"] == "pwd"
    assert "function_call" not in json.dumps(events)


@BOTH_WAYS
async def test_a_function_stays_a_function(gateway: Gateway, stream: bool):
    """Even one that takes an `input`, beside a custom tool."""
    echo = {**WEATHER, "name": "echo"}
    gateway.upstream.play(*called("echo", *PWD))
    response = await turn(gateway, stream=stream, input=[LITE, USER], tools=[echo])
    call = only(response["output"])
    assert (call["type"], call["name"]) == ("function_call", "echo")
    assert call["arguments"] == "".join(PWD)
    assert call["id"].startswith("fc_")


# ---- the ways to a JSON answer


@BOTH_WAYS
async def test_a_whole_completion_becomes_output_items(gateway: Gateway, stream: bool):
    """The true JSON projection: the upstream does not stream, whatever it was asked."""
    call = {"id": "call_1", "type": "function"}
    message = {
        "role": "assistant",
        "content": "Looking.",
        "reasoning_content": "Where?",
        "tool_calls": [call | {"function": {"name": "exec", "arguments": "".join(PWD)}}],
    }
    gateway.upstream.play(completion(message, "tool_calls"), headers=JSON_HEAD)
    response = await turn(gateway, stream=stream, input=[LITE, USER])
    assert response["object"] == "response"
    assert response["status"] == "completed"
    assert response["usage"]["total_tokens"] == 5
    thought, text, custom = response["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "Where?"}]
    assert text["content"][0]["text"] == "Looking."
    assert (custom["type"], custom["name"], custom["input"]) == ("custom_tool_call", "exec", "pwd")
    assert "choices" not in response
    assert "chat.completion" not in json.dumps(response)


async def test_a_blocking_answer_is_made_of_the_stream_that_the_upstream_was_forced_to(
    gateway: Gateway,
):
    """The forced SSE projection: the parser is the upstream's, the answer the client's."""
    gateway.upstream.play(*called("exec", *PWD))
    reply = await gateway.create(stream=False, input=[LITE, USER])
    assert reply.headers["content-type"].startswith("application/json")
    assert asked(gateway)["stream"] is True
    call = only(reply.json["output"])
    assert (call["type"], call["input"], call["status"]) == ("custom_tool_call", "pwd", "completed")


async def test_both_ways_give_the_same_items(gateway: Gateway):
    call = {"id": "call_1", "type": "function"}
    message = {"tool_calls": [call | {"function": {"name": "exec", "arguments": "".join(PWD)}}]}
    gateway.upstream.play(completion(message, "tool_calls"), headers=JSON_HEAD)
    gateway.upstream.play(*called("exec", *PWD))
    whole = await turn(gateway, stream=False, input=[LITE, USER])
    streamed = await turn(gateway, stream=True, input=[LITE, USER])
    for item in (*whole["output"], *streamed["output"]):
        del item["id"]
    assert whole["output"] == streamed["output"]
    assert whole["usage"] == streamed["usage"]


# ---- what stays here


CONTINUITY = {
    "encrypted_content": "opaque",
    "reasoning_encrypted_content": "opaque",
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "opaque",
    "client_metadata": {"thread": "opaque"},
}


@BOTH_WAYS
async def test_fields_of_continuity_never_reach_the_upstream(gateway: Gateway, stream: bool):
    gateway.upstream.play(*said("done"))
    history = [
        LITE,
        USER,
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"},
        {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "pwd"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "/root"},
    ]
    response = await turn(gateway, stream=stream, input=history, store=False, seed=0, **CONTINUITY)
    assert response["status"] == "completed"
    body = asked(gateway)
    assert b"opaque" not in gateway.upstream.requests[-1].body
    assert b"encrypted" not in gateway.upstream.requests[-1].body
    assert body["seed"] == 0, "a field that neither API names is the model server's"
    assert set(body) == {"model", "messages", "tools", "stream", "stream_options", "seed"}


@pytest.mark.parametrize("field", ["none", "reasoning_content", "reasoning"])
async def test_reasoning_comes_back_in_the_one_field_that_the_upstream_takes(
    store: Store, upstream: Server, field: Any
):
    upstreams = chat_upstream(upstream, reasoning_history=field)
    async with running(store, upstream, upstreams=upstreams) as gateway:
        upstream.play(*called("exec", *PWD, thought="Ask the shell."))
        upstream.play(*said("done"))
        stateless = {"store": False, "include": ["reasoning.encrypted_content"]}
        first = await turn(gateway, stream=True, input=[LITE, USER], **stateless)
        thought, call = first["output"]
        carried = {"type": "reasoning", "summary": [], "content": None} | {
            key: thought[key] for key in ("id", "encrypted_content")
        }
        answer = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "/root"}
        history = [LITE, USER, carried, call, answer]
        await turn(gateway, stream=True, input=history, **stateless)
        assistant = asked(gateway)["messages"][1]
        held = {key: assistant[key] for key in assistant if key.startswith("reasoning")}
        assert held == ({} if field == "none" else {field: "Ask the shell."})
        assert b"encrypted" not in upstream.requests[-1].body


@BOTH_WAYS
async def test_an_input_outside_of_its_grammar_ends_the_response(gateway: Gateway, stream: bool):
    gateway.upstream.play(*called("exec", '{"input":"pw', 'd; rm"}'))
    response = await turn(gateway, stream=stream, input=[LITE, USER])
    assert response["status"] == "failed"
    assert response["error"]["code"] == "server_error"
    assert "'exec'" in response["error"]["message"]
    call = only(response["output"])
    assert (call["status"], call["input"]) == ("incomplete", "pwd")
