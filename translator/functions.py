"""The declared tools as the model sees them: functions, whoever runs them.

Called by `translator.outbound` and `translator.chat_request`, each of which wraps them as its
dialect wants.
"""

from typing import Any, Final, assert_never

from translator.toolmap import Tool, ToolKind, ToolMap

ONE_TEXT: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
"""The parameters of a function that stands for a custom tool: its input is one string."""

SEARCH_DESCRIPTION: Final = (
    "Search the web. Returns the titles, addresses and contents of the best results as JSON. "
    "Cite the addresses of the results that you use."
)
SEARCH_PARAMETERS: Final = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to search for."}},
    "required": ["query"],
    "additionalProperties": False,
}


def functions(tools: ToolMap, allowed: frozenset[str] | None) -> list[dict[str, Any]]:
    """Each tool once, under its visible name; with `allowed`, only those."""
    return [
        function(tool, visible)
        for visible, tool in tools.items()
        if allowed is None or visible in allowed
    ]


def function(tool: Tool, visible: str) -> dict[str, Any]:
    """A function as it is, or the one that stands for another kind of tool."""
    match tool.kind:
        case ToolKind.FUNCTION:
            return {**tool.definition, "name": visible}
        case ToolKind.CUSTOM:
            return stand_in(visible, tool.definition.get("description"), ONE_TEXT)
        case ToolKind.WEB_SEARCH:
            return stand_in(visible, SEARCH_DESCRIPTION, SEARCH_PARAMETERS)
        case ToolKind.MCP:
            description = tool.definition.get("description")
            schema = tool.definition.get("input_schema") or {"type": "object", "properties": {}}
            return stand_in(visible, description, schema)
        case _:
            assert_never(tool.kind)


def stand_in(name: str, description: str | None, parameters: dict[str, Any]) -> dict[str, Any]:
    """A function of ours."""
    said = {} if description is None else {"description": description}
    return {"type": "function", "name": name, **said, "parameters": parameters}


def parallel_calls(body: dict[str, Any], tools: ToolMap) -> bool | None:
    """Whether the model may make several calls in a round; None: the upstream decides (D17)."""
    asked: bool | None = body.get("parallel_tool_calls")
    return False if asked is None and tools.any_gateway_run else asked
