"""Every declared tool is shown to the model once, as a function."""

import pytest

from tests.translator.bodies import additional, custom, function, namespace, stand_in
from translator.functions import functions, parallel_calls
from translator.toolmap import ToolMap


def shown(*tools, items=(), allowed=None):
    return functions(ToolMap.of({"tools": list(tools)}, items), allowed)


def test_a_function_keeps_all_that_it_says_and_a_custom_tool_takes_one_string():
    given = function("get", strict=False, parameters={"type": "object", "encrypted": True})
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}
    tool = custom("exec", description="Runs", format=grammar)
    assert shown(given, tool, custom("note", description=None)) == [
        given,
        stand_in("exec", description="Runs"),
        stand_in("note"),
    ]


def test_members_and_additional_tools_are_among_them_once():
    member = namespace("docs", function("get"), custom("exec"))
    first, second, third = shown(function("get"), member, items=[additional(function("get"))])
    assert first["name"] == "get"
    assert second["name"].startswith("docs__get_")
    assert third["name"] == "exec"


def test_only_the_allowed_ones_are_shown_and_a_search_is_among_them():
    tools = [function("a"), function("b"), {"type": "web_search"}]
    assert [one["name"] for one in shown(*tools)] == ["a", "b", "web_search"]
    assert [one["name"] for one in shown(*tools, allowed=frozenset({"b"}))] == ["b"]


@pytest.mark.parametrize(
    ("asked", "tools", "sent"),
    [
        (True, [], True),
        (False, [], False),
        (None, [function("a")], None),
        (None, [{"type": "web_search"}], False),
        (True, [{"type": "web_search"}], True),
    ],
)
def test_several_calls_in_a_round_are_settled_by_the_table(asked, tools, sent):
    assert parallel_calls({"parallel_tool_calls": asked}, ToolMap.of({"tools": tools})) is sent
