"""Calls that the client wants to be asked about: the question ends a turn, the answer begins the next one."""

import json
from typing import Any

import pytest

from tests.api.tools.model import Part, Say, call, mcp_call, search
from tests.api.tools.rig import FUNCTION, SEARCH, Rig, Turn
from tests.wait import wait_until

ANSWER: list[Part] = [Say("Done.")]


def answer(request: dict[str, Any], approve: bool, **fields: Any) -> dict[str, Any]:
    return {
        "type": "mcp_approval_response",
        "approval_request_id": request["id"],
        "approve": approve,
        **fields,
    }


def asking(rig: Rig, **fields: Any) -> dict[str, Any]:
    return rig.server(require_approval="always", **fields)


async def question(rig: Rig, stream: bool) -> tuple[Turn, dict[str, Any]]:
    """A first turn that ends in a question."""
    rig.model.script([mcp_call("echo", "a")])
    turn = await rig.turn(stream, input="Go.", tools=[asking(rig)])
    (request,) = turn.of("mcp_approval_request")
    return turn, request


async def test_a_call_that_needs_approval_ends_the_turn_unrun(rig: Rig, stream: bool):
    turn, request = await question(rig, stream)
    assert turn.kinds == ["mcp_list_tools", "mcp_approval_request"]
    assert (request["server_label"], request["name"]) == ("s", "echo")
    assert json.loads(request["arguments"]) == {"text": "a"}
    assert turn.response["status"] == "completed"
    assert rig.mcp.calls == []
    assert len(rig.gateway.upstream.requests) == 1


async def test_asking_is_what_happens_when_the_request_is_silent(rig: Rig, stream: bool):
    rig.model.script([mcp_call("echo", "a")])
    tool = asking(rig)
    del tool["require_approval"]
    turn = await rig.turn(stream, tools=[tool])
    assert turn.kinds == ["mcp_list_tools", "mcp_approval_request"]
    assert rig.mcp.calls == []


async def test_yes_runs_the_call_before_the_model_speaks(rig: Rig, stream: bool):
    first, request = await question(rig, stream)
    rig.model.script(ANSWER)
    before = len(rig.gateway.upstream.requests)
    turn = await rig.turn(
        stream,
        previous_response_id=first.response["id"],
        input=[answer(request, True)],
        tools=[asking(rig)],
    )
    assert turn.kinds == ["mcp_call", "message"]
    made = turn.output[0]
    assert (made["approval_request_id"], made["name"]) == (request["id"], "echo")
    assert (made["arguments"], made["output"]) == (request["arguments"], "a")
    assert made["status"] == "completed"
    assert rig.mcp.calls == [("echo", {"text": "a"})]
    asked = rig.model.asked()
    assert len(rig.gateway.upstream.requests) == before + 1
    assert list(asked.results.values()) == ["a"]
    ((_, _, name, arguments),) = [entry for entry in asked.history if entry[0] == "call"]
    assert name == asked.name_of("echo", "s")
    assert json.loads(arguments) == {"text": "a"}


async def test_an_approved_call_that_ran_is_told_although_the_upstream_then_refuses(
    rig: Rig, stream: bool
):
    """An HTTP error would have an SDK create it again, and the call run twice."""
    first, request = await question(rig, stream)
    rig.gateway.upstream.plays.clear()
    rig.gateway.upstream.play(b"{}", status="503 Service Unavailable")
    turn = await rig.turn(
        stream,
        previous_response_id=first.response["id"],
        input=[answer(request, True)],
        tools=[asking(rig)],
    )
    assert turn.response["status"] == "failed"
    assert [(item["type"], item["status"]) for item in turn.output] == [("mcp_call", "completed")]
    assert rig.mcp.calls == [("echo", {"text": "a"})]


async def test_no_tells_the_model_that_it_was_refused(rig: Rig, stream: bool):
    first, request = await question(rig, stream)
    rig.model.script(ANSWER)
    turn = await rig.turn(
        stream,
        previous_response_id=first.response["id"],
        input=[answer(request, False, reason="Not today.")],
        tools=[asking(rig)],
    )
    assert turn.kinds == ["message"]
    assert rig.mcp.calls == []
    ((told),) = rig.model.asked().results.values()
    assert "Not today." in json.loads(told)["error"]


@pytest.mark.parametrize("approve", [True, False], ids=["yes", "no"])
async def test_the_turn_after_the_answer_still_knows_it(rig: Rig, stream: bool, approve: bool):
    """And an answer is good for one call: nothing runs again."""
    first, request = await question(rig, stream)
    rig.model.script(ANSWER)
    options: dict[str, Any] = {"tools": [asking(rig)]}
    second = await rig.turn(
        stream,
        previous_response_id=first.response["id"],
        input=[answer(request, approve)],
        **options,
    )
    told = list(rig.model.asked().results.values())
    third = await rig.turn(
        stream, previous_response_id=second.response["id"], input="On.", **options
    )
    assert list(rig.model.asked().results.values()) == told
    assert third.kinds == ["message"]
    assert len(rig.mcp.calls) == int(approve)


async def test_a_stateless_client_sends_question_and_answer(rig: Rig, stream: bool):
    rig.model.script([mcp_call("echo", "a")])
    options: dict[str, Any] = {"tools": [asking(rig)], "store": False}
    first = await rig.turn(stream, input="Go.", **options)
    rig.model.script(ANSWER)
    (request,) = first.of("mcp_approval_request")
    history = [{"role": "user", "content": "Go."}, *first.output, answer(request, True)]
    turn = await rig.turn(stream, input=history, **options)
    assert turn.kinds == ["mcp_call", "message"]
    assert turn.output[0]["approval_request_id"] == request["id"]
    assert list(rig.model.asked().results.values()) == ["a"]


async def test_several_questions_are_answered_each_by_itself(rig: Rig, stream: bool):
    rig.model.script([mcp_call("echo", "a"), mcp_call("look", "b"), mcp_call("echo", "c")])
    first = await rig.turn(stream, tools=[asking(rig)], parallel_tool_calls=True)
    one, two, three = first.of("mcp_approval_request")
    assert len({request["id"] for request in (one, two, three)}) == 3
    rig.model.script(ANSWER)
    turn = await rig.turn(
        stream,
        previous_response_id=first.response["id"],
        input=[answer(one, True), answer(two, False), answer(three, True)],
        tools=[asking(rig)],
    )
    made = turn.of("mcp_call")
    assert [call["approval_request_id"] for call in made] == [one["id"], three["id"]]
    assert [call["output"] for call in made] == ["a", "c"]
    results = list(rig.model.asked().results.values())
    assert (results[0], results[2]) == ("a", "c")
    assert "error" in json.loads(results[1])


async def test_approved_calls_run_at_once_within_the_same_limit(rig: Rig, stream: bool):
    rig.model.script([mcp_call("hold", f"{n}") for n in range(7)])
    first = await rig.turn(stream, tools=[asking(rig)], parallel_tool_calls=True)
    rig.model.script(ANSWER)
    task = rig.starting(
        stream,
        previous_response_id=first.response["id"],
        input=[answer(request, True) for request in first.of("mcp_approval_request")],
        tools=[asking(rig)],
    )
    await wait_until(lambda: rig.mcp.running == 5)
    for number in range(7):
        rig.mcp.doors[f"{number}"].set()
    turn = await task
    assert rig.mcp.most == 5
    assert [item["output"] for item in turn.of("mcp_call")] == [f"{n} let go" for n in range(7)]


async def test_what_needs_no_approval_runs_beside_what_does(rig: Rig, stream: bool):
    """Like a mixed round: the question ends the turn, the results wait for the next one."""
    rig.model.script([mcp_call("look", "a"), mcp_call("echo", "b"), search("c")])
    rule = {"never": {"tool_names": ["look"]}}
    turn = await rig.turn(
        stream, tools=[rig.server(require_approval=rule), SEARCH], parallel_tool_calls=True
    )
    assert turn.kinds == ["mcp_list_tools", "mcp_call", "mcp_approval_request", "web_search_call"]
    assert [name for name, _ in rig.mcp.calls] == ["look"]
    assert len(rig.gateway.upstream.requests) == 1


@pytest.mark.parametrize(
    ("rule", "asked_about"),
    [
        ("never", []),
        ("always", ["echo", "look"]),
        ({"never": {"tool_names": ["echo"]}}, ["look"]),
        ({"never": {"read_only": True}}, ["echo"]),
        ({"always": {"tool_names": ["look"]}, "never": {"tool_names": ["echo"]}}, ["look"]),
    ],
    ids=["never", "always", "never by name", "never read_only", "both by name"],
)
async def test_the_rule_says_which_tools_are_asked_about(
    rig: Rig, stream: bool, rule: Any, asked_about: list[str]
):
    rig.model.script([mcp_call("echo", "a"), mcp_call("look", "b")], ANSWER)
    turn = await rig.turn(
        stream, tools=[rig.server(require_approval=rule)], parallel_tool_calls=True
    )
    assert [item["name"] for item in turn.of("mcp_approval_request")] == asked_about
    run = sorted(name for name, _ in rig.mcp.calls)
    assert run == sorted({"echo", "look"} - set(asked_about))
    assert bool(turn.of("message")) == (asked_about == [])


async def test_an_answer_to_no_question_is_refused(rig: Rig, stream: bool):
    rig.model.script(ANSWER)
    reply = await rig.gateway.create(
        stream=stream, tools=[asking(rig)], input=[answer({"id": "mcpr_unknown"}, True)]
    )
    assert (reply.status, reply.error["type"]) == (400, "invalid_request_error")
    assert reply.error["param"].startswith("input")
    assert rig.gateway.upstream.requests == []


async def test_an_approved_call_that_fails_is_told_to_the_model(rig: Rig, stream: bool):
    rig.model.script([mcp_call("fail", "it broke")])
    first = await rig.turn(stream, tools=[asking(rig)])
    (request,) = first.of("mcp_approval_request")
    rig.model.script(ANSWER)
    turn = await rig.turn(
        stream,
        previous_response_id=first.response["id"],
        input=[answer(request, True)],
        tools=[asking(rig)],
    )
    assert turn.output[0]["status"] == "failed"
    assert list(rig.model.asked().results.values()) == ['{"error":"it broke"}']
    assert turn.text == "Done."


async def test_a_question_beside_a_clients_call_waits_for_both_answers(rig: Rig, stream: bool):
    made, _ = rig.model.script([call("get_weather", city="Oslo"), mcp_call("echo", "b")])
    tools = [FUNCTION, asking(rig)]
    first = await rig.turn(stream, tools=tools, parallel_tool_calls=True)
    assert first.kinds == ["mcp_list_tools", "function_call", "mcp_approval_request"]
    rig.model.script(ANSWER)
    output = {"type": "function_call_output", "call_id": made.ident, "output": "rain"}
    (request,) = first.of("mcp_approval_request")
    turn = await rig.turn(
        stream,
        previous_response_id=first.response["id"],
        input=[output, answer(request, True)],
        tools=tools,
    )
    assert turn.kinds == ["mcp_call", "message"]
    assert sorted(rig.model.asked().results.values()) == ["b", "rain"]


async def test_an_answer_is_good_for_one_call(rig: Rig, stream: bool):
    """Whoever sends it again is not served again."""
    first, request = await question(rig, stream)
    rig.model.script(ANSWER)
    yes = answer(request, True)
    options: dict[str, Any] = {"tools": [asking(rig)], "input": [yes]}
    second = await rig.turn(stream, previous_response_id=first.response["id"], **options)
    reply = await rig.gateway.create(
        stream=stream, previous_response_id=second.response["id"], **options
    )
    assert reply.status in (200, 400)
    assert rig.mcp.calls == [("echo", {"text": "a"})]


async def test_a_question_that_nobody_answers_is_no_call(rig: Rig, stream: bool):
    first, _ = await question(rig, stream)
    rig.model.script(ANSWER)
    turn = await rig.turn(
        stream, previous_response_id=first.response["id"], input="Never mind.", tools=[asking(rig)]
    )
    assert turn.kinds == ["message"]
    assert rig.mcp.calls == []
    assert rig.model.asked().calls == []


async def test_a_server_that_is_not_declared_again_runs_no_approved_call(rig: Rig, stream: bool):
    first, request = await question(rig, stream)
    rig.model.script(ANSWER)
    for tools in ([], [asking(rig, server_label="other")]):
        reply = await rig.gateway.create(
            stream=stream,
            previous_response_id=first.response["id"],
            input=[answer(request, True)],
            tools=tools,
        )
        assert (reply.status, reply.error["param"]) == (400, "tools")
    assert rig.mcp.calls == []
