"""From the public request to the upstream's: every refusal, then the exact body.

Called by the api at create (`check`, then `upstream_body` for round 1) and by the machine for
further rounds. Conversions live only in the copy that goes upstream.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from translator.declarations import Declaration, check_tools, declared, refuse_format
from translator.history import check_items, upstream_items
from translator.protocol.errors import RequestError
from translator.protocol.request import CreateParams, Request
from translator.protocol.tools import is_gateway_type
from translator.protocol.upstream import Api, CustomFormats
from translator.tool_choice import check_choice, upstream_choice
from translator.toolmap import ToolKind, ToolMap

OURS: Final = frozenset(
    {
        "background",
        "background_options",
        "conversation",
        "include",
        "input",
        "parallel_tool_calls",
        "previous_response_id",
        "store",
        "stream",
        "tool_choice",
        "tools",
    }
)
"""Fields that mean something between the client and the gateway, or that go up in another form."""

NULLABLE: Final = frozenset(CreateParams.model_fields)
"""Fields in which null says nothing; not every model server takes it there."""

GATEWAY_INCLUDES: Final = frozenset({"web_search_call.action.sources", "web_search_call.results"})
"""Values of `include` about tools that the gateway runs; vLLM refuses them."""

Body = dict[str, Any]
Items = Sequence[dict[str, Any]]


def check(
    request: Request,
    history: Items = (),
    *,
    api: Api,
    custom_formats: CustomFormats,
) -> None:
    """Raise RequestError for what cannot be served: tools, tool choice, calls and their outputs."""
    if api not in BODIES:
        raise RequestError(
            "This model's upstream speaks Chat Completions, which this gateway does not serve yet.",
            param="model",
        )
    own = list(declared(request.body, request.input))
    earlier = list(declared({}, history, "previous_response_id"))
    check_tools(own, custom_formats)
    for declaration in earlier:  # this upstream may be another one
        refuse_format(declaration, custom_formats)
    known = own + earlier
    check_choice(request.body.get("tool_choice"), known, ToolMap(known))
    check_items(request.input, history)


def upstream_body(body: Body, input_items: Items, history: Items, *, api: Api) -> Body:
    """The body of one inference round; what `check` has let through never raises here."""
    return BODIES[api](body, input_items, history)


def responses_body(body: Body, input_items: Items, history: Items) -> Body:
    """The body for an upstream that speaks Responses: its own fields and the client's unknown ones."""
    declarations = list(declared(body, chain(input_items, history)))
    tools = ToolMap(declarations)
    copy = {
        key: value
        for key, value in body.items()
        if key not in OURS and (value is not None or key not in NULLABLE)
    }
    copy |= {
        "input": upstream_items([*history, *input_items], tools),
        "stream": True,
        "store": False,
    }
    if included := [one for one in body.get("include") or () if one not in GATEWAY_INCLUDES]:
        copy["include"] = included
    if (parallel := parallel_calls(body, declarations)) is not None:
        copy["parallel_tool_calls"] = parallel
    choice = upstream_choice(body.get("tool_choice"), tools)
    if functions := upstream_tools(declarations, tools, choice.allowed):
        copy["tools"] = functions
        if choice.value is not None:
            copy["tool_choice"] = choice.value
    return copy


def parallel_calls(body: Body, declarations: Sequence[Declaration]) -> bool | None:
    """Whether the model may make several calls in a round; None: the upstream decides (D17)."""
    asked: bool | None = body.get("parallel_tool_calls")
    if asked is None and any(is_gateway_type(one.type) for one in declarations):
        return False
    return asked


def upstream_tools(
    declarations: Sequence[Declaration], tools: ToolMap, allowed: frozenset[str] | None
) -> list[dict[str, Any]]:
    """Each declared tool once, as the function that the model sees."""
    functions: dict[str, dict[str, Any]] = {}
    for one in declarations:
        visible = tools.visible(*one.key)
        if one.is_client_owned and (allowed is None or visible in allowed):
            functions.setdefault(visible, function(one, visible))
    return list(functions.values())


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


BODIES: Final[Mapping[Api, Callable[[Body, Items, Items], Body]]] = {"responses": responses_body}
"""How the body is made for each dialect that the gateway serves."""
