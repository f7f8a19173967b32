"""Tools of MCP servers.

In: a job (list a server's tools, or call one), the server with its credentials. Out: a `Listing` or
an `Outcome`; everything that can go wrong is a `Failed` in one of the shapes of contract.md section 7.
No secret of the server's is in any of them: texts are blanked first, cut after. Each job has a session of
its own (`workers.tools.session`). Lists are kept for a short time per server and credentials.

The SDK is imported by the first job (most installations never need it).
"""

import base64
import json
import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from translator.protocol.json import MAX_DEPTH, dumps, loads
from workers.tools.addresses import AllowedHosts
from workers.tools.answers import written
from workers.tools.credentials import blanked, blanked_tool
from workers.tools.job import MAX_OUTPUT_BYTES, Failed, Listing, Outcome
from workers.tools.servers import Server
from workers.tools.session import Sessions

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ContentBlock, Tool

log = logging.getLogger(__name__)

LIST_TTL_S: Final = 60.0
"""How long a list is believed: the requests of one conversation, not a deployment's changes."""

MAX_LISTS: Final = 256
"""Lists kept; the one that was used least recently goes."""

MAX_PAGES: Final = 32
MAX_TOOLS: Final = 1_024
"""What one server may list; models choose badly among a tenth of that."""

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
"""What models take; anything else would make the model's server refuse the whole next request."""

TOO_LARGE_TEXT: Final = "The tool's output is larger than 1 MiB."


class Mcp:
    """One per process."""

    def __init__(self, allowed: AllowedHosts, *, timeout_s: float) -> None:
        self._sessions = Sessions(allowed, timeout_s=timeout_s)
        self._lists: OrderedDict[str, tuple[float, Listing]] = OrderedDict()

    async def ready(self) -> None:
        """Load what the first job needs, once; that takes long."""
        await self._sessions.ready()

    async def aclose(self) -> None:
        """When no job is open any more."""
        await self._sessions.aclose()

    async def list_tools(self, server: Server) -> Listing:
        """All tools of a server. Raises Failed."""
        identity, now = server.identity, time.monotonic()
        kept = self._lists.get(identity)
        if kept and now - kept[0] < LIST_TTL_S:
            self._lists.move_to_end(identity)
            return kept[1]
        tools = await self._sessions.ask(server, _all_tools)
        described = [_described(tool, server.secrets) for tool in tools]
        listing = Listing([tool for tool in described if tool is not None])
        if len(listing.tools) < len(described):
            left_out = len(described) - len(listing.tools)
            log.info("%d tools that cannot be shown are left out of a list", left_out)
        if len(dumps(listing.tools)) > MAX_OUTPUT_BYTES:
            raise Failed.http(502, "The MCP server's list of tools is larger than 1 MiB.")
        self._lists[identity] = (now, listing)
        self._lists.move_to_end(identity)
        while len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)
        return listing

    async def call(self, server: Server, name: str, arguments: dict[str, Any]) -> Outcome:
        """Call a tool. Raises Failed."""
        result = await self._sessions.ask(server, lambda client: _called(client, name, arguments))
        return outcome_of(result, server.secrets)


async def _all_tools(client: "Client") -> list["Tool"]:
    """Page by page, until one has no next. A server that names a page again has no more: it may know of no pages."""
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if len(tools) > MAX_TOOLS:
            break
        if not cursor or cursor in seen:
            return list(tools.values())
        seen.add(cursor)
    bound = f"{MAX_TOOLS} tools" if len(tools) > MAX_TOOLS else f"{MAX_PAGES} pages of tools"
    raise Failed.http(502, f"The MCP server lists more than {bound}.")


def _described(tool: "Tool", secrets: list[str]) -> dict[str, Any] | None:
    """What is shown of a tool; None where it cannot be."""
    notes = tool.annotations
    described = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "annotations": notes and notes.model_dump(by_alias=True, mode="json", exclude_none=True),
    }
    try:
        # The log takes less than the SDK reads: numbers of 64 bits, and not every depth. What no double holds was
        # read as infinite, of which `dumps` would make null.
        json.dumps(described, allow_nan=False)
        known = loads(written(described), max_depth=MAX_DEPTH)
    except (ValueError, RecursionError):
        return None
    return blanked_tool(known, secrets)


async def _called(client: "Client", name: str, arguments: dict[str, Any]) -> "CallToolResult":
    """One call on the wire. `Client.call_tool` would list the tools before each, to check what comes back."""
    import mcp_types as types  # noqa: PLC0415 - with the SDK
    from mcp import MCPError  # noqa: PLC0415

    request = types.CallToolRequest(
        params=types.CallToolRequestParams(name=name, arguments=arguments)
    )
    try:
        return await client.session.send_request(request, types.CallToolResult)
    except MCPError as error:
        if error.code != types.HEADER_MISMATCH:
            raise
    await _all_tools(client)  # it wants some arguments as headers, and the list says which
    return await client.session.send_request(request, types.CallToolResult)


def outcome_of(result: "CallToolResult", secrets: list[str]) -> Outcome:
    """What a result says. Raises Failed where the tool failed or said too much."""
    texts, images = _texts_of(result.content, secrets)
    if result.structured_content is not None and not any(plain and text for plain, text in texts):
        # Before it is JSON, which writes some characters in another way.
        output = written(blanked(result.structured_content, secrets)).decode("utf-8", "replace")
    else:
        output = "\n".join(text for _, text in texts)
    output = blanked(output, secrets)
    if len(output.encode("utf-8", "replace")) + sum(map(len, images)) > MAX_OUTPUT_BYTES:
        raise Failed.protocol(-32603, TOO_LARGE_TEXT)
    if result.is_error:
        message = output or "The tool failed."
        content = [{"type": "text", "text": message}]
        raise Failed(message, {"type": "mcp_tool_execution_error", "content": content})
    return Outcome(True, output, output=output, images=images or None)


def _texts_of(
    content: list["ContentBlock"], secrets: list[str]
) -> tuple[list[tuple[bool, str]], list[str]]:
    """Each part as text, and whether it was one; images as data URLs beside."""
    import mcp_types as types  # noqa: PLC0415 - with the SDK

    texts: list[tuple[bool, str]] = []
    images: list[str] = []
    for part in content:
        match part:
            case types.TextContent():
                texts.append((True, part.text))
            case types.ImageContent() if _is_image(part.mime_type, part.data, secrets):
                images.append(f"data:{part.mime_type};base64,{part.data}")
                texts.append((False, f"[image {len(images)}: {part.mime_type}]"))
            case types.ImageContent():
                texts.append((False, "[an image that could not be passed on]"))
            case types.AudioContent():
                texts.append((False, f"[audio: {part.mime_type}]"))
            case types.ResourceLink():
                texts.append((False, f"[resource: {part.uri}]"))
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                texts.append((True, resource.text))
            case _:
                texts.append((False, f"[resource: {part.resource.uri}]"))
    return texts, images


def _is_image(kind: str, data: str, secrets: list[str]) -> bool:
    """Whether a model may be shown it: a kind that models know, base64 throughout, no secret in it.

    One that is too large is not looked into: its call fails for it.
    """
    if kind not in IMAGES or not data:
        return False
    if len(data) > MAX_OUTPUT_BYTES:
        return True
    try:
        inside = base64.b64decode(data, validate=True)
    except ValueError:
        return False
    return not any(secret in data or secret.encode() in inside for secret in secrets)
