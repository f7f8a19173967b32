"""Rounds in which calls of the client's and of the gateway's stand between texts, some without a name at first."""

import asyncio
from typing import Any

import pytest

from tests.api.gateway import Live, frames_of
from tests.api.tools import events as tool_events
from tests.api.tools.model import Part, Say, Think, call, mcp_call, search
from tests.api.tools.rig import CUSTOM, FUNCTION, SEARCH, Rig
from tests.translator import laws
from tests.wait import wait_until

PREFIXES = {
    "message": "msg_", "reasoning": "rs_", "function_call": "fc_", "custom_tool_call": "ctc_",
    "web_search_call": "ws_", "mcp_call": "mcp_", "mcp_list_tools": "mcpl_",
}  # fmt: skip
ANSWER: list[Part] = [Say("Done.")]


def all_kinds(*late: str) -> list[Part]:
    """A round with everything; the tools in `late` get their names late (`Call`)."""
    return [
        Think("Hm."),
        Say("Before."),
        call("shell", late="shell" in late, input="pwd"),
        mcp_call("echo", "b", late="echo" in late),
        Say("Between."),
        search("c", late="web_search" in late),
        call("get_weather", late="get_weather" in late, city="Oslo"),
        Say("After."),
    ]


KINDS = [
    *("mcp_list_tools", "reasoning", "message", "custom_tool_call"),
    *("mcp_call", "message", "web_search_call", "function_call", "message"),
]
TOOLS = ("shell", "echo", "web_search", "get_weather")
UNNAMED = [(), *((tool,) for tool in TOOLS), ("shell", "web_search"), TOOLS]


def tools(rig: Rig) -> list[dict[str, Any]]:
    return [CUSTOM, rig.server(), SEARCH, FUNCTION]


@pytest.mark.parametrize("late", UNNAMED, ids=lambda late: "+".join(late) or "all named")
async def test_all_kinds_come_out_in_the_order_of_the_model(
    rig: Rig, stream: bool, late: tuple[str, ...]
):
    """Streams keep the laws (`turn`); whichever names come late, the output is the same."""
    calls = rig.model.script(all_kinds(*late))
    turn = await rig.turn(stream, tools=tools(rig), parallel_tool_calls=True)
    assert turn.kinds == KINDS
    assert turn.response["status"] == "completed"
    assert len(rig.gateway.upstream.requests) == 1
    assert [item["id"].startswith(PREFIXES[item["type"]]) for item in turn.output] == [True] * 9
    _, _, _, custom, echo, _, looked, function, _ = turn.output
    texts = [item["content"][0]["text"] for item in turn.of("message")]
    assert texts == ["Before.", "Between.", "After."]
    assert (custom["call_id"], custom["name"], custom["input"]) == (calls[0].ident, "shell", "pwd")
    assert (echo["name"], echo["output"], echo["status"]) == ("echo", "b", "completed")
    assert (looked["action"]["query"], looked["status"]) == ("c", "completed")
    assert (function["call_id"], function["name"]) == (calls[3].ident, "get_weather")
    assert function["arguments"] == calls[3].arguments


async def test_streamed_resumed_and_blocking_are_one_answer(rig: Rig):
    rig.model.script(all_kinds("echo"))
    options = {"tools": tools(rig), "parallel_tool_calls": True}
    turn = await rig.turn(True, **options)
    frames = list(frames_of(turn.body))
    for after in range(-1, len(frames) - 1):
        query = f"?stream=true&starting_after={after}" if after >= 0 else "?stream=true"
        resumed = await rig.gateway.get(turn.response["id"], query)
        assert resumed.frames == frames[after + 1 :]
    rig.model.script(all_kinds("echo"))
    assert (await rig.turn(False, **options)).alike() == turn.alike()


async def test_what_follows_a_gateway_call_waits_for_its_end(rig: Rig):
    """But other gateway calls: they start, and end in the order of the output."""
    rig.model.script([mcp_call("hold", "a"), search("b"), call("shell", input="c"), Say("After.")])
    task = rig.starting(True, tools=tools(rig), parallel_tool_calls=True)
    await wait_until(lambda: rig.mcp.running == 1 and rig.engine.spans)
    rig.mcp.doors["a"].set()
    events = (await task).events
    held, searched, custom, text = range(1, 5)
    place = tool_events.position
    order = [
        place(events, "mcp_call.in_progress", held),
        place(events, "web_search_call.searching", searched),
        place(events, "mcp_call.completed", held),
        place(events, "output_item.done", held),
        place(events, "web_search_call.completed", searched),
        place(events, "output_item.done", searched),
        place(events, "output_item.added", custom),
        place(events, "output_item.added", text),
    ]
    assert order == sorted(order)


async def test_a_start_is_told_while_the_model_still_speaks(rig: Rig):
    """The call itself waits until the model has ended the round."""
    goes_on = asyncio.Event()
    rig.model.script(
        [Say("Before."), mcp_call("echo", "a"), goes_on, mcp_call("echo", "b")], ANSWER
    )
    async with rig.gateway.creating(
        stream=True, tools=[rig.server()], parallel_tool_calls=True
    ) as live:
        await live.until(b"event: response.mcp_call.in_progress")
        assert rig.mcp.calls == []
        assert b"event: response.mcp_call.completed" not in live.body
        goes_on.set()
        events = await finished(live)
    kinds = [item["type"] for item in events[-1]["response"]["output"]]
    assert kinds == ["mcp_list_tools", "message", "mcp_call", "mcp_call", "message"]
    assert [arguments["text"] for _, arguments in rig.mcp.calls] in (["a", "b"], ["b", "a"])


async def test_a_completion_is_told_while_later_calls_still_run(rig: Rig):
    rig.model.script([search("a"), mcp_call("hold", "b")], ANSWER)
    async with rig.gateway.creating(
        stream=True, tools=[SEARCH, rig.server()], parallel_tool_calls=True
    ) as live:
        await live.until(b"event: response.web_search_call.completed")
        await wait_until(lambda: rig.mcp.running == 1)
        assert b"event: response.mcp_call.completed" not in live.body
        rig.mcp.doors["b"].set()
        await finished(live)


async def test_a_reader_that_comes_while_calls_run_gets_the_same_rest(rig: Rig):
    rig.model.script([Say("Before."), mcp_call("hold", "a")], ANSWER)
    async with rig.gateway.creating(stream=True, tools=[rig.server()]) as live:
        await live.until(b"event: response.mcp_call_arguments.done")
        path = f"/v1/responses/{live.rid}?stream=true&starting_after=3"
        async with rig.gateway.live("GET", path) as second:
            await second.until(b"event: response.mcp_call_arguments.done")
            rig.mcp.doors["a"].set()
            late = await second.rest()
        assert (await live.rest())[4:] == late


async def test_an_undeclared_name_is_the_clients_and_is_never_run(rig: Rig, stream: bool):
    """Even one that a tool server has: the model was not told of it under that name."""
    rig.mcp.names = ["echo"]
    calls = rig.model.script([call("get_weather", city="Oslo"), mcp_call("echo", "a")])
    rig.model.renamed = {calls[0].ident: "look"}
    turn = await rig.turn(stream, tools=[FUNCTION, rig.server()], parallel_tool_calls=True)
    assert turn.kinds == ["mcp_list_tools", "function_call", "mcp_call"]
    assert turn.output[1]["name"] == "look"
    assert rig.mcp.calls == [("echo", {"text": "a"})]
    assert len(rig.gateway.upstream.requests) == 1


async def test_rounds_follow_until_the_client_is_needed(rig: Rig, stream: bool):
    rounds: list[list[Part]] = [
        [search("a")],
        [mcp_call("echo", "b"), search("c")],
        [Say("Now you."), call("shell", input="pwd")],
    ]
    rig.model.script(*rounds)
    turn = await rig.turn(stream, tools=tools(rig), parallel_tool_calls=True)
    assert turn.kinds == [
        *("mcp_list_tools", "web_search_call", "mcp_call", "web_search_call"),
        *("message", "custom_tool_call"),
    ]
    assert len(rig.gateway.upstream.requests) == 3
    ids = [item["id"] for item in turn.output]
    assert len(set(ids)) == len(ids)


async def finished(live: Live) -> list[dict[str, Any]]:
    """The events of a live stream that has ended as it should."""
    events = [laws.parse(frame) for frame in (await live.rest())[:-1]]
    laws.check(events)
    laws.gateway(events)
    tool_events.check(events)
    return events
