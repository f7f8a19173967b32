"""The feature sources, end to end: a client, the gateway on a real store, an upstream that only knows functions.

The six-delta reference is OpenAI's own event sequence for the two-turn flow. It is compared where RESPOOL_CORPUS names
the folder that holds it; the flow itself is tested everywhere.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.api.gateway import DONE, Gateway, Reply, data_of
from tests.ingest.server import event, text_stream

PIECES = ['{"input":"CUSTOM', "_C", "AS", "SET", "TE", "_OK", '"}']
DELTAS = ["CUSTOM", "_C", "AS", "SET", "TE", "_OK"]
TOOL = {"type": "custom", "name": "agentic_raw_echo", "description": "Emit the token as raw text."}
ASK = {"input": "Call the tool.", "tools": [TOOL]}
GRAMMARS = [
    {"type": "grammar", "syntax": "lark", "definition": "start: /[a-z]+/"},
    {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"},
]


def call(name: str | None, arguments: str = "", ident: str = "fc_1") -> dict[str, Any]:
    return {
        "type": "function_call", "id": ident, "call_id": "call_1", "name": name,
        "arguments": arguments, "status": "completed" if arguments else "in_progress",
    }  # fmt: skip


def call_stream(
    first: dict[str, Any], last: dict[str, Any], between: Sequence[bytes] = ()
) -> list[bytes]:
    """What vLLM streams for one call; `first` and `last` are the item as added and as done."""
    at = {"item_id": first["id"], "output_index": 0}
    whole = "".join(PIECES)
    return [
        event(
            "response.created", response={"id": "resp_up", "status": "in_progress", "output": []}
        ),
        event("response.output_item.added", output_index=0, item=first),
        *(event("response.function_call_arguments.delta", delta=piece, **at) for piece in PIECES),
        *between,
        event("response.function_call_arguments.done", arguments=whole, **at),
        event("response.output_item.done", output_index=0, item=last),
        event(
            "response.completed",
            response={"id": "resp_up", "status": "completed", "output": [last]},
        ),
    ]


CALL = call("agentic_raw_echo"), call("agentic_raw_echo", "".join(PIECES))


def events_of(reply: Reply) -> list[dict[str, Any]]:
    assert reply.status == 200, reply.body
    *frames, done = reply.frames
    assert done == DONE
    return [data_of(frame) for frame in frames]


def deltas_of(events: list[dict[str, Any]]) -> list[str]:
    kind = "response.custom_tool_call_input.delta"
    return [event["delta"] for event in events if event["type"] == kind]


def like_reference(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events in the reference's terms: ids as placeholders, lifecycle events without their Response."""
    names: dict[str, str] = {}
    for found in events:
        if found["type"] == "response.output_item.added":
            names = {found["item"]["id"]: "<ctc id>", found["item"]["call_id"]: "<call id>"}
    text = json.dumps(events)
    for ident, name in names.items():
        text = text.replace(ident, name)
    reduced = []
    for found in json.loads(text):
        response = found.pop("response", None)
        if found["type"] == "response.completed":
            found["output"] = response["output"]
        reduced.append(found)
    return reduced


async def test_a_custom_call_streams_six_deltas_under_one_id(gateway: Gateway):
    gateway.upstream.play(*call_stream(*CALL))
    events = events_of(await gateway.create(stream=True, **ASK))
    assert deltas_of(events) == DELTAS
    added, *_, finished, end = (
        e for e in events if e.get("item") or e["type"].endswith("completed")
    )
    (item,) = end["response"]["output"]
    assert item == finished["item"]
    assert item["id"].startswith("ctc_")
    assert {e.get("item_id", item["id"]) for e in events} == {added["item"]["id"]} == {item["id"]}
    assert (item["type"], item["input"]) == ("custom_tool_call", "CUSTOM_CASSETTE_OK")
    assert not [e for e in events if "function_call" in json.dumps(e)]


async def test_the_stream_is_openais_own(gateway: Gateway):
    folder = os.environ.get("RESPOOL_CORPUS")
    if not folder:
        pytest.skip("RESPOOL_CORPUS does not name the folder of recorded streams")
    found = json.loads((Path(folder) / "reference/custom-tool-six-deltas.json").read_text())
    gateway.upstream.play(*call_stream(*CALL))
    events = events_of(await gateway.create(**found["turn_1"]["request"]))
    assert like_reference(events) == found["turn_1"]["public_events"]
    words = ["CUSTOM", "_C", "AS", "SET", "TE", "_OUTPUT", "_OK"]
    gateway.upstream.play(*text_stream(*words))
    gateway.upstream.plays.pop(0)
    turn = {
        **found["turn_2"]["request"],
        "previous_response_id": events[-1]["response"]["id"],
        "input": json.loads(
            json.dumps(found["turn_2"]["request"]["input"]).replace("<call id>", "call_1")
        ),
    }
    second = events_of(await gateway.create(stream=True, **turn))
    assert [e["type"] for e in second] == found["turn_2"]["public_event_types"]


@pytest.mark.parametrize("stream", [True, False])
async def test_the_second_turn_sends_the_call_and_its_output_as_a_function(
    gateway: Gateway, stream: bool
):
    gateway.upstream.play(*call_stream(*CALL))
    first = await gateway.create(stream=stream, **ASK)
    response = events_of(first)[-1]["response"] if stream else first.json
    assert response["output"][0]["input"] == "CUSTOM_CASSETTE_OK"
    gateway.upstream.play(*text_stream("done"))
    gateway.upstream.plays.pop(0)
    output = {
        "type": "custom_tool_call_output",
        "call_id": "call_1",
        "output": "CUSTOM_CASSETTE_OUTPUT_OK",
    }
    second = await gateway.create(
        stream=stream, previous_response_id=response["id"], tools=[TOOL], input=[output]
    )
    assert second.status == 200, second.body
    sent = json.loads(gateway.upstream.requests[-1].body)
    kinds = [item.get("type", "message") for item in sent["input"]]
    assert kinds == ["message", "function_call", "function_call_output"]
    function_call, its_output = sent["input"][1:]
    assert json.loads(function_call["arguments"]) == {"input": "CUSTOM_CASSETTE_OK"}
    assert function_call["call_id"] == its_output["call_id"] == "call_1"
    assert its_output["output"] == "CUSTOM_CASSETTE_OUTPUT_OK"
    (declared,) = sent["tools"]
    assert declared["type"] == "function"
    assert declared["parameters"]["required"] == ["input"]
    assert declared["parameters"]["additionalProperties"] is False
    kept = (await gateway.get(response["id"])).json["output"][0]
    assert kept["type"] == "custom_tool_call", "the conversion lives in the upstream's copy alone"


@pytest.mark.parametrize("grammar", GRAMMARS, ids=["lark", "regex"])
async def test_a_grammar_is_refused_before_any_upstream_request(gateway: Gateway, grammar: Any):
    gateway.upstream.play(*call_stream(*CALL))
    for stream in (True, False):
        reply = await gateway.create(stream=stream, input="x", tools=[TOOL | {"format": grammar}])
        assert reply.status == 400
        assert "agentic_raw_echo" in reply.error["message"]
        assert reply.error["param"].startswith("tools")
    assert gateway.upstream.requests == []


async def test_a_held_call_whose_done_brings_a_new_id_comes_out_whole(gateway: Gateway):
    held, named = call("", ident="tmp_1"), call("agentic_raw_echo", "".join(PIECES), "fc_9")
    gateway.upstream.play(*call_stream(held, named))
    events = events_of(await gateway.create(stream=True, **ASK))
    assert deltas_of(events) == DELTAS
    assert events[-1]["response"]["output"][0]["name"] == "agentic_raw_echo"
    assert "tmp_1" not in json.dumps(events)


async def test_later_items_wait_behind_an_unnamed_call(gateway: Gateway):
    message = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    later = [
        event("response.output_item.added", output_index=1, item=message),
        event(
            "response.output_text.delta",
            output_index=1,
            item_id="m",
            content_index=0,
            delta="later",
        ),
    ]
    gateway.upstream.play(*call_stream(call(None), CALL[1], later))
    events = events_of(await gateway.create(stream=True, **ASK))
    order = [e["type"] for e in events if "delta" in e["type"] or "output_item.done" in e["type"]]
    assert order.index("response.output_item.done") < order.index("response.output_text.delta")
    assert [i["type"] for i in events[-1]["response"]["output"]] == ["custom_tool_call", "message"]


@pytest.mark.parametrize("allowed", [False, True], ids=["alone", "in allowed_tools"])
async def test_a_custom_selector_never_names_a_function(gateway: Gateway, allowed: bool):
    selector: dict[str, Any] = {"type": "custom", "name": "echo"}
    if allowed:
        selector = {"type": "allowed_tools", "mode": "auto", "tools": [selector]}
    function = {"type": "function", "name": "echo", "parameters": {"type": "object"}}
    reply = await gateway.create(input="x", tools=[function], tool_choice=selector)
    assert reply.status == 400
    assert reply.error["param"] == "tool_choice"
    assert gateway.upstream.requests == []


async def test_created_and_in_progress_show_the_clients_own_tools_and_choice(gateway: Gateway):
    choice = {"type": "custom", "name": "agentic_raw_echo"}
    gateway.upstream.play(*call_stream(*CALL))
    events = events_of(await gateway.create(stream=True, **ASK, tool_choice=choice))
    for lifecycle in (events[0], events[1], events[-1]):
        assert lifecycle["response"]["tools"] == [TOOL]
        assert lifecycle["response"]["tool_choice"] == choice
    assert json.loads(gateway.upstream.requests[-1].body)["tool_choice"]["type"] == "function"
