"""What bounds a response with tools: rounds, calls, the client's choice, and whoever wants it no more."""

import json
from typing import Any

import pytest

from tests.api.gateway import DONE
from tests.api.tools.model import Api, Part, Say, call, mcp_call, search
from tests.api.tools.rig import FUNCTION, SEARCH, Equip, Rig, read
from tests.wait import wait_until
from translator.protocol.entries import Kind

ANSWER: list[Part] = [Say("Done.")]
CHOICES: dict[str, Any] = {
    "required": "required",
    "search": SEARCH,
    "server": {"type": "mcp", "server_label": "s"},
    "its tool": {"type": "mcp", "server_label": "s", "name": "echo"},
    "allowed": {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [SEARCH, {"type": "mcp", "server_label": "s"}],
    },
}


async def test_rounds_are_counted(equip: Equip, api: Api, stream: bool):
    async with equip(api, max_rounds=3) as rig:
        rig.model.script([search("again")])
        turn = await rig.turn(stream, tools=[SEARCH])
        assert len(rig.gateway.upstream.requests) == 3
        assert turn.response["status"] == "incomplete"
        assert turn.response["incomplete_details"] == {"reason": "max_tool_rounds"}
        assert turn.kinds == ["web_search_call"] * 3
        assert {item["status"] for item in turn.output} == {"completed"}
        assert len(rig.engine.asked) == 3


async def test_calls_over_the_limit_are_answered_and_not_shown(rig: Rig, stream: bool):
    """The limit is the response's, over its rounds and kinds of tools; client functions do not count."""
    calls = rig.model.script(
        [search("a"), mcp_call("echo", "b"), mcp_call("echo", "c")],
        [search("d")],
        [Say("Done."), call("get_weather", city="Oslo")],
    )
    turn = await rig.turn(
        stream,
        tools=[SEARCH, rig.server(), FUNCTION],
        parallel_tool_calls=True,
        max_tool_calls=2,
    )
    assert turn.kinds == [
        *("mcp_list_tools", "web_search_call", "mcp_call"),
        *("message", "function_call"),
    ]
    assert turn.response["status"] == "completed"
    assert turn.response["max_tool_calls"] == 2
    assert [arguments["text"] for _, arguments in rig.mcp.calls] == ["b"]
    assert len(rig.engine.asked) == 1
    results = rig.model.asked().results
    assert list(results) == [c.ident for c in calls[:4]]
    refused = [json.loads(results[calls[n].ident]) for n in (2, 3)]
    assert ["2" in told["error"] for told in refused] == [True, True]


async def test_a_model_that_does_not_hear_the_limit_is_stopped(rig: Rig, stream: bool):
    rig.model.script([search("again")])
    turn = await rig.turn(stream, tools=[SEARCH], max_tool_calls=1)
    assert turn.response["status"] == "incomplete"
    assert turn.response["incomplete_details"] == {"reason": "max_tool_calls"}
    assert turn.kinds == ["web_search_call"]
    assert len(rig.gateway.upstream.requests) == 3


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_below_one_is_refused(rig: Rig, limit: int):
    rig.model.script(ANSWER)
    reply = await rig.gateway.create(tools=[SEARCH], max_tool_calls=limit)
    assert (reply.status, reply.error["param"]) == (400, "max_tool_calls")


@pytest.mark.parametrize("which", CHOICES)
async def test_a_forced_choice_holds_for_one_round(rig: Rig, stream: bool, which: str):
    """Or the model would call for ever."""
    rig.mcp.names = ["echo", "look"]
    forced = search("a") if which == "search" else mcp_call("echo", "a")
    rig.model.script([forced], ANSWER)
    choice = CHOICES[which]
    turn = await rig.turn(stream, tools=[SEARCH, rig.server(), FUNCTION], tool_choice=choice)
    first, second = rig.model.asked(0), rig.model.asked(1)
    assert first.body["tool_choice"] not in ("auto", "none")
    if which in ("search", "its tool"):
        named = first.body["tool_choice"]
        visible = first.name_of("web_search" if which == "search" else "echo")
        assert named.get("function", named)["name"] == visible
    later = second.body.get("tool_choice", "auto")
    assert (later["mode"] if isinstance(later, dict) else later) == "auto"
    assert turn.response["tool_choice"] == choice
    assert turn.text == "Done."


async def test_a_choice_of_a_server_that_nobody_declared_is_refused(rig: Rig):
    rig.model.script(ANSWER)
    for choice in ({"type": "mcp", "server_label": "other"}, {"type": "web_search"}):
        reply = await rig.gateway.create(tools=[rig.server()], tool_choice=choice)
        assert (reply.status, reply.error["param"]) == (400, "tool_choice")
    assert rig.gateway.upstream.requests == []


async def test_a_cancel_ends_the_calls_and_says_what_became_of_them(rig: Rig):
    rig.engine.doors["a"] = rig.mcp.gate
    rig.model.script([search("a"), mcp_call("echo", "b"), mcp_call("wait")], ANSWER)
    made = await rig.gateway.made(
        background=True, tools=[SEARCH, rig.server()], parallel_tool_calls=True
    )
    await wait_until(lambda: rig.engine.running == rig.mcp.running == 1)
    await wait_until(lambda: len([span for span in rig.mcp.spans if span.ended]) == 1)
    await results_in(rig, made["id"], 2)
    reply = await rig.gateway.ask("POST", f"/v1/responses/{made['id']}/cancel")
    assert reply.json["status"] == "cancelled"
    ended = [(item["type"], item.get("status")) for item in reply.json["output"]]
    assert ended == [
        *(("mcp_list_tools", None), ("web_search_call", "failed")),
        *(("mcp_call", "completed"), ("mcp_call", "incomplete")),
    ]
    await wait_until(lambda: rig.engine.running == 0)
    assert len(rig.gateway.upstream.requests) == 1
    turn = read(await rig.gateway.get(made["id"], "?stream=true"), stream=True)
    assert turn.response == reply.json
    assert turn.events[-1]["type"] == "response.incomplete"


async def results_in(rig: Rig, rid: str, count: int) -> None:
    """Wait until so many jobs of a response, lists too, have a result in its log."""

    async def there() -> bool:
        entries = await rig.store.logs.read_input(rid, 0, 1000)
        kinds = [entry.kind for entry in entries]
        return sum(kinds.count(kind) for kind in (Kind.TOOL_RESULT, Kind.TOOLS_LISTED)) == count

    await wait_until(there)


async def test_a_cancel_while_a_server_lists_its_tools(rig: Rig):
    rig.mcp.listing.clear()
    rig.model.script(ANSWER)
    made = await rig.gateway.made(background=True, tools=[rig.server()])
    await wait_until(lambda: rig.mcp.lists == 1)
    reply = await rig.gateway.ask("POST", f"/v1/responses/{made['id']}/cancel")
    assert reply.json["status"] == "cancelled"
    turn = read(await rig.gateway.get(made["id"], "?stream=true"), stream=True)
    assert turn.kinds == ["mcp_list_tools"]
    assert turn.of("mcp_list_tools")[0]["error"]
    assert rig.gateway.upstream.requests == []


async def test_a_delete_lets_the_calls_go_and_leaves_nothing(rig: Rig):
    rig.model.script([mcp_call("wait")], ANSWER)
    async with rig.gateway.creating(stream=True, tools=[rig.server()]) as live:
        await live.until(b"event: response.mcp_call_arguments.done")
        await wait_until(lambda: rig.mcp.running == 1)
        reply = await rig.gateway.ask("DELETE", f"/v1/responses/{live.rid}")
        assert reply.status == 200
        assert (await live.rest())[-1] == DONE
    await wait_until(lambda: rig.mcp.running == 0)
    assert await rig.gateway.keys(live.rid) == []


async def test_an_unstored_response_whose_client_left_lets_its_calls_go(rig: Rig):
    rig.model.script([mcp_call("wait")], ANSWER)
    async with rig.gateway.creating(stream=True, tools=[rig.server()], store=False) as live:
        await live.until(b"event: response.mcp_call_arguments.done")
        await wait_until(lambda: rig.mcp.running == 1)
        live.leave()
    await wait_until(lambda: rig.mcp.running == 0, within_s=8)
    assert not rig.mcp.gate.is_set()
    assert len(rig.gateway.upstream.requests) == 1
