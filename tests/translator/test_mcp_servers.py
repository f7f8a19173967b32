"""Which tools of a server the model may see, and which calls the client is asked about."""

import pytest

from translator.declarations import Declaration
from translator.mcp_servers import McpServer, listings, may_run_twice, servers

READS = {"name": "look", "annotations": {"readOnlyHint": True}}
WRITES = {"name": "write", "annotations": None}


def server(**said):
    return McpServer(0, "a", {"type": "mcp", "server_label": "a", **said})


@pytest.mark.parametrize(
    ("allowed", "seen"),
    [
        (None, ["look", "write"]),
        (["write"], ["write"]),
        ([], []),
        ({"tool_names": ["look", "else"]}, ["look"]),
        ({"read_only": True}, ["look"]),
        ({"read_only": False}, ["write"]),
        ({"tool_names": ["write"], "read_only": True}, []),
        ({}, ["look", "write"]),
    ],
)
def test_allowed_tools_choose_by_name_and_by_what_a_tool_says_of_itself(allowed, seen):
    asked = server(allowed_tools=allowed)
    assert [one["name"] for one in (READS, WRITES) if asked.allows(one)] == seen


@pytest.mark.parametrize(
    ("rule", "asks"),
    [
        (None, ["look", "write"]),
        ("always", ["look", "write"]),
        ("never", []),
        ({"never": {"read_only": True}}, ["write"]),
        ({"never": {"tool_names": ["write"]}}, ["look"]),
        ({"always": {"tool_names": ["write"]}}, ["write"]),
        (
            {"always": {"tool_names": ["write"]}, "never": {"tool_names": ["write", "look"]}},
            ["write"],
        ),
        ({"always": {}}, ["look", "write"]),
        ({"always": {"tool_names": None}}, ["look", "write"]),
        ({"never": {}}, ["look", "write"]),
        ({}, ["look", "write"]),
    ],
)
def test_asking_is_the_rule_but_where_only_the_tools_to_ask_about_are_named(rule, asks):
    asked = server(require_approval=rule)
    assert [one["name"] for one in (READS, WRITES) if asked.asks(one)] == asks


def test_a_call_may_run_twice_only_if_its_tool_says_so():
    assert may_run_twice(READS)
    assert may_run_twice({"name": "put", "annotations": {"idempotentHint": True}})
    assert not may_run_twice(WRITES)
    assert not may_run_twice({"name": "odd", "annotations": {"readOnlyHint": "true"}})


def test_servers_are_counted_in_the_order_of_the_request_each_label_once():
    tools = [{"type": "mcp", "server_label": label} for label in ("b", "a", "b")]
    found = servers(Declaration(tool, f"tools[{at}]") for at, tool in enumerate(tools))
    assert [(one.index, one.label) for one in found] == [(0, "b"), (1, "a")]


def test_the_last_list_of_a_server_counts_and_a_failed_one_lists_nothing():
    def listed(*names, error=None):
        tools = [{"name": name} for name in names]
        return {"type": "mcp_list_tools", "server_label": "a", "tools": tools, "error": error}

    found = [listed("x"), {"type": "message"}, listed("y")]
    assert listings(found) == {"a": [{"name": "y"}]}
    assert listings([*found, listed(error="away")]) == {}
    assert listings([listed(error="away"), *found]) == {"a": [{"name": "y"}]}
