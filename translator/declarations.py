"""The tools that a request declares, wherever it does: a body and its items in, a flat list out.

Called by `translator.outbound.check` for what cannot be served, and by `translator.toolmap` and
`translator.outbound` for the names and functions that the model gets to see.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from translator import grammar
from translator.protocol.errors import RequestError
from translator.protocol.tools import SEARCH_TYPE, is_gateway_type
from translator.protocol.upstream import CustomFormats

CLIENT_TYPES: Final = frozenset({"function", "custom"})
"""Tools whose calls go to the client."""

WEB_SEARCH: Final = "web_search"
"""The model-visible name of the gateway's search, whichever of its dated names declares it."""


MAX_SERVERS: Final = 32
"""MCP servers of a request: each is listed by a job of its own, and its tools are put before the model."""


class Key(NamedTuple):
    """What names a tool in public: its name, inside a namespace or on an MCP server where it has one."""

    name: str
    namespace: str | None = None
    server: str | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """One tool, out of its namespace. `at` is its place in the request."""

    tool: dict[str, Any]
    at: str
    namespace: str | None = None

    @property
    def type(self) -> str:
        """The kind of tool, as the client says it."""
        kind: str = self.tool["type"]
        return kind

    @property
    def is_client_owned(self) -> bool:
        """Whether calls of this tool go to the client."""
        return self.type in CLIENT_TYPES

    @property
    def key(self) -> Key:
        """What names the tool, or the server, in public."""
        if self.type == "mcp":
            return Key("", server=self.tool["server_label"])
        return Key(self.tool["name"] if self.is_client_owned else WEB_SEARCH, self.namespace)

    def clashes(self, other: "Declaration") -> bool:
        """Whether two declarations of one name are two tools, or two servers."""
        return definition(self.tool) != definition(other.tool)


def definition(tool: dict[str, Any]) -> dict[str, Any]:
    """What a declaration says; null, the default format and a search's date say nothing."""
    said = {key: value for key, value in tool.items() if value is not None}
    if said.get("format") == {"type": "text"}:
        del said["format"]
    if SEARCH_TYPE.fullmatch(tool["type"]):
        said["type"] = WEB_SEARCH
    return said


def declared(
    body: dict[str, Any], items: Iterable[dict[str, Any]], at: str = "input"
) -> Iterator[Declaration]:
    """All declarations in order: the request's tools, then those of its `additional_tools`."""
    yield from unfolded(body.get("tools") or (), "tools")
    for index, item in enumerate(items):
        if item["type"] == "additional_tools":
            yield from unfolded(item["tools"], f"{at}[{index}].tools")


def with_names(declarations: Iterable[Declaration]) -> dict[Key, Declaration]:
    """The tools that the model sees by name, the first of each name.

    The tools of an MCP server are not among them: they are known once the server has listed them.
    """
    first: dict[Key, Declaration] = {}
    for declaration in declarations:
        if declaration.type != "mcp":
            first.setdefault(declaration.key, declaration)
    return first


def unfolded(tools: Iterable[dict[str, Any]], at: str) -> Iterator[Declaration]:
    """Declarations of one list, namespaces opened."""
    for index, tool in enumerate(tools):
        place = f"{at}[{index}]"
        if tool["type"] != "namespace":
            yield Declaration(tool, place)
            continue
        for inner, member in enumerate(tool["tools"]):
            yield Declaration(member, f"{place}.tools[{inner}]", tool["name"])


def check_tools(
    declarations: Sequence[Declaration],
    custom_formats: CustomFormats,
    gateway_tools: Collection[str],
) -> None:
    """Refuse tools that nobody can run, formats that nobody can enforce, and names that meet.

    `gateway_tools` are those that this installation can run: `web_search`, `mcp`.
    """
    for declaration in declarations:
        refuse_hosted(declaration)
        refuse_format(declaration, custom_formats)
    refuse_meeting_names(declarations)
    for declaration in declarations:
        if not declaration.is_client_owned:
            refuse_gateway_tool(declaration, gateway_tools)
    if len({one.key for one in declarations if one.type == "mcp"}) > MAX_SERVERS:
        raise RequestError(f"The tools have more than {MAX_SERVERS} MCP servers.", param="tools")


def refuse_hosted(declaration: Declaration) -> None:
    """A hosted tool of OpenAI's API would never be run: better to say so than to let it vanish."""
    if not declaration.is_client_owned and not is_gateway_type(declaration.type):
        raise RequestError(
            f"This gateway cannot run the tool {declaration.type!r} ({declaration.at}).",
            param="tools",
        )


def refuse_gateway_tool(declaration: Declaration, gateway_tools: Collection[str]) -> None:
    """A tool that this installation cannot run, and an MCP server that cannot be found."""
    tool, at = declaration.tool, declaration.at
    if ("mcp" if declaration.type == "mcp" else WEB_SEARCH) not in gateway_tools:
        raise RequestError(
            f"The tool {declaration.type!r} is not set up on this gateway ({at}).", param="tools"
        )
    if tool.get("connector_id") is not None:
        raise RequestError(
            f"This gateway has no connectors: give the MCP server {tool['server_label']!r} a "
            f"'server_url' instead of a 'connector_id' ({at}).",
            param="tools",
        )
    if declaration.type == "mcp" and tool.get("server_url") is None:
        raise RequestError(
            f"The MCP server {tool['server_label']!r} has no 'server_url' ({at}).", param="tools"
        )


def refuse_format(declaration: Declaration, custom_formats: CustomFormats) -> None:
    """A grammar is enforced or refused, never turned into advice for the model (contract.md D2)."""
    format = declaration.tool.get("format") if declaration.type == "custom" else None
    if format is None or format["type"] == "text":
        return
    name, at = declaration.tool["name"], f"{declaration.at}.format"
    if custom_formats == "reject":
        raise RequestError(
            f"Tool {name!r}: the upstream cannot enforce a format of type 'grammar'; "
            "leave the format out or use 'text'.",
            param=at,
        )
    grammar.check(format, tool=name, at=at)


def refuse_many_grammars(declarations: Sequence[Declaration]) -> None:
    """All grammars of a request are compiled while others wait: they have a bound together."""
    formats = [one.tool.get("format") or {} for one in declarations if one.type == "custom"]
    definitions = {
        (format["syntax"], format["definition"])
        for format in formats
        if format.get("type") == "grammar"
    }
    chars = sum(len(definition) for _, definition in definitions)
    if len(definitions) > grammar.MAX_GRAMMARS or chars > grammar.MAX_DEFINITION_CHARS:
        raise RequestError(
            f"The tools have more than {grammar.MAX_GRAMMARS} grammars, or more than "
            f"{grammar.MAX_DEFINITION_CHARS} characters of them.",
            param="tools",
        )


def refuse_meeting_names(declarations: Sequence[Declaration]) -> None:
    """Two different tools under one name: nobody could tell whose a call is."""
    first: dict[Key, Declaration] = {}
    for declaration in declarations:
        other = first.setdefault(declaration.key, declaration)
        if declaration.clashes(other):
            key = declaration.key
            what = (
                f"MCP servers are labelled {key.server!r}"
                if key.server
                else f"tools are named {key.name!r}"
            )
            raise RequestError(
                f"Two different {what} ({other.at}, {declaration.at}).", param="tools"
            )
