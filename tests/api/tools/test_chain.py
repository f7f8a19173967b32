"""Turns after one in which the gateway ran tools: the model is told of every call, and of its result."""

import json
from typing import Any

import pytest

from tests.api.tools.model import Api, Asked, Call, Part, Say, Think, call, mcp_call, search
from tests.api.tools.rig import CUSTOM, FUNCTION, SEARCH, Equip, Rig
from tests.workers.tools.mcp_server import PNG, answering

ANSWER: list[Part] = [Say("Done.")]


@pytest.mark.parametrize("again", [True, False], ids=["same tools", "no tools"])
async def test_a_later_turn_replays_every_call_with_its_result(rig: Rig, stream: bool, again: bool):
    tools = [SEARCH, rig.server()]
    calls = rig.model.script(
        [Say("I look."), search("a"), mcp_call("fail", "no"), mcp_call("echo", "c")],
        [mcp_call("echo", "d")],
        ANSWER,
    )
    first = await rig.turn(stream, input="Go.", tools=tools, parallel_tool_calls=True)
    results = list(rig.model.asked().results.values())
    rig.model.script([Say("Bye.")])
    second = await rig.turn(
        stream,
        input="On.",
        previous_response_id=first.response["id"],
        **({"tools": tools} if again else {}),
    )
    asked = rig.model.asked()
    assert list(asked.results.values()) == results
    assert asked.calls == list(asked.results)
    assert arguments_of(asked) == said_in(calls)
    said = [entry for entry in asked.history if entry[0] in ("user", "assistant")]
    assert said == [
        *(("user", "Go."), ("assistant", "I look.")),
        *(("assistant", "Done."), ("user", "On.")),
    ]
    kinds = [entry[0] for entry in asked.history]
    assert kinds[:2] == ["user", "assistant"]
    assert kinds[-2:] == ["assistant", "user"]
    assert second.kinds == ["message"], "a list that the chain has is not told again"


async def test_a_later_turn_brings_the_clients_results_beside_ours(rig: Rig, stream: bool):
    tools = [FUNCTION, rig.server(), SEARCH, CUSTOM]
    calls = rig.model.script(
        [
            call("get_weather", city="Oslo"),
            mcp_call("echo", "b"),
            search("c"),
            call("shell", input="pwd"),
        ]
    )
    first = await rig.turn(stream, tools=tools, parallel_tool_calls=True)
    rig.model.script(ANSWER)
    outputs = [
        {"type": "function_call_output", "call_id": calls[0].ident, "output": "rain"},
        {"type": "custom_tool_call_output", "call_id": calls[3].ident, "output": "/root"},
    ]
    turn = await rig.turn(
        stream, previous_response_id=first.response["id"], input=outputs, tools=tools
    )
    asked = rig.model.asked()
    weather, echoed, found, shell = (asked.results[ident] for ident in asked.calls)
    assert (weather, echoed, shell) == ("rain", "b", "/root")
    assert "found.test" in found
    assert arguments_of(asked) == said_in(calls)
    assert turn.text == "Done."


async def test_a_stateless_client_brings_the_calls_itself(rig: Rig, stream: bool):
    """Sending the output back as input brings the results of MCP calls, and the lists of the servers."""
    tools = [SEARCH, rig.server()]
    calls = rig.model.script(
        [search("a"), mcp_call("echo", "b"), mcp_call("fail", "it broke")], ANSWER
    )
    options = {"tools": tools, "parallel_tool_calls": True, "store": False}
    first = await rig.turn(stream, input="Go.", **options)
    rig.model.script([Say("Bye.")])
    lists = rig.mcp.lists
    history = [user("Go."), *first.output, user("On.")]
    second = await rig.turn(stream, input=history, **options)
    asked = rig.model.asked()
    assert arguments_of(asked)[-2:] == said_in(calls[1:])
    assert list(asked.results.values())[-2:] == ["b", '{"error":"it broke"}']
    assert second.kinds == ["message"]
    assert rig.mcp.lists == lists


async def test_a_chain_lists_a_new_server_and_one_that_failed_before(rig: Rig, stream: bool):
    rig.mcp.answer = answering(503)
    rig.model.script(ANSWER)
    first = await rig.turn(stream, tools=[rig.server("one")])
    rig.mcp.answer = None
    second = await rig.turn(
        stream, tools=[rig.server("one")], previous_response_id=first.response["id"]
    )
    assert [item.get("error") for item in second.of("mcp_list_tools")] == [None]
    third = await rig.turn(
        stream,
        tools=[rig.server("one"), rig.server("two")],
        previous_response_id=second.response["id"],
    )
    assert [item["server_label"] for item in third.of("mcp_list_tools")] == ["two"]
    asked = rig.model.asked()
    assert asked.name_of("echo", "one") != asked.name_of("echo", "two")


async def test_images_are_there_in_later_turns(rig: Rig, stream: bool):
    rig.model.script([mcp_call("parts")], ANSWER)
    first = await rig.turn(stream, tools=[rig.server()])
    now = rig.model.asked().body
    await rig.turn(stream, tools=[rig.server()], previous_response_id=first.response["id"])
    later = rig.model.asked().body
    for body in (now, later):
        assert json.dumps(body).count(f"data:image/png;base64,{PNG}") == 1


async def test_a_turn_that_ran_out_of_rounds_can_be_continued(equip: Equip, api: Api, stream: bool):
    async with equip(api, max_rounds=2) as rig:
        rig.model.script([search("again")])
        first = await rig.turn(stream, tools=[SEARCH])
        assert first.response["status"] == "incomplete"
        rig.model.script(ANSWER)
        second = await rig.turn(
            stream, tools=[SEARCH], input="On.", previous_response_id=first.response["id"]
        )
        assert len(rig.model.asked().results) == 2
        assert second.text == "Done."


async def test_what_the_model_said_and_thought_goes_before_its_calls(rig: Rig, stream: bool):
    (made,) = rig.model.script([Think("Hm."), Say("I look."), mcp_call("echo", "a")], ANSWER)
    turn = await rig.turn(stream, input="Go.", tools=[rig.server()])
    assert turn.kinds == ["mcp_list_tools", "reasoning", "message", "mcp_call", "message"]
    kinds = [entry[:2] for entry in rig.model.asked().history if entry[0] != "reasoning"]
    assert kinds == [
        *(("user", "Go."), ("assistant", "I look.")),
        *(("call", made.ident), ("result", made.ident)),
    ]
    if rig.model.api == "responses":
        assert rig.model.asked().history[1] == ("reasoning", "Hm.")


async def test_text_between_calls_is_told_again(rig: Rig, stream: bool):
    tools = [rig.server(), SEARCH]
    calls = rig.model.script(
        [Say("Before."), mcp_call("echo", "a"), Say("After."), search("b")], ANSWER
    )
    first = await rig.turn(stream, input="Go.", tools=tools, parallel_tool_calls=True)
    kinds = ["mcp_list_tools", "message", "mcp_call", "message", "web_search_call", "message"]
    assert first.kinds == kinds
    now = rig.model.asked()
    assert list(now.results) == [c.ident for c in calls]
    await rig.turn(stream, input="On.", tools=tools, previous_response_id=first.response["id"])
    later = rig.model.asked()
    assert list(later.results.values()) == list(now.results.values())
    said = "\n\n".join(entry[1] for entry in later.history if entry[0] == "assistant")
    assert said == "Before.\n\nAfter.\n\nDone."


async def test_call_ids_that_a_model_repeats_are_told_apart(rig: Rig, stream: bool):
    """Some model servers number the calls of each answer from 0."""
    calls = rig.model.script([mcp_call("echo", "a")], [mcp_call("echo", "b")], ANSWER)
    for one in calls:
        one.ident = "call_up_0"
    turn = await rig.turn(stream, tools=[rig.server()])
    assert [item["output"] for item in turn.of("mcp_call")] == ["a", "b"]
    assert list(rig.model.asked().results.values()) == ["a", "b"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def arguments_of(asked: Asked) -> list[Any]:
    """Of the calls that went up, in order."""
    return [json.loads(entry[3]) for entry in asked.history if entry[0] == "call"]


def said_in(calls: list[Call]) -> list[Any]:
    return [json.loads(one.arguments) for one in calls]


async def test_what_is_known_of_items_by_reference_is_not_listed_with_them(rig: Rig, stream: bool):
    rig.model.script([search("a")], [search("b"), call("get_weather", city="Oslo")], [Say("Bye.")])
    first = await rig.turn(stream, input="Go.", tools=[SEARCH, FUNCTION])
    (mine,) = first.of("function_call")
    references = [{"type": "item_reference", "id": item["id"]} for item in first.output]
    answer = {"type": "function_call_output", "call_id": mine["call_id"], "output": "rain"}
    made = await rig.gateway.made(input=[*references, answer], tools=[SEARCH, FUNCTION])
    listed = (await rig.gateway.get(made["id"], "/input_items?order=asc")).json["data"]
    assert listed[:-1] == first.output
    calls = [entry[0] for entry in rig.model.asked().history]
    assert calls == ["call", "result", "call", "call", "result", "result"]
