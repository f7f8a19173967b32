"""MCP servers that answer, fail, say too much or too little, end to end."""

import asyncio
import json
from typing import Any

import pytest

from tests.api.tools.model import Call, Part, Say, call, mcp_call
from tests.api.tools.rig import FUNCTION, Rig
from tests.wait import wait_until
from tests.workers.tools.mcp_server import PNG, answering, serving

ANSWER: list[Part] = [Say("Done.")]
PARTS = [
    *("before", "[image 1: image/png]", "[audio: audio/wav]"),
    *("[resource: file:///r]", "inside", "[resource: a://c]"),
]


def error_of(item: dict[str, Any]) -> tuple[str, str]:
    """Kind and text of a failed call's error."""
    error = item["error"]
    texts = "".join(part["text"] for part in error.get("content", []))
    return error["type"], error.get("message", texts)


# ---- what calls bring


async def test_whatever_a_tool_does_its_call_has_a_result(rig: Rig, stream: bool):
    """All at once: answers, structured content, images and other parts, isError, raising, 2 MiB."""
    calls = rig.model.script(
        [
            mcp_call("look", "third"),
            call("structured", "s", x=1),
            mcp_call("parts"),
            mcp_call("fail", "it broke"),
            mcp_call("mute"),
            mcp_call("raise", "boom"),
            call("big", "s", bytes=2 * 2**20),
        ],
        ANSWER,
    )
    turn = await rig.turn(stream, tools=[rig.server()], parallel_tool_calls=True)
    looked, structured, parts, failed, mute, raised, big = turn.of("mcp_call")
    assert looked["output"] == "first\nsecond\nthird"
    assert json.loads(structured["output"]) == {"given": {"x": 1}, "n": [1, 2]}
    assert parts["output"] == "\n".join(PARTS)
    assert error_of(failed) == ("mcp_tool_execution_error", "it broke")
    assert error_of(mute) == ("mcp_tool_execution_error", "The tool failed.")
    assert error_of(raised)[0] == "mcp_protocol_error"
    assert error_of(big) == ("mcp_protocol_error", "The tool's output is larger than 1 MiB.")
    results = rig.model.asked().results
    assert list(results) == [c.ident for c in calls]
    told = list(results.values())
    assert told[:3] == [looked["output"], structured["output"], parts["output"]]
    for item, text in zip(turn.of("mcp_call")[3:], told[3:], strict=True):
        assert json.loads(text) == {"error": error_of(item)[1]}
    assert turn.text == "Done."


async def test_images_reach_the_model_beside_the_text(rig: Rig, stream: bool):
    """As parts of the output, or, for a Chat server, in a message of the user's after it."""
    rig.model.script([mcp_call("parts")], ANSWER)
    await rig.turn(stream, tools=[rig.server()])
    body = rig.model.asked().body
    url = f"data:image/png;base64,{PNG}"
    if rig.model.api == "responses":
        (output,) = [i["output"] for i in body["input"] if i.get("type", "")[-7:] == "_output"]
        assert [part["type"] for part in output] == ["input_text", "input_image"]
        assert output[1]["image_url"] == url
    else:
        last = body["messages"][-1]
        assert last["role"] == "user"
        assert {"url": url} in [
            {"url": part["image_url"]["url"]} for part in last["content"] if "image_url" in part
        ]


async def test_numbers_and_surrogates_that_are_hard_to_write_cost_no_call(rig: Rig, stream: bool):
    number = 123456789012345678901234567890
    rig.mcp.swap = (b"MARK", rb"a\ud800b")
    rig.model.script([call("structured", "s", k=number), mcp_call("echo", "MARK")], ANSWER)
    turn = await rig.turn(stream, tools=[rig.server()], parallel_tool_calls=True)
    structured, echo = turn.of("mcp_call")
    assert ("structured", {"k": number}) in rig.mcp.calls
    assert json.loads(structured["output"])["given"] == {"k": number}
    assert echo["output"] == "a\ufffdb"
    told = list(rig.model.asked().results.values())
    assert told == [structured["output"], echo["output"]]


async def test_a_server_that_speaks_no_mcp_is_told_in_our_words(rig: Rig, stream: bool):
    body = b"<<TOKEN of somebody>>"
    rig.mcp.answer = answering(200, body, content_type="application/json")
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[rig.server()])
    (listed,) = turn.of("mcp_list_tools")
    assert listed["error"] == "The MCP server's answer is not valid MCP."
    assert b"pydantic" not in turn.body
    assert b"TOKEN" not in turn.body


@pytest.mark.parametrize("given", ["", "  "])
async def test_no_arguments_at_all_are_an_empty_object(rig: Rig, stream: bool, given: str):
    rig.model.script([Call("echo", given, "s")], ANSWER)
    turn = await rig.turn(stream, tools=[rig.server()])
    assert rig.mcp.calls == [("echo", {})]
    (item,) = turn.of("mcp_call")
    assert (item["arguments"], item["output"]) == ("{}", "nothing")


async def test_arguments_that_are_no_object_fail_their_calls_unrun(rig: Rig, stream: bool):
    """And the next request is one that a model server takes."""
    wrong = ["[1]", '"text"', "null", '{"text": ', "not json"]
    rig.model.script(
        [*(Call("echo", given, "s") for given in wrong), mcp_call("look", "b")], ANSWER
    )
    turn = await rig.turn(stream, tools=[rig.server()], parallel_tool_calls=True)
    *bad, good = turn.of("mcp_call")
    assert [item["status"] for item in bad] == ["failed"] * len(wrong)
    assert {error_of(item) for item in bad} == {
        ("mcp_protocol_error", "The arguments of the call are not a JSON object.")
    }
    assert good["status"] == "completed"
    assert [name for name, _ in rig.mcp.calls] == ["look"]
    *refused, looked = rig.model.asked().results.values()
    assert {tuple(json.loads(text)) for text in refused} == {("error",)}
    assert len(refused) == len(wrong)
    assert looked == good["output"]


async def test_a_server_that_breaks_down_before_a_call_fails_the_call(rig: Rig, stream: bool):
    goes_on = asyncio.Event()
    rig.model.script([mcp_call("echo", "a"), goes_on], ANSWER)
    task = rig.starting(stream, tools=[rig.server()])
    await wait_until(lambda: rig.gateway.upstream.requests)
    rig.mcp.answer = answering(500)
    goes_on.set()
    turn = await task
    (item,) = turn.of("mcp_call")
    assert (item["status"], item["error"]["type"]) == ("failed", "http_error")
    assert item["error"]["code"] == 500
    assert turn.text == "Done."


# ---- what servers list


async def test_a_paged_list_is_read_to_its_end(rig: Rig, stream: bool):
    rig.mcp.names, rig.mcp.pages = ["echo", "look"], 3
    rig.model.script([mcp_call("page_1", "x")], ANSWER)
    turn = await rig.turn(stream, tools=[rig.server()])
    (listed,) = turn.of("mcp_list_tools")
    assert [tool["name"] for tool in listed["tools"]] == ["echo", "look", "page_1", "page_2"]
    assert turn.of("mcp_call")[0]["output"] == "from page 1: x"


async def test_a_list_tells_what_the_server_says_of_its_tools(rig: Rig, stream: bool):
    rig.mcp.names = ["echo", "look"]
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[rig.server()])
    (listed,) = turn.of("mcp_list_tools")
    assert (listed["server_label"], listed.get("error")) == ("s", None)
    echo, look = listed["tools"]
    assert (echo["description"], echo["input_schema"]) == ("The tool echo", rig.mcp.schema)
    assert look["annotations"]["readOnlyHint"] is True
    asked = rig.model.asked()
    function = asked.functions[asked.name_of("echo", "s")]
    assert function["description"] == "The tool echo"
    assert function["parameters"] == rig.mcp.schema


@pytest.mark.parametrize("how", ["status", "garbage", "away", "private"])
async def test_a_server_that_cannot_list_is_left_out_and_the_response_goes_on(
    rig: Rig, stream: bool, how: str
):
    url = {"away": "https://127.0.0.1:9/mcp", "private": "https://localhost/mcp"}
    rig.mcp.answer = answering(500) if how == "status" else answering(200, b"what?")
    rig.model.script([Say("Without tools.")])
    turn = await rig.turn(stream, tools=[rig.server(server_url=url.get(how, rig.mcp.url))])
    assert turn.kinds == ["mcp_list_tools", "message"]
    (listed,) = turn.of("mcp_list_tools")
    assert listed["tools"] == []
    assert listed["error"]
    assert turn.response["status"] == "completed"
    assert rig.model.asked().functions == {}


async def test_of_two_servers_the_one_that_lists_is_used(rig: Rig, stream: bool):
    """Each list is an item of its own, in the order of the request."""
    async with serving() as other:
        other.answer = answering(503)
        rig.model.script([mcp_call("echo", "a", server="good")], ANSWER)
        tools = [rig.server("bad", server_url=other.url), rig.server("good")]
        turn = await rig.turn(stream, tools=tools)
    bad, good = turn.of("mcp_list_tools")
    assert (bad["server_label"], bad["tools"], bool(bad["error"])) == ("bad", [], True)
    assert (good["server_label"], good.get("error")) == ("good", None)
    assert turn.of("mcp_call")[0]["server_label"] == "good"


async def test_two_servers_with_the_same_tools_are_told_apart(rig: Rig, stream: bool):
    rig.model.script([mcp_call("echo", "1", "docs"), mcp_call("echo", "2", "wiki")], ANSWER)
    tools = [
        rig.server("docs", headers={"x-which": "docs"}),
        rig.server("wiki", headers={"x-which": "wiki"}),
    ]
    turn = await rig.turn(stream, tools=tools, parallel_tool_calls=True)
    called = [(item["server_label"], item["name"], item["output"]) for item in turn.of("mcp_call")]
    assert called == [("docs", "echo", "1"), ("wiki", "echo", "2")]
    assert {headers["x-which"] for headers in rig.mcp.headers} == {"docs", "wiki"}


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (["look"], ["look"]),
        ({"tool_names": ["echo"]}, ["echo"]),
        ({"read_only": True}, ["look"]),
        ([], []),
    ],
    ids=["names", "tool_names", "read_only", "none"],
)
async def test_allowed_tools_are_all_that_the_model_sees(
    rig: Rig, stream: bool, allowed: Any, names: list[str]
):
    rig.mcp.names = ["echo", "look"]
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[rig.server(allowed_tools=allowed)])
    assert len(rig.model.asked().functions) == len(names)
    assert all(rig.model.asked().name_of(name, "s") for name in names)
    assert turn.kinds == ["mcp_list_tools", "message"]


async def test_a_tool_that_is_not_allowed_is_never_run(rig: Rig, stream: bool):
    """However the model comes upon its name."""
    rig.mcp.names = ["echo", "look"]
    rig.model.script(ANSWER)
    await rig.turn(stream, tools=[rig.server()])
    forbidden = rig.model.asked().name_of("echo", "s")
    (made,) = rig.model.script([mcp_call("look", "a")], ANSWER)
    rig.model.renamed = {made.ident: forbidden}
    turn = await rig.turn(stream, tools=[rig.server(allowed_tools=["look"])])
    assert rig.mcp.calls == []
    assert turn.of("mcp_call") == []


async def test_odd_names_come_back_as_they_are(rig: Rig, stream: bool):
    """The model sees names that every model server takes (`Asked` looks at them), each another one."""
    odd = ["echo", "säge", "a.b/c", "a b c", "x" * 90, "x" * 89 + "y"]
    rig.mcp.names = odd
    for name in odd[1:]:
        setattr(rig.mcp, f"do_{name}", rig.mcp.do_echo)
    rig.model.script(ANSWER)
    label = "A label with spaces, ünlike a name"
    await rig.turn(stream, tools=[rig.server(label)])
    visible = list(rig.model.asked().functions)
    assert len(visible) == len(odd)
    calls = rig.model.script([Call(name, '{"text": "t"}') for name in visible], ANSWER)
    turn = await rig.turn(stream, tools=[rig.server(label)], parallel_tool_calls=True)
    assert [item["name"] for item in turn.of("mcp_call")] == odd
    assert {item["server_label"] for item in turn.of("mcp_call")} == {label}
    assert sorted(name for name, _ in rig.mcp.calls) == sorted(odd)
    assert len(rig.model.asked().results) == len(calls)


async def test_a_client_function_named_like_a_servers_tool_stays_the_clients(
    rig: Rig, stream: bool
):
    calls = rig.model.script([call("echo", text="mine"), mcp_call("echo", "theirs")])
    mine = {**FUNCTION, "name": "echo"}
    turn = await rig.turn(stream, tools=[mine, rig.server()], parallel_tool_calls=True)
    assert turn.kinds == ["mcp_list_tools", "function_call", "mcp_call"]
    assert turn.output[1]["call_id"] == calls[0].ident
    assert rig.mcp.calls == [("echo", {"text": "theirs"})]


async def test_a_client_function_may_have_the_name_that_a_servers_tool_would_get(
    rig: Rig, stream: bool
):
    rig.model.script(ANSWER)
    await rig.turn(stream, tools=[rig.server()])
    taken = rig.model.asked().name_of("echo", "s")
    mine = {**FUNCTION, "name": taken}
    rig.model.script([call(taken, text="mine"), mcp_call("echo", "theirs")])
    turn = await rig.turn(stream, tools=[mine, rig.server()], parallel_tool_calls=True)
    assert turn.kinds == ["mcp_list_tools", "function_call", "mcp_call"]
    assert (turn.output[1]["name"], turn.output[2]["name"]) == (taken, "echo")
    assert rig.mcp.calls == [("echo", {"text": "theirs"})]


@pytest.mark.parametrize("choice", ["required", "server", "allowed"])
async def test_a_choice_of_tools_that_could_not_be_listed_chooses_nothing(
    rig: Rig, stream: bool, choice: str
):
    """A model server refuses a choice without tools."""
    server = {"type": "mcp", "server_label": "s"}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [server]}
    rig.mcp.answer = answering(503)
    rig.model.script(ANSWER)
    chosen = {"required": "required", "server": server, "allowed": allowed}[choice]
    turn = await rig.turn(stream, tools=[rig.server()], tool_choice=chosen)
    assert turn.text == "Done."
    body = rig.model.asked().body
    assert not body.get("tools")
    assert body.get("tool_choice", "auto") in ("auto", "none")


async def test_the_list_is_asked_for_before_the_model_is(rig: Rig):
    """And the client sees that it is."""
    rig.model.script(ANSWER)
    rig.mcp.listing.clear()
    async with rig.gateway.creating(stream=True, tools=[rig.server()]) as live:
        await live.until(b"event: response.mcp_list_tools.in_progress")
        await wait_until(lambda: rig.mcp.lists == 1)
        assert rig.gateway.upstream.requests == []
        assert b"event: response.mcp_list_tools.completed" not in live.body
        rig.mcp.listing.set()
        await live.until(b"event: response.completed")
    assert len(rig.gateway.upstream.requests) == 1


async def test_two_servers_under_one_label_are_refused(rig: Rig):
    rig.model.script(ANSWER)
    other = rig.server(server_url="https://elsewhere.test/mcp")
    reply = await rig.gateway.create(tools=[rig.server(), other])
    assert (reply.status, reply.error["param"]) == (400, "tools")
    assert rig.mcp.headers == []
