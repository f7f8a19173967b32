"""Lists and results that are not quite MCP, by themselves and over the wire."""

import json

import pytest
from anyio import BrokenResourceError
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from tests.workers.tools.mcp_server import PNG
from tests.workers.tools.old_server import OldServer, replied
from tests.workers.tools.test_mcp import at, failing, runner
from workers.tools.answers import Answers, call_of, list_of, tool_of

ANY = {"type": "object"}
ECHO = {"name": "echo", "inputSchema": {"type": "object", "properties": {"a": True}}}
TEXT = {"type": "text", "text": "a"}


# ---- lists


@pytest.mark.parametrize(
    ("listed", "schema"),
    [
        ({"name": "x"}, ANY),
        ({"name": "x", "inputSchema": None}, ANY),
        ({"name": "x", "inputSchema": {}}, ANY),
        ({"name": "x", "inputSchema": {"properties": None, "$schema": None}}, ANY),
        ({"name": "x", "inputSchema": {"properties": [], "required": False}}, ANY),
    ],
)
def test_a_tool_that_says_nothing_of_its_arguments_takes_any_object(listed, schema):
    assert tool_of(listed) == {"name": "x", "inputSchema": schema}


@pytest.mark.parametrize(
    "listed",
    [
        5,
        {"inputSchema": ANY},
        {"name": 5, "inputSchema": ANY},
        {"name": "x", "inputSchema": "x"},
        {"name": "x", "inputSchema": True},
        {"name": "x", "inputSchema": {"type": "string"}},
        {"name": "x", "inputSchema": {"type": None}},
        {"name": "x", "inputSchema": {**ANY, "properties": ["a"]}},
        {"name": "x", "inputSchema": {**ANY, "properties": {"a": "string"}}},
        {"name": "x", "inputSchema": {**ANY, "required": "a"}},
        {"name": "x", "inputSchema": {**ANY, "required": [5]}},
        {"name": "x", "inputSchema": {**ANY, "$schema": 7}},
    ],
)
def test_what_is_no_tool_is_left_out_of_its_list_and_the_others_stay(listed):
    assert list_of({"tools": [ECHO, listed]}) == {"tools": [ECHO]}


def test_what_a_tool_says_beside_its_schema_is_kept_where_it_can_be_read():
    odd = {
        **ECHO,
        "description": 5,
        "annotations": {"readOnlyHint": "yes", "idempotentHint": True, "title": 3},
        "outputSchema": "none",
        "icons": 7,
    }
    assert tool_of(odd) == {**ECHO, "annotations": {"idempotentHint": True}}
    good = {**ECHO, "description": "d", "annotations": {"readOnlyHint": False, "title": "t"}}
    assert tool_of(good) == good
    assert tool_of({**ECHO, "annotations": []}) == ECHO


@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_a_list_is_shown_without_the_tools_that_are_none(mcp, path):
    mcp.answer = old = OldServer()
    old.tools = [{"name": "bad", "inputSchema": 5}, ECHO, {"name": "plain", "inputSchema": {}}]
    listing = await runner(mcp).list_tools(at(f"http://{mcp.host}/{path}"))
    schemas = {tool["name"]: tool["input_schema"] for tool in listing.tools}
    assert schemas == {"echo": ECHO["inputSchema"], "plain": ANY}


async def test_a_list_that_is_none_is_not_valid(mcp):
    mcp.answer = old = OldServer()
    old.tools = None
    assert (await failing(runner(mcp).list_tools(at(mcp.url)))).error["code"] == -32603


@pytest.mark.parametrize("cursor", ["", None, "same"])
async def test_a_list_ends_where_no_further_page_is_named(mcp, cursor):
    async def listing(message):
        return 200, replied(message, {"tools": [ECHO], "nextCursor": cursor})

    mcp.answer = old = OldServer(tools__list=listing)
    listed = await runner(mcp).list_tools(at(mcp.url))
    assert [tool["name"] for tool in listed.tools] == ["echo"]
    assert old.seen.count("tools/list") == (2 if cursor else 1)


# ---- results


@pytest.mark.parametrize(
    ("result", "parts", "structure"),
    [
        ({"content": [TEXT]}, [TEXT], None),
        ({"content": [{**TEXT, "annotations": 5, "_meta": 5}]}, [TEXT], None),
        ({"content": "a"}, [TEXT], None),
        ({"structuredContent": {"n": 1}}, [], {"n": 1}),
        ({"structuredContent": {"n": 1}, "content": None}, [], {"n": 1}),
        ({"structuredContent": {"n": 1}, "content": [5, TEXT]}, [TEXT], {"n": 1}),
        ({"structuredContent": [1, 2]}, [{"type": "text", "text": "[1,2]"}], None),
        ({"structuredContent": [1, 2], "content": [TEXT]}, [TEXT], None),
    ],
)
def test_a_result_is_read_as_far_as_it_goes(result, parts, structure):
    assert call_of(result) == {"content": parts, "structuredContent": structure}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "weird", "x": 1}, "[weird: could not be read]"),
        ({"type": "text"}, "[text: could not be read]"),
        ({"type": "image", "data": PNG}, "[image: could not be read]"),
        ({"type": "resource", "resource": {"uri": "a://b"}}, "[resource: could not be read]"),
        ({"type": "resource"}, "[resource: could not be read]"),
        ({"type": ["text"]}, "[a part that could not be read]"),
        (5, "[a part that could not be read]"),
    ],
)
def test_a_part_that_is_none_is_named_beside_the_others(part, said):
    assert call_of({"content": [TEXT, part]})["content"] == [TEXT, {"type": "text", "text": said}]


@pytest.mark.parametrize("result", [{}, {"isError": True}, {"tools": []}, {"content": {}}])
def test_what_is_no_result_of_a_call_stays_as_it_is(result):
    assert call_of(result) == {}


@pytest.mark.parametrize("path", ["mcp", "sse"])
@pytest.mark.parametrize(
    ("result", "output"),
    [
        ({"structuredContent": {"n": 1}}, {"n": 1}),
        ({"structuredContent": [1, {"n": 2}]}, [1, {"n": 2}]),
        ({"structuredContent": 10**30, "content": []}, 10**30),
    ],
)
async def test_structured_content_alone_is_the_result(mcp, path, result, output):
    mcp.answer = old = OldServer()
    old.result = result
    outcome = await runner(mcp).call(at(f"http://{mcp.host}/{path}"), "echo", {})
    assert (outcome.ok, json.loads(outcome.output)) == (True, output)


async def test_a_part_of_an_unknown_kind_does_not_take_the_result_with_it(mcp):
    mcp.answer = old = OldServer()
    old.result = {"content": [TEXT, {"type": "weird S1-secret"}]}
    outcome = await runner(mcp).call(at(mcp.url, authorization="S1-secret"), "echo", {})
    assert (outcome.ok, outcome.output) == (True, "a\n[weird ***: could not be read]")


async def test_answers_may_be_received_one_by_one():
    sending, reading = create_context_streams(1)
    message = JSONRPCResponse(jsonrpc="2.0", id=1, result={"tools": [5]})
    await sending.send(SessionMessage(message))
    answers = Answers(reading)
    assert (await answers.receive()).message.result == {"tools": []}
    await answers.aclose()
    with pytest.raises(BrokenResourceError):
        await sending.send(SessionMessage(message))
    await sending.aclose()
