"""Which tools the model may or must call: a tool choice in, the upstream's form of it out.

Called by `translator.outbound`. A selector is checked against the declarations of its own kind
before anything is rewritten: a function must not answer to the name of a custom tool.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from translator.declarations import CLIENT_TYPES, WEB_SEARCH, Declaration
from translator.mcp_servers import may_have
from translator.protocol.errors import RequestError
from translator.protocol.json import Json
from translator.protocol.tools import SEARCH_TYPE, is_chat_selector
from translator.toolmap import ToolMap


@dataclass(frozen=True, slots=True)
class Choice:
    """A tool choice as an upstream takes it, and the only tools that it may see; None: all."""

    value: str | dict[str, Any] | None
    allowed: frozenset[str] | None = None


def check_choice(choice: Json, declarations: Sequence[Declaration], tools: ToolMap) -> None:
    """Refuse a choice that the declared tools cannot serve."""
    if choice == "required" and not declarations:
        raise refused("asks for a tool call, but no tool is declared")
    for selector in selectors(choice):
        if selector["type"] in CLIENT_TYPES:
            selected(selector, tools)
        elif not any(names_hosted(selector, declaration) for declaration in declarations):
            if selector["type"] == "mcp":
                raise refused("selects an MCP server or tool that is not declared, or not allowed")
            raise refused("selects a tool of a type that is not declared")


def upstream_choice(choice: Json, tools: ToolMap, *, forced: bool = True) -> Choice:
    """The choice for an upstream that knows functions only.

    Not `forced`: the model has had its calls and their results; forced again, it would call for ever.
    """
    if not isinstance(choice, dict):
        return Choice("auto" if choice == "required" and not forced else choice)
    names = [name for one in selectors(choice) for name in selected(one, tools)]
    functions = [{"type": "function", "name": name} for name in names]
    if choice.get("type") != "allowed_tools":
        if not forced:
            return Choice("auto")
        if (
            not names
        ):  # a server, or one of its tools, that is not there: no other is meant in its place
            return Choice(None, frozenset())
        return Choice(functions[0]) if len(names) == 1 else Choice("required", frozenset(names))
    # Model servers read an `allowed_tools` object as "auto" over all tools (vLLM does). So the
    # tools left out are not sent at all, and the mode that must bind is sent in a form that binds.
    if choice.get("mode") == "required" and forced:
        return Choice("required", frozenset(names))
    limit = {"type": "allowed_tools", "mode": "auto", "tools": functions}
    return Choice(limit, frozenset(names))


def selectors(choice: Json) -> list[dict[str, Any]]:
    """The selectors in a choice, those of Chat Completions' shape in ours."""
    if not isinstance(choice, dict):
        return []
    given = choice["tools"] if choice.get("type") == "allowed_tools" else [choice]
    return [
        {"type": "function", "name": one["function"]["name"]} if is_chat_selector(one) else one
        for one in given
    ]


def selected(selector: dict[str, Any], tools: ToolMap) -> list[str]:
    """The visible names of the tools that a selector means: one, but for an MCP server's."""
    kind = selector["type"]
    if kind == "mcp":
        return tools.of_server(selector["server_label"], selector.get("name"))
    if kind not in CLIENT_TYPES:
        visible = tools.find(kind_of(kind), None, WEB_SEARCH)
        return [visible] if visible else []
    visible = tools.find(kind, selector.get("namespace"), selector["name"])
    if visible is None:
        raise refused(f"selects a {kind} tool that is not declared as one")
    return [visible]


def names_hosted(selector: dict[str, Any], declaration: Declaration) -> bool:
    """Whether a selector of a tool that the client does not run means this declaration."""
    if selector["type"] == "mcp":
        tool, name = declaration.tool, selector.get("name")
        same = bool(selector["server_label"] == tool.get("server_label"))
        return same and (name is None or may_have(tool, name))
    return kind_of(selector["type"]) == kind_of(declaration.type)


def kind_of(hosted_type: str) -> str:
    """The kind of tool, whichever of its dated names is used."""
    return WEB_SEARCH if SEARCH_TYPE.fullmatch(hosted_type) else hosted_type


def refused(fault: str) -> RequestError:
    """A choice that cannot be kept."""
    return RequestError(f"'tool_choice' {fault}.", param="tool_choice")
