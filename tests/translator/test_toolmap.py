"""A model-visible name stands for one tool, whatever the namespaces."""

import json

from hypothesis import given

from tests.translator.bodies import ANY_TOOLS, additional, custom, function, namespace, request
from translator.declarations import Key
from translator.toolmap import MAX_NAME_CHARS, Tool, ToolKind, ToolMap


def test_tools_keep_their_names_and_kinds():
    tools = ToolMap.of(
        request(tools=[function("get"), custom("exec", format={"type": "text"})]).body
    )
    assert tools.get("get") == Tool(ToolKind.FUNCTION, "get")
    assert tools.get("exec") == Tool(ToolKind.CUSTOM, "exec")
    assert tools.get("exec").format == {"type": "text"}
    assert tools.get("undeclared") is None
    assert tools.visible(Key("undeclared", None)) == "undeclared"


def test_members_keep_their_bare_name_where_no_other_tool_has_it():
    tools = ToolMap.of({"tools": [namespace("mcp__docs", function("search"))]})
    assert tools.visible(Key("search", "mcp__docs")) == "search"
    assert tools.get("search") == Tool(ToolKind.FUNCTION, "search", "mcp__docs")


def test_members_of_one_name_get_names_of_their_own():
    declared = [
        namespace("a", function("search")),
        namespace("b", custom("search"), function("x" * 65)),
        function("search"),
    ]
    tools = ToolMap.of({"tools": declared})
    assert tools.get("search") == Tool(ToolKind.FUNCTION, "search")
    in_a, in_b = tools.visible(Key("search", "a")), tools.visible(Key("search", "b"))
    assert in_a.startswith("a__search_")
    assert in_a != in_b
    assert tools.get(in_b) == Tool(ToolKind.CUSTOM, "search", "b")
    assert len(tools.visible(Key("x" * 65, "b"))) == MAX_NAME_CHARS


def test_a_name_is_the_same_in_every_turn():
    one = ToolMap.of({"tools": [function("search"), namespace("a", function("search"))]})
    other = ToolMap.of({"tools": [namespace("a", function("search")), custom("search")]})
    assert one.visible(Key("search", "a")) == other.visible(Key("search", "a"))


def test_a_hashed_name_that_somebody_has_is_not_given_again():
    taken = ToolMap.of({"tools": [function("b"), namespace("a", function("b"))]}).visible(
        Key("b", "a")
    )
    tools = ToolMap.of({"tools": [function("b"), function(taken), namespace("a", function("b"))]})
    assert tools.get(taken) == Tool(ToolKind.FUNCTION, taken)
    assert tools.visible(Key("b", "a")) not in {"b", taken}


def test_additional_tools_declare_too_and_the_request_comes_before_its_history():
    entry = {
        "request": {"tools": [function("a")]},
        "input": [additional(custom("b"))],
        "history": [additional(function("b"), function("c"))],
    }
    tools = ToolMap.of_entry(entry)
    assert tools.get("a") == Tool(ToolKind.FUNCTION, "a")
    assert tools.get("b") == Tool(ToolKind.CUSTOM, "b")
    assert tools.get("c") == Tool(ToolKind.FUNCTION, "c")


def test_the_search_is_the_gateways_and_a_server_has_no_name():
    tools = ToolMap.of(
        {"tools": [{"type": "web_search_preview"}, {"type": "mcp", "server_label": "mcp"}]}
    )
    assert tools.get("web_search") == Tool(ToolKind.WEB_SEARCH, "web_search")
    assert tools.get("mcp") is None


def test_a_selector_finds_tools_of_its_kind_only():
    declared = [function("echo"), namespace("n", custom("exec")), namespace("m", custom("two"))]
    tools = ToolMap.of({"tools": [*declared, namespace("o", custom("two"), function("echo"))]})
    assert tools.find("function", None, "echo") == "echo"
    assert tools.find("custom", None, "echo") is None
    assert tools.find("custom", None, "exec") == "exec"
    assert tools.find("custom", "n", "exec") == "exec"
    assert tools.find("custom", "m", "exec") is None
    assert tools.find("custom", None, "two") is None, "which of the two is meant?"
    assert tools.find("custom", "o", "two") == tools.visible(Key("two", "o"))
    assert tools.find("function", "o", "echo") == tools.visible(Key("echo", "o"))


@given(ANY_TOOLS)
def test_every_tool_has_one_visible_name_and_back(declared):
    made = request(tools=json.loads(json.dumps(declared)))
    tools = ToolMap.of(made.body)
    for tool in declared:
        inside = tool["type"] == "namespace"
        for one in tool["tools"] if inside else [tool]:
            space = tool["name"] if inside else None
            visible = tools.visible(Key(one["name"], space))
            found = tools.get(visible)
            assert (found.namespace, found.name) == (space, one["name"])
            assert not inside or len(visible) <= MAX_NAME_CHARS
