"""The next turn of a response with tools: whatever happened in it, the model is told every call with its result.

A first turn is played in a `World`; its output is the history of the second, as `previous_response_id` brings it.
"""

import json
from random import Random

from hypothesis import assume
from hypothesis import strategies as st

from tests.translator import strict_chat
from tests.translator.bodies import request, user
from tests.translator.drive import RID, Event
from tests.translator.plans import ORDERS, holds_for, run, troubled
from tests.translator.world import (
    Plan,
    Round,
    Saying,
    Server,
    World,
    answered,
    calls_of,
    outputs_of,
    tag_of,
)
from translator.ids import item_id
from translator.outbound import check, upstream_body
from translator.request_entry import input_items

NEXT = "resp_" + "f" * 32
FIRST_ID = 10
"""Of the answers of the second turn; those of the first begin with 0."""
OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}


def with_results(world: World) -> list[Event]:
    """The output as the api reads it: each call that was run with its result from the log."""
    places = {
        item_id(RID, kind, *map(int, key.split("."))): result
        for key, result in world.results.items()
        if not key.startswith("list")
        for kind in ("mcp_call", "web_search_call")
    }
    return [
        item | {"result": places[item["id"]]} if item["id"] in places else item
        for item in world.output
    ]


def replies(world: World, approve: bool, first_id: int) -> list[Event]:
    """What a client says to all that the first turn left to it."""
    found: list[Event] = []
    for item in world.output:
        if item["type"] in OUTPUTS and item["status"] == "completed":
            kind, told = OUTPUTS[item["type"]], f"<{item['call_id']}>"
            found.append({"type": kind, "call_id": item["call_id"], "output": told})
        if item["type"] == "mcp_approval_request":
            found.append(
                {**answered(first_id + len(found), approve), "approval_request_id": item["id"]}
            )
    return [*found, user()]


def next_body(world: World, approve: bool, first_id: int = FIRST_ID) -> Event:
    """What goes upstream for the second turn, if it needs nothing first."""
    plan = world.plan
    entry = json.loads(world.entries[0].data)
    history = [*entry["history"], *entry["input"], *with_results(world)]
    made = request(tools=plan.tools, input=replies(world, approve, first_id))
    checked = check(
        made,
        history,
        api=plan.api,
        custom_formats="reject",
        gateway_tools=("web_search", "mcp"),
    )
    return upstream_body(
        made.body, [*history, *input_items(NEXT, made)], checked.tools, api=plan.api
    )


def continued(plan: Plan, order: Random) -> World:
    world = run(plan, order)
    assume(world.response["status"] in ("completed", "incomplete"))
    return world


@holds_for(troubled(), ORDERS, st.booleans())
def test_every_call_of_a_turn_has_its_output_in_the_next(
    plan: Plan, order: Random, approve: bool
) -> None:
    world = continued(plan, order)
    body = next_body(world, approve)
    calls, outputs = calls_of(body), outputs_of(body)
    assert sorted(calls) == sorted(ident for ident, _ in outputs), "none is left without the other"
    assert len(set(calls)) == len(calls)
    if plan.api == "chat":
        strict_chat.check_messages(body["messages"])


@holds_for(troubled(), ORDERS)
def test_what_tools_have_said_is_told_again_once_each_and_in_order(
    plan: Plan, order: Random
) -> None:
    world = continued(plan, order)
    told = [content for _, content in outputs_of(next_body(world, approve=False))]
    shown = [item["id"] for item in world.output]
    tags = {
        item_id(RID, kind, *map(int, key.split("."))): tag_of(key)
        for key in world.results
        if not key.startswith("list")
        for kind in ("mcp_call", "web_search_call")
    }
    wanted = [tags[ident] for ident in shown if ident in tags]
    assert [tag for content in told for tag in [first(wanted, content)] if tag] == wanted


def first(tags: list[str], content: str) -> str | None:
    return next((tag for tag in tags if tag in content), None)


@holds_for(troubled(), ORDERS)
def test_the_model_hears_of_every_call_that_the_client_did_not_want(
    plan: Plan, order: Random
) -> None:
    world = continued(plan, order)
    asked = [item for item in world.output if item["type"] == "mcp_approval_request"]
    before = plan.approvals.count(False) if plan.asked else 0
    told = [content for _, content in outputs_of(next_body(world, approve=False))]
    assert sum("did not approve" in content for content in told) == before + len(asked)


def test_answers_with_the_same_id_in_two_turns_are_two_calls() -> None:
    call = Round((Saying("call", ('{"q": "1-0"}',), "@alpha/look.up"),))
    world = run(Plan((call,), (Server("alpha", approval="always"),), approvals=(False,)))
    calls = calls_of(next_body(world, approve=False, first_id=0))
    assert len(set(calls)) == len(calls) == 2
