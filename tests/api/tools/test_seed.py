"""The source of parallel calls, end to end: its two tables row by row, then its ten acceptance criteria.

Criterion 10 (tests of fan-out, streaming and not) is this file: every test runs both ways, on an
upstream of each dialect.
"""

import json
from typing import Any

import pytest

from tests.api.tools import events as tool_events
from tests.api.tools.model import Api, Call, Part, Say, call, mcp_call, search
from tests.api.tools.rig import CUSTOM, FUNCTION, SEARCH, Equip, Rig, Turn
from tests.api.tools.ways import WAYS
from tests.wait import wait_until

ANSWER: list[Part] = [Say("Done.")]
RUN = ("mcp_call", "web_search_call")


def gateway_tools(rig: Rig) -> dict[str, dict[str, Any]]:
    return {"web_search_preview": SEARCH, "mcp": rig.server()}


GATEWAY_TOOLS = pytest.mark.parametrize("which", ["web_search_preview", "mcp"])


def parallel(rig: Rig, number: int = -1) -> Any:
    """What the model was told of parallel calls, or that it was told nothing."""
    return rig.model.asked(number).body.get("parallel_tool_calls", "not sent")


# ---- the first table: a request, and what goes up


@GATEWAY_TOOLS
async def test_true_is_forwarded(rig: Rig, stream: bool, which: str):
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[gateway_tools(rig)[which]], parallel_tool_calls=True)
    assert parallel(rig) is True
    assert turn.response["parallel_tool_calls"] is True


@GATEWAY_TOOLS
async def test_false_is_forwarded(rig: Rig, stream: bool, which: str):
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[gateway_tools(rig)[which]], parallel_tool_calls=False)
    assert parallel(rig) is False
    assert turn.response["parallel_tool_calls"] is False


@GATEWAY_TOOLS
async def test_omitted_with_a_gateway_owned_tool_stays_false(rig: Rig, stream: bool, which: str):
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[FUNCTION, gateway_tools(rig)[which]])
    assert parallel(rig) is False
    assert turn.response["parallel_tool_calls"] is False


async def test_omitted_with_client_owned_tools_only_is_the_upstreams_default(
    rig: Rig, stream: bool
):
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[FUNCTION, CUSTOM])
    assert parallel(rig) == "not sent"
    assert turn.response["parallel_tool_calls"] is True


# ---- the second table: the suggested matrix


async def test_client_owned_functions_true_returns_all_calls(rig: Rig, stream: bool):
    calls = rig.model.script([call("get_weather", city="Oslo"), call("get_weather", city="Rome")])
    turn = await rig.turn(stream, tools=[FUNCTION], parallel_tool_calls=True)
    assert parallel(rig) is True
    assert [item["call_id"] for item in turn.of("function_call")] == [c.ident for c in calls]
    assert [item["arguments"] for item in turn.output] == [c.arguments for c in calls]
    assert turn.response["status"] == "completed"
    assert len(rig.gateway.upstream.requests) == 1


async def test_client_owned_functions_false_forwards_the_serial_policy(rig: Rig, stream: bool):
    rig.model.script([call("get_weather", city="Oslo")])
    turn = await rig.turn(stream, tools=[FUNCTION], parallel_tool_calls=False)
    assert parallel(rig) is False
    assert turn.kinds == ["function_call"]


async def test_web_search_true_executes_the_calls_concurrently(rig: Rig, stream: bool):
    await overlapping_searches(rig, stream, parallel_tool_calls=True)


async def test_mcp_true_executes_the_calls_concurrently(rig: Rig, stream: bool):
    await overlapping_mcp_calls(rig, stream, parallel_tool_calls=True)


async def test_a_gateway_owned_tool_omitted_preserves_the_serial_default(rig: Rig, stream: bool):
    """One call a round, because the model is told so; each round says it again."""
    rig.model.script([search("a")], [mcp_call("echo", "b")], ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH, rig.server()])
    assert [parallel(rig, n) for n in range(3)] == [False, False, False]
    assert turn.kinds == ["mcp_list_tools", "web_search_call", "mcp_call", "message"]
    ((_, search_ended),) = rig.engine.spans
    (echo,) = rig.mcp.spans
    assert search_ended <= echo.started


async def test_mixed_tools_true_executes_ours_and_returns_the_clients(rig: Rig, stream: bool):
    turn, calls = await mixed_round(rig, stream)
    assert [item["call_id"] for item in turn.output if "call_id" in item] == [
        calls[0].ident,
        calls[3].ident,
    ]


async def test_several_gateway_calls_with_one_failure_feed_back_one_failed_result(
    rig: Rig, stream: bool
):
    calls = rig.model.script(
        [mcp_call("echo", "a"), mcp_call("fail", "it broke"), mcp_call("echo", "c")], ANSWER
    )
    turn = await rig.turn(stream, tools=[rig.server()], parallel_tool_calls=True)
    assert list(rig.model.asked().results.items()) == [
        (calls[0].ident, "a"),
        (calls[1].ident, '{"error":"it broke"}'),
        (calls[2].ident, "c"),
    ]
    assert [item["status"] for item in turn.of("mcp_call")] == ["completed", "failed", "completed"]
    assert turn.text == "Done."


async def test_several_streamed_gateway_calls_have_whole_lives_and_rising_numbers(rig: Rig):
    """`turn` checks each life, the numbers and the laws; here is the whole of one stream."""
    rig.model.script([search("a"), mcp_call("echo", "b"), mcp_call("look", "c")], ANSWER)
    turn = await rig.turn(True, tools=[SEARCH, rig.server()], parallel_tool_calls=True)
    numbers = [event["sequence_number"] for event in turn.events]
    assert numbers == list(range(len(numbers)))
    lives = [tool_events.life_of(item) for item in turn.output[:4]]
    assert [tool_events.types_of(turn.events, index) for index in range(4)] == lives
    assert turn.kinds == ["mcp_list_tools", "web_search_call", "mcp_call", "mcp_call", "message"]


# ---- the acceptance criteria


@pytest.mark.parametrize("kind", ["web_search_preview", "web_search", "mcp"])
async def test_1_a_request_with_such_a_tool_and_true_is_accepted(rig: Rig, stream: bool, kind: str):
    rig.model.script(ANSWER)
    tool = rig.server() if kind == "mcp" else {"type": kind}
    turn = await rig.turn(stream, tools=[tool], parallel_tool_calls=True)
    assert turn.response["status"] == "completed"
    assert turn.response["tools"] == [tool]
    assert turn.text == "Done."


async def test_2_the_request_that_goes_up_says_true_in_every_round(rig: Rig, stream: bool):
    rig.model.script([search("a"), search("b")], ANSWER)
    await rig.turn(stream, tools=[SEARCH], parallel_tool_calls=True)
    assert [parallel(rig, n) for n in range(2)] == [True, True]
    assert set(rig.model.asked(0).functions) == set(rig.model.asked(1).functions)


async def test_3_two_gateway_calls_of_one_round_overlap(rig: Rig, stream: bool):
    """Of two kinds: neither ends before the other has begun."""
    rig.engine.doors["slow"] = rig.mcp.doors["slow"]
    rig.model.script([search("slow"), mcp_call("hold", "slow")], ANSWER)
    task = rig.starting(stream, tools=[SEARCH, rig.server()], parallel_tool_calls=True)
    await wait_until(lambda: rig.engine.running == rig.mcp.running == 1)
    rig.mcp.doors["slow"].set()
    await task
    ((began, ended),) = rig.engine.spans
    (held,) = rig.mcp.spans
    assert began < held.ended
    assert held.started < ended


async def test_4_both_calls_and_results_go_up_in_the_order_of_the_model(rig: Rig, stream: bool):
    """Although the last call ends first."""
    calls = rig.model.script(
        [mcp_call("hold", "first"), mcp_call("hold", "last"), search("q")], ANSWER
    )
    task = rig.starting(stream, tools=[SEARCH, rig.server()], parallel_tool_calls=True)
    await wait_until(lambda: rig.mcp.running == 2 and rig.engine.spans)
    rig.mcp.doors["last"].set()
    await wait_until(lambda: rig.mcp.running == 1)
    rig.mcp.doors["first"].set()
    turn = await task
    asked = rig.model.asked()
    assert asked.calls == list(asked.results) == [c.ident for c in calls]
    assert list(asked.results.values())[:2] == ["first let go", "last let go"]
    assert "https://found.test/1" in asked.results[calls[2].ident]
    names = [asked.name_of(c.tool, c.server) for c in calls]
    told = [entry[2:] for entry in asked.history if entry[0] == "call"]
    assert told == [(name, c.arguments) for name, c in zip(names, calls, strict=True)]
    shown = [item["output"] for item in turn.of("mcp_call")]
    assert shown == ["first let go", "last let go"]


async def test_5_a_mixed_round_keeps_who_owns_what(rig: Rig, stream: bool):
    """The client's come back to it, ours have run, and no further round has begun."""
    turn, calls = await mixed_round(rig, stream)
    assert turn.kinds == [
        *("mcp_list_tools", "function_call", "mcp_call"),
        *("web_search_call", "custom_tool_call"),
    ]
    assert turn.of("mcp_call")[0]["output"] == "b"
    assert turn.of("web_search_call")[0]["status"] == "completed"
    assert turn.of("function_call")[0]["arguments"] == calls[0].arguments
    assert turn.of("custom_tool_call")[0]["input"] == "pwd"
    assert turn.response["status"] == "completed"
    assert len(rig.gateway.upstream.requests) == 1


async def test_6_every_public_item_has_its_own_index_and_its_whole_life(rig: Rig):
    """Over several rounds; what ends the stream is what blocking answers."""
    rounds: list[list[Part]] = [
        [Say("I look."), search("a"), mcp_call("echo", "b")],
        [mcp_call("fail", "c"), search("d")],
        ANSWER,
    ]
    tools = [SEARCH, rig.server()]
    rig.model.script(*rounds)
    turn = await rig.turn(True, tools=tools, parallel_tool_calls=True)
    added = [e for e in turn.events if e["type"] == "response.output_item.added"]
    assert [e["output_index"] for e in added] == list(range(len(turn.output)))
    assert len({e["item"]["id"] for e in added}) == len(added) == 7
    assert turn.response["usage"]["total_tokens"] == 3 * 5
    rig.model.script(*rounds)
    blocking = await rig.turn(False, tools=tools, parallel_tool_calls=True)
    assert turn.alike() == blocking.alike()
    assert turn.response["usage"] == blocking.response["usage"]


async def test_7_a_failed_call_does_not_cancel_its_siblings(rig: Rig, stream: bool):
    """The failures come while the siblings still run."""
    rig.engine.broken.add("bad")
    calls = rig.model.script(
        [
            mcp_call("hold", "a"),
            mcp_call("raise", "b"),
            search("bad"),
            mcp_call("fail", "c"),
            search("good"),
        ],
        ANSWER,
    )
    task = rig.starting(stream, tools=[SEARCH, rig.server()], parallel_tool_calls=True)
    await wait_until(lambda: len(rig.mcp.spans) == 3 and rig.mcp.running == 1)
    await wait_until(lambda: len(rig.engine.spans) == 2)
    rig.mcp.doors["a"].set()
    turn = await task
    statuses = [item["status"] for item in turn.output if item["type"] in RUN]
    assert statuses == ["completed", "failed", "failed", "failed", "completed"]
    results = list(rig.model.asked().results.values())
    assert results[0] == "a let go"
    assert ['"error"' in result for result in results] == [False, True, True, True, False]
    assert list(rig.model.asked().results) == [c.ident for c in calls]
    assert turn.text == "Done."


@pytest.mark.parametrize("way", WAYS[:2], indirect=True, ids="-".join)
async def test_7_a_timed_out_call_does_not_cancel_its_siblings(
    equip: Equip, api: Api, stream: bool
):
    async with equip(api, timeout_s=2.5) as rig:
        calls = rig.model.script(
            [mcp_call("hold", "never"), mcp_call("echo", "b"), search("c")], ANSWER
        )
        turn = await rig.turn(stream, tools=[SEARCH, rig.server()], parallel_tool_calls=True)
        held, echoed = turn.of("mcp_call")
        assert (held["status"], held["error"]["type"]) == ("failed", "http_error")
        assert "2.5 s" in held["error"]["message"]
        assert (echoed["status"], echoed["output"]) == ("completed", "b")
        assert turn.of("web_search_call")[0]["status"] == "completed"
        results = rig.model.asked().results
        assert list(results) == [c.ident for c in calls]
        assert set(json.loads(results[calls[0].ident])) == {"error"}
        assert turn.text == "Done."


async def test_8_never_more_than_five_run_at_once(rig: Rig, stream: bool):
    rig.model.script([mcp_call("hold", f"{n}") for n in range(8)], ANSWER)
    task = rig.starting(stream, tools=[rig.server()], parallel_tool_calls=True)
    await wait_until(lambda: rig.mcp.running == 5)
    for number in range(8):
        door = rig.mcp.doors[f"{number}"]
        door.set()
        left = 8 - number - 1
        await wait_until(lambda left=left: rig.mcp.running == min(5, left))
    turn = await task
    assert rig.mcp.most == 5
    assert [item["output"] for item in turn.of("mcp_call")] == [f"{n} let go" for n in range(8)]


async def test_8_the_sixth_starts_when_any_of_the_five_ends(rig: Rig, stream: bool):
    """A slow first call holds nobody back: a window that slides, not a batch or a queue in order."""
    calls = rig.model.script([mcp_call("hold", f"{n}") for n in range(8)], ANSWER)
    task = rig.starting(stream, tools=[rig.server()], parallel_tool_calls=True)
    await wait_until(lambda: rig.mcp.running == 5)
    for done, number in enumerate((3, 1, 4, 2, 5, 6, 7)):
        rig.mcp.doors[f"{number}"].set()
        await wait_until(lambda done=done: len(rig.mcp.spans) == min(8, 6 + done))
        await wait_until(lambda done=done: rig.mcp.running == min(5, 7 - done))
    first = next(span for span in rig.mcp.spans if span.text == "0")
    assert not first.ended
    rig.mcp.doors["0"].set()
    await task
    assert all(span.ended <= first.ended for span in rig.mcp.spans)
    assert list(rig.model.asked().results) == [c.ident for c in calls]


async def test_9_a_request_that_omits_the_field_behaves_as_before(rig: Rig, stream: bool):
    """Serial by what the model is told; a model that makes several calls all the same is served."""
    calls = rig.model.script([search("a"), search("b")], ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH])
    assert [parallel(rig, n) for n in range(2)] == [False, False]
    assert list(rig.model.asked().results) == [c.ident for c in calls]
    assert turn.kinds == ["web_search_call", "web_search_call", "message"]


# ---- what the rows and criteria share


async def overlapping_searches(rig: Rig, stream: bool, **fields: Any) -> None:
    for query in ("a", "b"):
        rig.engine.doors[query] = rig.mcp.gate
    rig.model.script([search("a"), search("b")], ANSWER)
    task = rig.starting(stream, tools=[SEARCH], **fields)
    await wait_until(lambda: rig.engine.running == 2)
    rig.mcp.gate.set()
    turn = await task
    assert turn.kinds == ["web_search_call", "web_search_call", "message"]
    (one_began, one_ended), (two_began, two_ended) = rig.engine.spans
    assert one_began < two_ended
    assert two_began < one_ended


async def overlapping_mcp_calls(rig: Rig, stream: bool, **fields: Any) -> None:
    rig.model.script([mcp_call("wait"), mcp_call("wait")], ANSWER)
    task = rig.starting(stream, tools=[rig.server()], **fields)
    await wait_until(lambda: rig.mcp.running == 2)
    rig.mcp.gate.set()
    turn = await task
    assert turn.kinds == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    one, two = rig.mcp.spans
    assert one.started < two.ended
    assert two.started < one.ended


async def mixed_round(rig: Rig, stream: bool) -> tuple[Turn, list[Call]]:
    calls = rig.model.script(
        [
            call("get_weather", city="Oslo"),
            mcp_call("echo", "b"),
            search("c"),
            call("shell", input="pwd"),
        ]
    )
    tools = [FUNCTION, rig.server(), SEARCH, CUSTOM]
    return await rig.turn(stream, tools=tools, parallel_tool_calls=True), calls
