"""A scripted model, a real MCP server and a search endpoint whose calls wait until a test lets them go.

A response is known by its prompt, the tag: its calls are `<tag>-0`, `<tag>-1`, … in the model's order, whichever
process runs them, and each waits for its gate. `begun` has one line a start, so that a call that runs twice is seen.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import mcp_types as types
from aiohttp import web

from tests.ingest.server import Play, Server, event
from tests.workers.tools import mcp_server, search_server

CALLS = ("web_search", "read", "write", "read", "write")
"""The calls of the first round; two of the five may not run twice."""
ALL_CALLS = tuple(range(len(CALLS)))
MAY_REPEAT = (0, 1, 3)
ANSWER = len(CALLS)
"""The place of the model's second round, which waits as well."""
AFTER = ("That is ", "all ", "I found.")
HIT = {"title": "A page", "url": "https://found.test/page", "content": "What it says."}


class Gates:
    """Which calls have begun, and which may go on."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._open: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def pass_(self, call: str) -> None:
        self.begun.append(call)
        await self.gate(call).wait()

    def gate(self, call: str) -> asyncio.Event:
        return self._open[call]

    def open(self, tag: str, places: Iterable[int] = (*ALL_CALLS, ANSWER)) -> None:
        for place in places:
            self.gate(f"{tag}-{place}").set()

    def times(self, tag: str) -> list[int]:
        """How often each call of a response has begun."""
        return [self.begun.count(f"{tag}-{place}") for place in ALL_CALLS]


class Tools(mcp_server.Tools):
    """A tool that only reads, and one that does not say so."""

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self.gates = gates

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        del context, params
        self.lists += 1
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=f"The tool {name}",
                    input_schema=self.schema,
                    annotations=types.ToolAnnotations(read_only_hint=True)
                    if name == "read"
                    else None,
                )
                for name in ("read", "write")
            ]
        )

    async def do_read(self, given: dict[str, Any]) -> types.CallToolResult:
        await self.gates.pass_(given["text"])
        return mcp_server.text("read it")

    async def do_write(self, given: dict[str, Any]) -> types.CallToolResult:
        await self.gates.pass_(given["text"])
        return mcp_server.text("wrote it")


class Engine(search_server.Engine):
    """A search endpoint."""

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self.hits = [HIT]
        self.gates = gates

    async def handle(self, request: web.Request) -> web.Response:
        await self.gates.pass_(request.query["q"])
        return await super().handle(request)


class Model(Server):
    """Calls five tools at once after a word, then says what it found."""

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self.gates = gates

    def next_play(self) -> Play:
        body = json.loads(self.requests[-1].body)
        tag = prompt_of(body)
        if results_of(body):
            return Play([self.gates.gate(f"{tag}-{ANSWER}"), *answer([message(0, *AFTER)])])
        calls = [
            call(place + 1, *named(body, tool, f"{tag}-{place}"))
            for place, tool in enumerate(CALLS)
        ]
        return Play(answer([message(0, "I will ", "look."), *calls]))

    def asked(self, tag: str) -> list[dict[str, Any]]:
        """The bodies that came for a response, in order."""
        bodies = [json.loads(seen.body) for seen in self.requests]
        return [body for body in bodies if prompt_of(body) == tag]


def prompt_of(body: dict[str, Any]) -> str:
    (said,) = [item for item in body["input"] if item.get("role") == "user"]
    content = said["content"]
    return content if isinstance(content, str) else content[0]["text"]


def results_of(body: dict[str, Any]) -> list[str]:
    return [item["output"] for item in body["input"] if item["type"] == "function_call_output"]


def named(body: dict[str, Any], tool: str, text: str) -> tuple[str, str]:
    """The model's name for a tool, and the arguments of a call."""
    if tool == "web_search":
        return tool, json.dumps({"query": text})
    described = f"The tool {tool}"
    (name,) = [t["name"] for t in body["tools"] if described in t.get("description", "")]
    return name, json.dumps({"text": text})


def answer(items: list[tuple[dict[str, Any], list[bytes]]]) -> list[bytes]:
    response = {"id": "resp_up", "object": "response", "model": "m", "status": "in_progress"}
    done = {**response, "status": "completed", "output": [item for item, _ in items]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        event("response.created", response={**response, "output": []}),
        *(one for _, events in items for one in events),
        event("response.completed", response={**done, "usage": usage}),
    ]


def message(index: int, *pieces: str) -> tuple[dict[str, Any], list[bytes]]:
    at = {"item_id": f"msg_up{index}", "output_index": index, "content_index": 0}
    part = {"type": "output_text", "text": "".join(pieces), "annotations": []}
    item = {"id": at["item_id"], "type": "message", "role": "assistant", "status": "completed"}
    empty = {**item, "status": "in_progress", "content": []}
    whole = {**item, "content": [part]}
    return whole, [
        event("response.output_item.added", output_index=index, item=empty),
        event("response.content_part.added", part={**part, "text": ""}, **at),
        *(event("response.output_text.delta", delta=piece, **at) for piece in pieces),
        event("response.output_text.done", text=part["text"], **at),
        event("response.content_part.done", part=part, **at),
        event("response.output_item.done", output_index=index, item=whole),
    ]


def call(index: int, name: str, arguments: str) -> tuple[dict[str, Any], list[bytes]]:
    item = {
        "id": f"fc_up{index}",
        "type": "function_call",
        "call_id": f"call_up{index}",
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }
    place = {"item_id": item["id"], "output_index": index}
    return item, [
        event("response.output_item.added", output_index=index, item={**item, "arguments": ""}),
        event("response.function_call_arguments.delta", delta=arguments, **place),
        event("response.output_item.done", output_index=index, item=item),
    ]
