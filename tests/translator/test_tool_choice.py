"""A selector means a declared tool of its own kind, or the request is refused."""

import pytest

from tests.translator.bodies import (
    additional,
    check,
    custom,
    function,
    namespace,
    request,
    sent_up,
    stand_in,
)
from translator.declarations import Key, declared
from translator.protocol.errors import RequestError
from translator.tool_choice import Choice, check_choice, upstream_choice
from translator.toolmap import ToolMap


def allowed(*tools, **more):
    return {"type": "allowed_tools", "tools": list(tools), **more}


def select(kind, name, **more):
    return {"type": kind, "name": name, **more}


DECLARED = [
    function("echo"),
    custom("exec"),
    namespace("n", custom("echo"), function("wait")),
    namespace("m", function("echo")),
]


@pytest.mark.parametrize(
    "selector",
    [
        select("custom", "echo"),
        select("function", "exec"),
        select("function", "gone"),
        select("custom", "wait"),
        select("function", "echo", namespace="n"),
        select("custom", "exec", namespace="gone"),
        {"type": "function", "function": {"name": "exec"}},
        {"function": {"name": "exec"}},
        {"type": "web_search"},
        {"type": "file_search"},
        {"type": "mcp", "server_label": "docs"},
    ],
)
def test_a_selector_without_a_declaration_of_its_kind_is_refused(selector):
    for choice in (selector, allowed(select("custom", "exec"), selector)):
        with pytest.raises(RequestError) as caught:
            check(request(tools=DECLARED, tool_choice=choice))
        assert caught.value.param == "tool_choice"
        assert caught.value.status == 400


def test_a_custom_selector_naming_a_function_is_refused():
    with pytest.raises(RequestError, match="custom tool that is not declared"):
        check(request(tools=[function("echo")], tool_choice=select("custom", "echo")))


@pytest.mark.parametrize(
    ("selector", "visible"),
    [
        (select("function", "echo"), "echo"),
        (select("custom", "exec"), "exec"),
        (select("function", "wait"), "wait"),
        (select("function", "wait", namespace="n"), "wait"),
        ({"type": "function", "function": {"name": "echo"}}, "echo"),
        ({"function": {"name": "echo"}}, "echo"),
        (
            select("custom", "echo", namespace="n"),
            ToolMap.of({"tools": DECLARED}).visible(Key("echo", "n")),
        ),
    ],
)
def test_a_selector_goes_up_as_a_function(selector, visible):
    body = sent_up(tools=DECLARED, tool_choice=selector)
    assert body["tool_choice"] == {"type": "function", "name": visible}
    assert visible in [tool["name"] for tool in body["tools"]]


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
def test_modes_go_up_as_they_are(choice):
    assert sent_up(tools=DECLARED, tool_choice=choice)["tool_choice"] == choice


def test_tools_that_are_not_allowed_are_not_sent():
    tools = [custom("exec"), function("echo"), function("rm")]
    choice = allowed(select("custom", "exec"), select("function", "echo"))
    body = sent_up(tools=tools, tool_choice=choice)
    assert body["tools"] == [stand_in("exec"), function("echo")]
    assert body["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "exec"}, {"type": "function", "name": "echo"}],
    }


def test_a_required_choice_among_some_goes_up_in_the_form_that_binds():
    choice = allowed(select("custom", "exec"), mode="required")
    body = sent_up(tools=[custom("exec"), function("rm")], tool_choice=choice)
    assert body["tools"] == [stand_in("exec")]
    assert body["tool_choice"] == "required"


def test_a_choice_may_select_what_additional_tools_declare():
    declares = [additional(custom("exec"))]
    choice = select("custom", "exec")
    forced = {"type": "function", "name": "exec"}
    assert sent_up(input=declares, tool_choice=choice)["tool_choice"] == forced
    assert sent_up(declares, tool_choice=choice)["tool_choice"] == forced


def test_required_without_a_tool_is_refused():
    with pytest.raises(RequestError, match="no tool is declared"):
        check(request(tool_choice="required"))


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_a_choice_without_tools_is_not_sent(choice):
    body = sent_up(tools=[], tool_choice=choice)
    assert "tool_choice" not in body
    assert "tools" not in body


def test_selectors_of_tools_that_the_gateway_runs_are_checked_likewise():
    tools = [{"type": "web_search_preview"}, {"type": "mcp", "server_label": "docs"}]
    known = list(declared({"tools": tools}, []))
    names = ToolMap(known)
    search = {"type": "function", "name": "web_search"}
    for choice, sent in (
        ({"type": "web_search"}, Choice(search)),
        ({"type": "mcp", "server_label": "docs"}, Choice(None, frozenset())),  # it has no tool
    ):
        check_choice(choice, known, names)
        assert upstream_choice(choice, names) == sent
    for choice in ({"type": "shell"}, {"type": "mcp", "server_label": "other"}):
        with pytest.raises(RequestError):
            check_choice(choice, known, names)


@pytest.mark.parametrize("given", [["look"], {"tool_names": ["look"]}, None, {"read_only": True}])
def test_a_tool_that_its_servers_declaration_does_not_allow_cannot_be_chosen(given):
    server = {"type": "mcp", "server_label": "docs", "allowed_tools": given}
    known = list(declared({"tools": [server, custom("exec")]}, []))
    names = ToolMap(known)
    for name in ("look", "wipe"):
        one = {"type": "mcp", "server_label": "docs", "name": name}
        for choice in (one, allowed(select("custom", "exec"), one)):
            if name == "look" or given in (None, {"read_only": True}):
                check_choice(choice, known, names)
                continue
            with pytest.raises(RequestError, match="not allowed") as caught:
                check_choice(choice, known, names)
            assert caught.value.param == "tool_choice"
