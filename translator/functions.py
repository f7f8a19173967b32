"""The declared tools as the model sees them: declarations in, functions out.

Called by `translator.outbound` and `translator.chat_request`, each of which wraps them as its
dialect wants.
"""

from collections.abc import Sequence
from typing import Any

from translator.declarations import Declaration
from translator.protocol.tools import is_gateway_type
from translator.toolmap import ToolKind, ToolMap


def functions(
    declarations: Sequence[Declaration], tools: ToolMap, allowed: frozenset[str] | None
) -> list[dict[str, Any]]:
    """Each declared tool once, under its visible name; with `allowed`, only those."""
    found: dict[str, dict[str, Any]] = {}
    for one in declarations:
        visible = tools.visible(*one.key)
        if one.is_client_owned and (allowed is None or visible in allowed):
            found.setdefault(visible, function(one, visible))
    return list(found.values())


def function(declaration: Declaration, visible: str) -> dict[str, Any]:
    """A function as it is, or the one that stands for a custom tool: its input is one string."""
    tool = declaration.tool
    if declaration.type == ToolKind.FUNCTION:
        return {**tool, "name": visible}
    stand_in = {"type": "function", "name": visible}
    if tool.get("description") is not None:
        stand_in["description"] = tool["description"]
    return stand_in | {
        "parameters": {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
            "additionalProperties": False,
        }
    }


def parallel_calls(body: dict[str, Any], declarations: Sequence[Declaration]) -> bool | None:
    """Whether the model may make several calls in a round; None: the upstream decides (D17)."""
    asked: bool | None = body.get("parallel_tool_calls")
    if asked is None and any(is_gateway_type(one.type) for one in declarations):
        return False
    return asked
