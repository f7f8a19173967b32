"""From the public request to the upstream's: every refusal, then the exact body.

Called by the api at create (`check`, then `upstream_body` for round 1) and by the machine for
further rounds. Conversions live only in the copy that goes upstream.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from translator.chat_parts import said
from translator.chat_request import chat_body, check_chat
from translator.declarations import check_tools, declared, refuse_format, refuse_many_grammars
from translator.functions import functions, parallel_calls
from translator.history import check_items, upstream_items
from translator.mcp_servers import McpServer, listings, servers
from translator.preparation import Preparation, check_approvals, preparation
from translator.protocol.request import NULLABLE, Request
from translator.protocol.upstream import Api, CustomFormats, ReasoningHistory
from translator.tool_choice import Choice, check_choice, upstream_choice
from translator.toolmap import ToolMap

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

GATEWAY_INCLUDES: Final = frozenset({"web_search_call.action.sources", "web_search_call.results"})
"""Values of `include` about tools that the gateway runs; vLLM refuses them."""

Body = dict[str, Any]
Items = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Checked:
    """A request that can be served: its tools, its own MCP servers, and what comes before round 1."""

    tools: ToolMap
    servers: list[McpServer]
    needed: Preparation


def check(
    request: Request,
    history: Items = (),
    *,
    api: Api,
    custom_formats: CustomFormats,
    gateway_tools: Collection[str] = (),
) -> Checked:
    """What is known of a request that can be served. Raises RequestError for what cannot: tools, choice, calls, the dialect.

    `gateway_tools` are those that this installation can run: `web_search`, `mcp`.
    """
    own = list(declared(request.body, request.input))
    earlier = list(declared({}, history, "previous_response_id"))
    known = own + earlier
    refuse_many_grammars(known)
    check_tools(own, custom_formats, gateway_tools)
    for declaration in earlier:  # this upstream may be another one
        refuse_format(declaration, custom_formats)
    tools = ToolMap(known, listings([*history, *request.input]))
    check_choice(request.body.get("tool_choice"), known, tools)
    check_items(request.input, history)
    own_servers = servers(own)
    needed = preparation(own_servers, request.input, history)
    check_approvals(request.input, history, own_servers, needed.approved)
    if api == "chat":
        check_chat(request.body, request.input, history)
    return Checked(tools, own_servers, needed)


def upstream_body(
    body: Body,
    items: Items,
    tools: ToolMap,
    *,
    api: Api,
    reasoning_history: ReasoningHistory = "none",
    forced: bool = True,
) -> Body:
    """The body of one inference round; what `check` has let through never raises here.

    `items` are all that the model is told, oldest first: history, input, and what earlier rounds of the response brought.
    Only the first round's tool choice is `forced`. A Responses upstream has a place of its own for reasoning:
    `reasoning_history` is Chat's.
    """
    choice = upstream_choice(body.get("tool_choice"), tools, forced=forced)
    match api:
        case "responses":
            return responses_body(body, items, tools, choice)
        case "chat":
            return chat_body(body, items, tools, choice, reasoning_history=reasoning_history)
        case _:
            assert_never(api)


def responses_body(body: Body, items: Items, tools: ToolMap, choice: Choice) -> Body:
    """The body for an upstream that speaks Responses: its own fields and the client's unknown ones."""
    copy = {
        key: value
        for key, value in body.items()
        if key not in OURS and (value is not None or key not in NULLABLE)
    }
    copy |= {"input": upstream_items(items, tools), "stream": True, "store": False}
    if included := [one for one in body.get("include") or () if one not in GATEWAY_INCLUDES]:
        copy["include"] = included
    if (parallel := parallel_calls(body, tools)) is not None:
        copy["parallel_tool_calls"] = parallel
    if visible := functions(tools, choice.allowed):
        # SGLang refuses a null for what need not be said.
        copy["tools"] = [said(**one) for one in visible]
        if choice.value is not None:
            copy["tool_choice"] = choice.value
    return copy
