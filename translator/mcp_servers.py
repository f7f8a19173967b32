"""The MCP servers of a request: which of their tools the model may see, and which calls the client is asked about.

In: the request's declarations, and what the servers have listed (`mcp_list_tools` items of this response, of the input
or of the chain). Out: servers in order, their tools, and the questions that a tool's declaration answers: allowed or not,
approval or not. Called by `translator.toolmap`, and by `translator.preparation` for what is done before round 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from translator.declarations import Declaration

Listed = Mapping[str, Any]
"""A tool as its server lists it: name, description, input_schema, annotations."""

TOOL_FIELDS: Final = {"description": str, "input_schema": dict, "annotations": dict}
"""What a list may say of a tool beside its name; each may be null."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server. `index` is its place among the request's servers, and so among its secrets."""

    index: int
    label: str
    tool: dict[str, Any]

    def allows(self, listed: Listed) -> bool:
        """Whether the model may see a tool (`allowed_tools`; null allows all)."""
        allowed = self.tool.get("allowed_tools")
        if allowed is None:
            return True
        if isinstance(allowed, list):
            return listed["name"] in allowed
        return matches(allowed, listed) or not says_anything(allowed)

    def asks(self, listed: Listed) -> bool:
        """Whether the client wants to approve a call first (`require_approval`; OpenAI's default is always).

        Where only the tools to ask about are named, the others are not asked about; else asking is the rule, and it
        wins where a tool is named on both sides.
        """
        rule = self.tool.get("require_approval")
        if rule is None or isinstance(rule, str):
            return rule != "never"
        never, always = rule.get("never") or {}, rule.get("always") or {}
        if matches(always, listed):
            return True
        if says_anything(never):
            return not matches(never, listed)
        return not says_anything(always)

    def names(self) -> frozenset[str]:
        """The names that `allowed_tools` mentions: those must be known before the model is asked."""
        return frozenset(named(self.tool) or ())


def named(tool: Mapping[str, Any]) -> Sequence[str] | None:
    """The names in the `allowed_tools` of a server's declaration; None where it does not go by names."""
    allowed = tool.get("allowed_tools")
    given: Sequence[str] | None = (
        allowed.get("tool_names") if isinstance(allowed, dict) else allowed
    )
    return given


def may_have(tool: Mapping[str, Any], name: str) -> bool:
    """Whether a server's declaration leaves the model a tool of this name, if the server has one."""
    names = named(tool)
    return names is None or name in names


def matches(rule: Mapping[str, Any], listed: Listed) -> bool:
    """Whether a filter means a tool; one that says nothing means none."""
    names, read_only = rule.get("tool_names"), rule.get("read_only")
    return (
        says_anything(rule)
        and (names is None or listed["name"] in names)
        and (read_only is None or read_only is only_reads(listed))
    )


def says_anything(rule: Mapping[str, Any]) -> bool:
    """Whether a filter names anything at all."""
    return rule.get("tool_names") is not None or rule.get("read_only") is not None


def only_reads(listed: Listed) -> bool:
    """Whether a tool says that it changes nothing."""
    return (listed.get("annotations") or {}).get("readOnlyHint") is True


def may_run_twice(listed: Listed) -> bool:
    """Whether a second run of a call does no harm, by the tool's own word."""
    return only_reads(listed) or (listed.get("annotations") or {}).get("idempotentHint") is True


def servers(declarations: Iterable[Declaration]) -> list[McpServer]:
    """The servers of a request, each label once."""
    found: dict[str, McpServer] = {}
    for one in declarations:
        if one.type == "mcp":
            label = one.tool["server_label"]
            found.setdefault(label, McpServer(len(found), label, one.tool))
    return list(found.values())


def listings(items: Iterable[dict[str, Any]]) -> dict[str, list[Listed]]:
    """What each server has listed, by label; one whose listing failed has listed nothing.

    Lists of servers that an upstream runs are among the items: what is no tool there is passed over.
    """
    return {
        label: [one for one in item["tools"] if is_tool(one)]
        for label, item in last_lists(items).items()
        if not item.get("error") and isinstance(item.get("tools"), list)
    }


def is_tool(said: Any) -> bool:
    """Whether an entry of a list says which tool it is, and the rest of it as it should be said."""
    if not isinstance(said, dict) or not isinstance(said.get("name"), str):
        return False
    return all(
        isinstance(said[key], kind | None) for key, kind in TOOL_FIELDS.items() if key in said
    )


def last_lists(items: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The list of each server that counts, by label: the last one, of items in the order of time."""
    lists = (item for item in items if item["type"] == "mcp_list_tools")
    return {
        item["server_label"]: item for item in lists if isinstance(item.get("server_label"), str)
    }
