"""The first entry of an input log: a request and its circumstances in, the entry's bytes out.

Called by the api at create. Secrets stay out (they live in a hash of their own until the end), and
every input item gets an id, so that it can be listed and paged through.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from translator.declarations import declared
from translator.ids import input_item_id
from translator.mcp_servers import servers
from translator.protocol.entries import RequestEntry
from translator.protocol.json import dumps
from translator.protocol.request import Request
from translator.protocol.tools import without_secrets
from translator.protocol.upstream import Upstream

VERSION: Final = 1
"""The shape of the entry; a fold that does not know it must not guess."""

ID_PREFIX: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "additional_tools": "at",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "web_search_call": "ws",
}
"""The beginnings that OpenAI's ids have; items of other types get `item`."""


def request_entry(
    rid: str,
    tenant: str,
    request: Request,
    history: Sequence[dict[str, Any]],
    *,
    upstream: Upstream,
    limits: Mapping[str, int],
    trace: dict[str, str] | None = None,
    items: list[dict[str, Any]] | None = None,
) -> bytes:
    """The RequestEntry as JSON. Its `request` has no `input`: that is `input`, with ids.

    `items` are the request's `input_items`, for a caller that needs them, too: of a long request they cost ms.
    """
    body = {key: value for key, value in request.body.items() if key != "input"}
    if body.get("tools"):
        body["tools"] = [without_secrets(tool) for tool in body["tools"]]
    entry = RequestEntry(
        version=VERSION,
        id=rid,
        tenant=tenant,
        request=body,
        input=input_items(rid, request) if items is None else items,
        history=list(history),
        upstream={
            "id": upstream.id,
            "api": upstream.api,
            "custom_formats": upstream.custom_formats,
            "reasoning_history": upstream.reasoning_history,
        },
        limits=dict(limits),
    )
    if trace is not None:
        entry["trace"] = trace
    return dumps(entry)


def input_items(rid: str, request: Request) -> list[dict[str, Any]]:
    """The input items as they are stored, listed and sent upstream: all with an id, no secrets."""
    return [stored(rid, index, item) for index, item in enumerate(request.input)]


def stored(rid: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
    """An input item with an id of the client's or a derived one, and a message's text as a part."""
    kind = item["type"]
    prefix = ID_PREFIX.get(kind, "item")
    copy = {**item, "id": item.get("id") or input_item_id(rid, index, prefix)}
    if kind == "message" and isinstance(item["content"], str):
        copy["content"] = [text_part(item["role"], item["content"])]
    if kind == "additional_tools":
        copy["tools"] = [without_secrets(tool) for tool in item["tools"]]
    return copy


def text_part(role: str, text: str) -> dict[str, Any]:
    """The one part of a message that came as a string."""
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def history_of(entry: RequestEntry, output: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What `previous_response_id` stands for: earlier input and output, oldest first.

    MCP servers that an input item has declared are left out: their secrets went with their response.
    """
    declared_then = {
        server.label: server.tool for server in servers(declared(entry["request"], entry["input"]))
    }
    return [
        *entry["history"],
        *map(without_servers, entry["input"]),
        *(with_declaration(item, declared_then) for item in output),
    ]


def with_declaration(
    item: dict[str, Any], declared_then: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """A server's list with what the request had declared of the server: a later turn may declare another one.

    Lists of servers that an upstream runs are among the items, and need not say whose they are.
    """
    label = item.get("server_label") if item["type"] == "mcp_list_tools" else None
    tool = declared_then.get(label) if isinstance(label, str) else None
    if tool is None:
        return item
    return item | {"declared": {key: tool.get(key) for key in ("server_url", "allowed_tools")}}


def without_servers(item: dict[str, Any]) -> dict[str, Any]:
    """An item without the MCP servers that it declares."""
    if item["type"] != "additional_tools":
        return item
    return item | {"tools": [tool for tool in item["tools"] if tool["type"] != "mcp"]}
