"""What MCP servers answer, made into what the SDK takes: it reads an answer whole, or not at all.

In: the result of a list of tools or of a call, as the server wrote it. Out: the same without what nobody here reads, in
the shapes of every version of MCP. A tool that is none is left out of its list, and a part of a call's result that is
none is named in its text: the tool has run, and the rest of what it says is good. Whatever is no such result stays as it
is. Called by `workers.tools.session`, below the SDK.
"""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from translator.protocol.json import dumps

if TYPE_CHECKING:
    from types import TracebackType

    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

log = logging.getLogger(__name__)

HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

PART_FIELDS: Final = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("name", "uri"),
}
"""What makes a part of each type; all are texts. The type `resource` has one inside instead."""


@asynccontextmanager
async def leniently(
    way: AbstractAsyncContextManager["TransportStreams"],
) -> AsyncIterator["TransportStreams"]:
    """A transport of the SDK whose answers are read with care."""
    async with way as (reading, writing):
        yield Answers(reading), writing


class Answers:
    """The messages of a server, as a stream of the SDK's."""

    def __init__(self, inner: "ReadStream[SessionMessage | Exception]") -> None:
        self._inner = inner

    @property
    def last_context(self) -> Any:
        """That of who sent the last message; the SDK looks for it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        return _read(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        return _read(await self._inner.__anext__())

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


def _read(message: "SessionMessage | Exception") -> "SessionMessage | Exception":
    result = getattr(getattr(message, "message", None), "result", None)
    if isinstance(result, dict):
        result.update(list_of(result), **call_of(result))
    return message


def list_of(result: dict[str, Any]) -> dict[str, Any]:
    """The tools of a list; nothing of any other result."""
    listed = result.get("tools")
    if not isinstance(listed, list):
        return {}
    tools = [tool for tool in map(tool_of, listed) if tool is not None]
    if len(tools) < len(listed):
        log.info("%d tools that are not valid MCP are left out of a list", len(listed) - len(tools))
    return {"tools": tools}


def tool_of(listed: Any) -> dict[str, Any] | None:
    """A tool with what is shown and used of it; None where it is none. No schema, or an empty one, is that of any object."""
    if not isinstance(listed, dict) or not isinstance(listed.get("name"), str):
        return None
    schema = schema_of(listed.get("inputSchema"))
    if schema is None:
        return None
    tool = {"name": listed["name"], "inputSchema": schema}
    if isinstance(listed.get("description"), str):
        tool["description"] = listed["description"]
    if isinstance(notes := listed.get("annotations"), dict):
        kept = {name: notes[name] for name in HINTS if isinstance(notes.get(name), bool)}
        title = notes.get("title")
        tool["annotations"] = kept | ({"title": title} if isinstance(title, str) else {})
    return tool


EMPTY: Final[dict[str, Any]] = {"properties": {}, "required": [], "$schema": ""}
"""What the root of a schema may say of these names, by kind. What says nothing (null, false, or PHP's empty list for an
empty map) is left out."""


def schema_of(given: Any) -> dict[str, Any] | None:
    """A tool's schema, without what says nothing at its root; None where it is that of no object."""
    said = {"type": "object"} if given is None else given
    if not isinstance(said, dict):
        return None
    schema = {key: value for key, value in said.items() if key not in EMPTY or value}
    if schema.setdefault("type", "object") != "object":
        return None
    if any(not isinstance(schema.get(key, empty), type(empty)) for key, empty in EMPTY.items()):
        return None
    properties, required = schema.get("properties", {}), schema.get("required", [])
    whole = all(isinstance(one, dict | bool) for one in properties.values())
    return schema if whole and all(isinstance(one, str) for one in required) else None


def call_of(result: dict[str, Any]) -> dict[str, Any]:
    """The parts of a call's result, and its structured content; nothing of any other result."""
    structure = result.get("structuredContent")
    given = result.get("content")
    if isinstance(given, str):
        given = [{"type": "text", "text": given}]
    if given is None and structure is not None:
        given = []
    if not isinstance(given, list):
        return {}
    read = [part_of(one) for one in given]
    parts = [part for part in read if part is not None]
    if structure is not None and not isinstance(
        structure, dict
    ):  # in its older versions MCP has objects alone
        if not any(part.get("text") or part.get("resource", {}).get("text") for part in parts):
            parts.append({"type": "text", "text": written(structure).decode("utf-8", "replace")})
        structure = None
    elif structure is None:
        parts = [
            {"type": "text", "text": unread(one)} if part is None else part
            for one, part in zip(given, read, strict=True)
        ]
    return {"content": parts, "structuredContent": structure}


def part_of(given: Any) -> dict[str, Any] | None:
    """A part with what is read of it; None where it is none that MCP knows."""
    if not isinstance(given, dict):
        return None
    kind = given.get("type")
    if kind == "resource":
        inside = _texts(given.get("resource"), "uri", "text") or _texts(
            given.get("resource"), "uri", "blob"
        )
        return inside and {"type": kind, "resource": inside}
    fields = PART_FIELDS.get(kind) if isinstance(kind, str) else None
    texts = fields and _texts(given, *fields)
    return {"type": kind, **texts} if texts else None


def _texts(given: Any, *fields: str) -> dict[str, Any] | None:
    if not isinstance(given, dict) or not all(isinstance(given.get(one), str) for one in fields):
        return None
    return {one: given[one] for one in fields}


def unread(given: Any) -> str:
    """What the model is told of a part that is none."""
    kind = given.get("type") if isinstance(given, dict) else None
    return (
        f"[{kind}: could not be read]"
        if isinstance(kind, str)
        else "[a part that could not be read]"
    )


def written(value: Any) -> bytes:
    """A value as JSON, its integers as they are, however large."""
    try:
        return dumps(value)
    except TypeError:  # past 64 bits, or nested deeper than a log takes: this is but text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
