"""Tools of MCP servers, over streamable HTTP or SSE, with the official SDK.

In: a job (list a server's tools, or call one), the server with its credentials. Out: a `Listing` or
an `Outcome`; everything that can go wrong is a `Failed` in one of the shapes of contract.md section 7.
No secret of the server's is in any of them, and no text of the SDK's: texts are blanked first, cut after.
Each job has a session of its own: nothing of one response can reach another. Lists are kept for a
short time per server and credentials.

The SDK is imported by the first job (most installations never need it).
"""

import asyncio
import base64
import json
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from translator.protocol.json import MAX_DEPTH, dumps, loads
from workers.tools.addresses import AllowedHosts, origin_of
from workers.tools.credentials import blanked, blanked_tool
from workers.tools.job import MAX_MESSAGE_CHARS, MAX_OUTPUT_BYTES, Failed, Listing, Outcome
from workers.tools.servers import Server

if TYPE_CHECKING:
    import ssl

    from mcp import Client
    from mcp.shared._httpx_utils import McpHttpClientFactory
    from mcp_types import CallToolResult, ContentBlock, Tool

    from workers.tools.wire import Watch

log = logging.getLogger(__name__)

LIST_TTL_S: Final = 60.0
"""How long a list is believed: the requests of one conversation, not a deployment's changes."""

MAX_LISTS: Final = 256
"""Lists kept; the one that was used least recently goes."""

MAX_PAGES: Final = 32
MAX_TOOLS: Final = 1_024
"""What one server may list; models choose badly among a tenth of that."""

OPEN_S: Final = 20.0
"""From the first connection to an open session; the SDK waits for ever for an endpoint that it refuses."""

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
"""What models take; anything else would make the model's server refuse the whole next request."""

UNREADABLE_TEXT: Final = "The MCP server's answer is not valid MCP."
ENDED_TEXT: Final = "The MCP server ended the connection without an answer."
TOO_LARGE_TEXT: Final = "The tool's output is larger than 1 MiB."
TIMEOUT_CODE: Final = 504

TRY_OTHER: Final = frozenset({400, 404, 405, 406, 415})
"""What a server of one transport says to a client of the other."""


class Mcp:
    """One per process."""

    def __init__(self, allowed: AllowedHosts, *, timeout_s: float) -> None:
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._lists: OrderedDict[str, tuple[float, Listing]] = OrderedDict()

    async def ready(self) -> None:
        """Load the SDK and the certificates, once, beside the event loop: both take long."""
        if "_tls" not in vars(self):
            await loaded()
            await asyncio.to_thread(lambda: self._tls)

    async def list_tools(self, server: Server) -> Listing:
        """All tools of a server. Raises Failed."""
        identity, now = server.identity, time.monotonic()
        kept = self._lists.get(identity)
        if kept and now - kept[0] < LIST_TTL_S:
            self._lists.move_to_end(identity)
            return kept[1]
        async with self._session(server) as client:
            described = [_described(tool, server.secrets) for tool in await _all_tools(client)]
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
        async with self._session(server) as client:
            result = await _called(client, name, arguments)
        return outcome_of(result, server.secrets)

    @cached_property
    def _tls(self) -> "ssl.SSLContext":
        """Made once: reading the certificates takes tens of ms."""
        import ssl  # noqa: PLC0415 - with the first connection

        return ssl.create_default_context()

    @asynccontextmanager
    async def _session(self, server: Server) -> AsyncIterator["Client"]:
        """A session with a server, by the transport that it speaks. Raises Failed, whatever happens inside."""
        origin = origin_of(server.url, self._allowed)
        order = ("http", "sse")
        if urlsplit(server.url).path.rstrip("/").endswith("/sse"):
            order = ("sse", "http")
        for transport in order:
            connected = False
            from workers.tools.wire import Watch, client_for  # noqa: PLC0415 - with the SDK

            watch = Watch(frozenset({"POST"} if transport == "http" else {"GET", "POST"}))
            http = client_for(origin, server.headers, watch, self._tls, timeout_s=self._timeout_s)
            try:
                async with (
                    asyncio.timeout(min(OPEN_S, self._timeout_s)) as opening,
                    _client(transport, server.url, http) as client,
                ):
                    connected = True
                    opening.reschedule(None)
                    yield client
                return  # noqa: TRY300 - an else would have to be left by return as well
            except Exception as error:  # noqa: BLE001 - whatever the SDK raises is this call's failure
                failure = failure_of(error, watch, server.secrets)
                if connected or watch.status not in TRY_OTHER or transport == order[1]:
                    raise failure from None
            finally:
                await http.aclose()


@asynccontextmanager
async def _client(transport: str, url: str, http: Any) -> AsyncIterator["Client"]:
    import mcp_types as types  # noqa: PLC0415 - the SDK takes a second to import
    from mcp import Client  # noqa: PLC0415
    from mcp.client.sse import sse_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    from workers.tools.wire import MAX_ANSWER_BYTES  # noqa: PLC0415

    def made(**given: Any) -> Any:
        del given
        return http

    way = (
        streamable_http_client(url, http_client=http, max_sse_event_size=MAX_ANSWER_BYTES)
        if transport == "http"
        else sse_client(url, httpx_client_factory=cast("McpHttpClientFactory", made))
    )
    info = types.Implementation(name="respool", version="1")
    async with Client(way, client_info=info, cache=None) as client:
        yield client


async def _all_tools(client: "Client") -> list["Tool"]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if len(tools) > MAX_TOOLS:
            break
        if cursor is None:
            return tools
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


def written(value: Any) -> bytes:
    """A value as JSON, its integers as they are, however large."""
    try:
        return dumps(value)
    except TypeError:  # past 64 bits, or nested deeper than a log takes: this is but text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )


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


def failure_of(error: Exception, watch: "Watch", secrets: list[str]) -> Failed:
    """Why a session failed, in a shape for the client: what the wire saw comes before what the SDK says of it."""
    from mcp import MCPError  # noqa: PLC0415 - with the SDK

    for leaf in leaves_of(error):
        if isinstance(leaf, Failed):
            return leaf
    if watch.trouble is not None:
        return watch.trouble
    leaf = next(iter(leaves_of(error)))
    said = isinstance(leaf, MCPError) and watch.said(leaf.message)
    if watch.status is not None and not (said and watch.status >= 400):
        return Failed.http(watch.status, f"The MCP server answered with status {watch.status}.")
    if isinstance(leaf, MCPError) and said:
        message: str = blanked(leaf.message, secrets)
        return Failed.protocol(leaf.code, message[:MAX_MESSAGE_CHARS])
    return _unsaid(leaf)


def _unsaid(error: BaseException) -> Failed:
    """In our words, what only the SDK has words for."""
    import mcp_types as types  # noqa: PLC0415 - with the SDK
    from mcp import MCPError  # noqa: PLC0415

    if isinstance(error, TimeoutError):
        return Failed.http(TIMEOUT_CODE, "The MCP server did not answer in time.")
    log.info("An MCP session ended in %s", type(error).__name__)
    if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
        return Failed.protocol(-32603, ENDED_TEXT)
    return Failed.protocol(-32603, UNREADABLE_TEXT)


def leaves_of(error: BaseException) -> list[BaseException]:
    """The errors inside a group of errors."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves_of(inner)]
    return [error]


def load() -> None:
    """Import the SDK: a second, in which heartbeats would be late."""
    for name in ("mcp.client.sse", "mcp.client.streamable_http", "workers.tools.wire"):
        import_module(name)


async def loaded() -> None:
    """`load` beside the event loop."""
    await asyncio.to_thread(load)
