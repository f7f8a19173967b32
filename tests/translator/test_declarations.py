"""Declared tools are refused where nobody can run them, and found wherever they are declared."""

import pytest

from tests.translator.bodies import GRAMMAR, additional, check, custom, function, namespace, request
from translator import outbound
from translator.declarations import declared
from translator.protocol.errors import RequestError


def refusal(history=(), formats="reject", **fields):
    with pytest.raises(RequestError) as caught:
        check(request(**fields), history, formats)
    return caught.value


def test_declarations_come_in_order_out_of_their_namespaces():
    made = request(
        tools=[function("a"), namespace("n", function("b"), custom("c"))],
        input=[{"role": "user", "content": "x"}, additional(custom("d"))],
    )
    found = [(one.at, *one.key) for one in declared(made.body, made.input)]
    assert found == [
        ("tools[0]", "a", None, None),
        ("tools[1].tools[0]", "b", "n", None),
        ("tools[1].tools[1]", "c", "n", None),
        ("input[1].tools[0]", "d", None, None),
    ]


@pytest.mark.parametrize("syntax", ["lark", "regex"])
@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("tools[0].format", lambda tool: {"tools": [tool]}),
        ("tools[0].tools[0].format", lambda tool: {"tools": [namespace("n", tool)]}),
        ("input[0].tools[0].format", lambda tool: {"input": [additional(tool)]}),
        (
            "input[0].tools[0].tools[1].format",
            lambda tool: {"input": [additional(namespace("n", function("f"), tool))]},
        ),
    ],
)
def test_a_grammar_is_refused_wherever_it_is_declared(syntax, place, fields):
    broken = {**GRAMMAR, "syntax": syntax, "definition": "("}
    for formats, format in (("reject", GRAMMAR), ("validate", broken)):
        error = refusal(formats=formats, **fields(custom("exec", format=format)))
        assert error.param == place
        assert "exec" in error.message
    assert syntax in error.message


def test_a_grammar_that_can_be_enforced_is_accepted():
    check(request(tools=[custom("exec", format=GRAMMAR)]), formats="validate")


def grammars(count, size):
    definitions = (f'start: "{number:0{size}}"' for number in range(count))
    return [
        custom(f"t{number}", format={**GRAMMAR, "definition": definition})
        for number, definition in enumerate(definitions)
    ]


@pytest.mark.parametrize(
    ("count", "size", "taken"),
    [(64, 9, True), (65, 9, False), (2, 15_000, True), (3, 15_000, False)],
)
def test_all_grammars_of_a_request_have_a_bound_together(count, size, taken):
    tools = grammars(count, size)
    for fields, history in (({"tools": tools}, []), ({}, [additional(*tools)])):
        if taken:
            check(request(**fields), history, "validate")
        else:
            assert refusal(history, "validate", **fields).param == "tools"


def test_one_grammar_in_many_tools_counts_once():
    tools = [custom(f"t{number}", format=GRAMMAR) for number in range(100)]
    check(request(tools=tools), formats="validate")


def test_a_grammar_of_an_earlier_turn_is_refused_by_an_upstream_that_cannot_enforce_it():
    history = [additional(custom("exec", format=GRAMMAR))]
    assert refusal(history).param == "previous_response_id[0].tools[0].format"


@pytest.mark.parametrize("format", [None, {"type": "text"}])
def test_plain_text_is_no_format_to_enforce(format):
    check(request(tools=[custom("exec", format=format)]))


@pytest.mark.parametrize(
    "kind", ["file_search", "code_interpreter", "computer_use_preview", "shell", "tool_search"]
)
def test_hosted_tools_are_refused_by_name(kind):
    error = refusal(tools=[function("a"), {"type": kind}])
    assert error.param == "tools"
    assert kind in error.message


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_preview_2025_03_11"},
        {
            "type": "mcp",
            "server_label": "a",
            "server_url": "https://s3cret@a",
            "authorization": "s3cret",
        },
    ],
)
def test_a_tool_that_is_not_set_up_here_is_refused(tool):
    for fields in ({"tools": [tool]}, {"input": [additional(tool)]}):
        made = request(**fields)
        with pytest.raises(RequestError) as caught:
            outbound.check(made, api="responses", custom_formats="reject", gateway_tools=())
        assert caught.value.param == "tools"
        assert tool["type"] in caught.value.message
        assert "s3cret" not in caught.value.message
        check(made)


@pytest.mark.parametrize(
    ("more", "named"), [({"connector_id": "connector_gmail"}, "connector_id"), ({}, "server_url")]
)
def test_a_server_without_an_address_is_refused(more, named):
    error = refusal(tools=[{"type": "mcp", "server_label": "mail", **more}])
    assert error.param == "tools"
    assert named in error.message
    assert "'mail'" in error.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (function("exec"), custom("exec")),
        (function("exec"), function("exec", description="another")),
        (custom("exec"), custom("exec", description="another")),
        (namespace("n", function("a")), namespace("n", custom("a"))),
        ({"type": "web_search_preview"}, function("web_search")),
        (custom("web_search"), {"type": "web_search"}),
    ],
)
def test_two_tools_under_one_name_are_refused(one, other):
    for fields in ({"tools": [one, other]}, {"tools": [one], "input": [additional(other)]}):
        error = refusal(**fields)
        assert error.param == "tools"
        assert "Two different tools" in error.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (function("exec"), function("exec", description=None)),
        (custom("exec"), custom("exec", format={"type": "text"})),
        (namespace("n", custom("exec")), namespace("m", function("exec"))),
        (function("exec"), namespace("m", custom("exec"))),
    ],
)
def test_one_definition_twice_is_one_tool_and_namespaces_keep_tools_apart(one, other):
    check(request(tools=[one], input=[additional(other)]))


def test_a_search_may_be_declared_twice_but_not_in_two_ways():
    check(request(tools=[{"type": "web_search"}, {"type": "web_search_preview"}]))
    other = {"type": "web_search", "search_context_size": "high"}
    assert "'web_search'" in refusal(tools=[{"type": "web_search"}, other]).message


def test_two_servers_under_one_label_are_refused():
    one = {"type": "mcp", "server_label": "a", "server_url": "https://one.example/mcp"}
    check(request(tools=[one, one]))
    error = refusal(tools=[one, one | {"server_url": "https://two.example/mcp"}])
    assert error.param == "tools"
    assert "'a'" in error.message


def test_an_earlier_turn_may_have_declared_another_tool_of_that_name():
    check(request(tools=[custom("exec")]), [additional(function("exec"))])
