"""A scripted upstream: a stand-in for vLLM that ships with Respool, to try it with.

In: `POST /v1/responses` or `POST /v1/chat/completions` as the gateway sends them, `GET /v1/models`.
Out: the events or chunks that vLLM would stream, a few letters at a time. The same request always
gets the same answer, in either dialect. Used by `respool.demo`; `python -m respool.demo_upstream
PORT` runs it alone.

What it answers: a call of the first declared function whose name shares a word with the prompt (or
of the one that `tool_choice` asks for), else text; text after a call's output; JSON where
`text.format` asks for it. Asked for a name, it looks through the conversation for "my name is". The
model `kitchen-sink` answers with every kind of item that a Responses server can emit; a model whose
name ends in `-fast` is not paced.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Any

from aiohttp import web

from respool.demo_chat import chunks, responses_request

Json = dict[str, Any]

PACE_S = 0.05
"""Between two deltas: about the speed at which a large model writes."""
PIECE = 6
"""Letters in a delta."""
LARGEST_BODY = 64 << 20

PATCH = """\
*** Begin Patch
*** Update File: greeting.py
@@ def greet(name):
-    print("Hello " + name)
+    print(f"Hello, {name}! \N{WAVING HAND SIGN}")
*** End Patch
"""
HELLO = "Hello! I am a scripted model; every frame of this answer went through two logs in Redis."
AFTER_CALL = "Done. The tool answered, so this is the last turn."
BEFORE_CALL = "I will use the tool for that."


class Script:
    """Builds one answer, event by event, and keeps the items for its terminal."""

    def __init__(self, body: Json) -> None:
        self._output: list[Json] = []
        self._number = -1
        self._response: Json = {
            "id": "resp_upstream",
            "object": "response",
            "created_at": 1_700_000_000,
            "model": body.get("model"),
            "status": "in_progress",
            "output": [],
            "tools": body.get("tools") or [],
            "tool_choice": body.get("tool_choice") or "auto",
            "parallel_tool_calls": True,
            "usage": None,
        }

    def event(self, kind: str, **fields: object) -> Json:
        """One event with the upstream's own number."""
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}

    def begin(self) -> Iterator[Json]:
        """What comes before the first item."""
        for kind in ("response.created", "response.in_progress"):
            yield self.event(kind, response=self._response)

    def end(self) -> Iterator[Json]:
        """The terminal event, with all items."""
        written = sum(len(json.dumps(item)) // 4 for item in self._output)
        usage = {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 12 + written,
        }
        done = {**self._response, "status": "completed", "output": self._output, "usage": usage}
        yield self.event("response.completed", response=done)

    def message(self, text: str, *, refusal: str = "") -> Iterator[Json]:
        """A message of one text, and of a refusal after it where one is given."""
        item: Json = {"type": "message", "role": "assistant", "content": []}
        parts: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
        if refusal:
            parts.append({"type": "refusal", "refusal": refusal})
        yield from self._item("msg", item, parts, {"content": parts})

    def reasoning(self, summary: str, text: str) -> Iterator[Json]:
        """A reasoning item with a summary and its text."""
        place = len(self._output)
        at: Json = {"item_id": f"rs_{place}", "output_index": place, "summary_index": 0}
        item: Json = {"type": "reasoning", "summary": []}
        whole = {"type": "summary_text", "text": summary}
        part = {"type": "reasoning_text", "text": text}
        events = self._item("rs", item, [part], {"summary": [whole], "content": [part]})
        yield next(events)
        yield self.event("response.reasoning_summary_part.added", part={**whole, "text": ""}, **at)
        for piece in pieces(summary):
            yield self.event("response.reasoning_summary_text.delta", delta=piece, **at)
        yield self.event("response.reasoning_summary_text.done", text=summary, **at)
        yield self.event("response.reasoning_summary_part.done", part=whole, **at)
        yield from events

    def call(self, name: str, arguments: str) -> Iterator[Json]:
        """A function call."""
        place = len(self._output)
        at: Json = {"item_id": f"fc_{place}", "output_index": place}
        known = {"type": "function_call", "call_id": f"call_{place}", "name": name}
        events = self._item("fc", {**known, "arguments": ""}, [], {"arguments": arguments})
        yield next(events)
        for piece in pieces(arguments):
            yield self.event("response.function_call_arguments.delta", delta=piece, **at)
        kind = "response.function_call_arguments.done"
        yield self.event(kind, arguments=arguments, name=name, **at)
        yield from events

    def _item(self, prefix: str, item: Json, parts: list[Json], final: Json) -> Iterator[Json]:
        """An item from `added` to `done`; the caller may put events of its own after the first."""
        place = len(self._output)
        item = {"id": f"{prefix}_{place}", "status": "in_progress", **item}
        kind = "response.output_item.added"
        yield self.event(kind, output_index=place, item=item)
        for index, part in enumerate(parts):
            at = {"item_id": item["id"], "output_index": place, "content_index": index}
            yield from self._part(part, at)
        whole = {**item, **final, "status": "completed"}
        self._output.append(whole)
        yield self.event("response.output_item.done", output_index=place, item=whole)

    def _part(self, part: Json, at: Json) -> Iterator[Json]:
        kind = part["type"]
        field = "refusal" if kind == "refusal" else "text"
        more: Json = {"logprobs": []} if kind == "output_text" else {}
        yield self.event("response.content_part.added", part={**part, field: ""}, **at)
        for piece in pieces(part[field]):
            yield self.event(f"response.{kind}.delta", delta=piece, **more, **at)
        yield self.event(f"response.{kind}.done", **{field: part[field]}, **more, **at)
        yield self.event("response.content_part.done", part=part, **at)


def pieces(text: str) -> Iterator[str]:
    """The text, a few letters at a time."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def answer(body: Json) -> Iterator[Json]:
    """The events of the answer to a request."""
    script = Script(body)
    yield from script.begin()
    function = _function(body)
    schema = _schema(body)
    if str(body.get("model")).startswith("kitchen-sink"):
        yield from script.reasoning("Thinking it over.", "First the text, then the call.")
        yield from script.message("Everything at once.", refusal="But not that.")
        if function:
            yield from script.call(function["name"], _arguments(function, _prompt(body)))
    elif _answers_a_call(body):
        yield from script.message(AFTER_CALL)
    elif function:
        yield from script.message(BEFORE_CALL)
        yield from script.call(function["name"], _arguments(function, _prompt(body)))
    elif schema:
        yield from script.message(json.dumps(sample(schema, _prompt(body))))
    else:
        yield from script.message(_remembered(body) or HELLO)
    yield from script.end()


def _schema(body: Json) -> Json | None:
    """The JSON that is asked for, as a schema: any object will do where the client only says JSON."""
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_object":
        return {"properties": {"answer": {"type": "string"}}}
    return form.get("schema")


def _remembered(body: Json) -> str | None:
    """The name that somebody gave earlier in the conversation, if the prompt asks for it."""
    if "my name" not in _prompt(body).lower():
        return None
    found = re.findall(r"my name is (\w+)", json.dumps(_items(body)[:-1]), re.IGNORECASE)
    return found[-1] if found else None


def _items(body: Json) -> list[Any]:
    given = body.get("input")
    return given if isinstance(given, list) else []


def _answers_a_call(body: Json) -> bool:
    items = _items(body)
    return bool(items) and items[-1].get("type") == "function_call_output"


def _prompt(body: Json) -> str:
    items = _items(body)
    if not items:
        return str(body.get("input") or "")
    content = items[-1].get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def _function(body: Json) -> Json | None:
    """The function to call, if one is asked for or fits the prompt."""
    functions = [tool for tool in body.get("tools") or [] if tool.get("type") == "function"]
    choice = body.get("tool_choice") or "auto"
    if choice == "none" or not functions:
        return None
    if isinstance(choice, dict) and choice.get("name"):
        return next((f for f in functions if f["name"] == choice["name"]), None)
    said = set(_words(_prompt(body)))
    fits = (f for f in functions if said.intersection(_words(f["name"])))
    sink = str(body.get("model")).startswith("kitchen-sink")
    return next(fits, functions[0] if choice == "required" or sink else None)


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-z]+", text.lower()) if len(word) > 2]


def _arguments(function: Json, prompt: str) -> str:
    schema = function.get("parameters") or {}
    if list(schema.get("properties") or {}) == ["input"]:
        return json.dumps({"input": PATCH}, ensure_ascii=False)
    return json.dumps(sample(schema, prompt))


def sample(schema: Json, prompt: str) -> object:
    """The plainest value of a JSON schema; a string becomes the prompt's last word."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if kind in ("object", None):
        properties = schema.get("properties") or {}
        return {name: sample(inner, prompt) for name, inner in properties.items()}
    words = re.findall(r"\w+", prompt) or ["nothing"]
    plain: Json = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "null": None}
    return plain.get(str(kind), words[-1])


async def _responses(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    frames = ((event["type"].endswith(".delta"), _named(event)) for event in answer(body))
    return await _streamed(request, body, frames)


async def _chat(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    told = chunks(answer(responses_request(body)), body.get("model"))
    frames = ((bool(chunk["choices"]), _data(chunk)) for chunk in told)
    return await _streamed(request, body, chain(frames, [(False, b"data: [DONE]\n\n")]))


def _named(event: Json) -> bytes:
    return f"event: {event['type']}\n".encode() + _data(event)


def _data(payload: Json) -> bytes:
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


async def _streamed(
    request: web.Request, body: Json, frames: Iterable[tuple[bool, bytes]]
) -> web.StreamResponse:
    """Write the frames; those that are marked come at the pace of the model."""
    stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await stream.prepare(request)
    pace = 0.0 if str(body.get("model")).endswith("-fast") else PACE_S
    # The gateway may leave in the middle, as after a cancel: nobody is there to be told.
    with suppress(ConnectionResetError):
        for paced, frame in frames:
            if paced:
                await asyncio.sleep(pace)
            await stream.write(frame)
        await stream.write_eof()
    return stream


async def _models(_: web.Request) -> web.Response:
    names = ("demo", "demo-fast", "kitchen-sink")
    data = [{"id": n, "object": "model", "created": 0, "owned_by": "respool"} for n in names]
    return web.json_response({"object": "list", "data": data})


@asynccontextmanager
async def serving(port: int = 0) -> AsyncIterator[str]:
    """Serve it on loopback; yields the base URL that RESPOOL_UPSTREAM_URL wants."""
    app = web.Application(client_max_size=LARGEST_BODY)
    app.router.add_post("/v1/responses", _responses)
    app.router.add_post("/v1/chat/completions", _chat)
    app.router.add_get("/v1/models", _models)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def _alone(port: int) -> None:
    async with serving(port) as url:
        sys.stdout.write(f"RESPOOL_UPSTREAM_URL={url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_alone(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    except KeyboardInterrupt:
        sys.exit(130)
