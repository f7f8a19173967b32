"""A fast scripted upstream. The text of each delta is the time at which it was sent.

In: `POST /v1/responses` or `POST /v1/chat/completions` with a model named `NAME:FRAMES:INTERVAL_MS`.
Out: that many deltas, that far apart (0: as fast as the socket takes them), each `t=<monotonic ns>;`,
so that a reader on the same machine can tell how long it was under way: a message, or, where NAME is `custom`, the
arguments of a call of the function `exec`. Without `stream` the whole of it as one body, when the last one would have
been sent. Run alone: `python -m benchmarks.upstream PORT`; `running` does so and ends it.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson
import uvloop

from benchmarks.process import WAIT_S, until
from respool.replica import free_port

BACKLOG = 2048
LARGEST_BODY = 1 << 26
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MODELS = {"object": "list", "data": []}

Write = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Running:
    """Where it listens, and the process that it is."""

    base: str
    pid: int


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    """The scripted upstream as a process of its own, killed at the end of the block."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.upstream", str(port))
    )
    try:
        await until(lambda: _listens(port), WAIT_S)
        yield Running(f"http://127.0.0.1:{port}/v1", process.pid)
    finally:
        process.kill()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def event(kind: str, number: int, **fields: object) -> bytes:
    """One SSE frame."""
    data = orjson.dumps({"type": kind, "sequence_number": number, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


async def stamps(model: str) -> AsyncIterator[tuple[int, bytes]]:
    """The texts of the deltas, numbered, each when it is due."""
    _, frames, interval_ms = model.rsplit(":", 2)
    interval = float(interval_ms) / 1000
    due = time.monotonic()
    for number in range(int(frames)):
        if interval:
            due += interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        yield number, b"t=%d;" % time.monotonic_ns()


async def play_chat(model: str, write: Write) -> None:
    """The answer to one Chat request."""
    await write(chunk(model, {"role": "assistant", "content": ""}))
    before, after = chunk(model, {"content": "@"}).split(b"@")
    async for _, text in stamps(model):
        await write(b"%b%b%b" % (before, text, after))
    await write(chunk(model, {}, "stop"))
    await write(b"data: [DONE]\n\n")


def chunk(model: str, delta: dict[str, str], finish: str | None = None) -> bytes:
    """One frame of a chat stream, as long as vLLM's."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    data = orjson.dumps(
        {
            "id": "chatcmpl-0123456789abcdef0123456789abcdef",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": model,
            "choices": [choice],
        }
    )
    return b"data: %b\n\n" % data


def completion(model: str, text: str) -> dict[str, object]:
    """The same as one Chat body."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    return {
        "id": "chatcmpl-0123456789abcdef0123456789abcdef",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def response(model: str, status: str, *output: dict[str, object]) -> dict[str, object]:
    """A Response."""
    return {
        "id": "resp_up",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "status": status,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def message(text: str) -> dict[str, object]:
    """The item that a text becomes."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_up", "type": "message", "role": "assistant"}
    return {**item, "status": "completed", "content": [part]}


def call(arguments: str, status: str) -> dict[str, object]:
    """A call of the function that stands for a custom tool."""
    item = {"id": "fc_up", "type": "function_call", "call_id": "call_up", "name": "exec"}
    return {**item, "arguments": arguments, "status": status}


async def play(model: str, write: Write) -> None:
    """The answer to one Responses request."""
    await write(event("response.created", 0, response=response(model, "in_progress")))
    item = await (play_call if model.startswith("custom:") else play_message)(model, write)
    number = int(model.rsplit(":", 2)[1]) + 10
    await write(event("response.output_item.done", number, output_index=0, item=item))
    done = response(model, "completed", item)
    await write(event("response.completed", number + 1, response=done))


async def play_message(model: str, write: Write) -> dict[str, object]:
    """Its one message; the item that it became."""
    at = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    item = {**message(""), "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    await write(event("response.output_item.added", 1, output_index=0, item=item))
    await write(event("response.content_part.added", 2, part=part, **at))
    text = await deltas("response.output_text.delta", 3, model, write, **at)
    part = {**part, "text": text}
    after = int(model.rsplit(":", 2)[1]) + 3
    await write(event("response.output_text.done", after, text=text, **at))
    await write(event("response.content_part.done", after + 1, part=part, **at))
    return message(text)


async def play_call(model: str, write: Write) -> dict[str, object]:
    """Its one call; the item that it became."""
    at = {"item_id": "fc_up", "output_index": 0}
    kind = "response.function_call_arguments"
    added = call("", "in_progress")
    await write(event("response.output_item.added", 1, output_index=0, item=added))
    await write(event(f"{kind}.delta", 2, delta='{"input":"', **at))
    text = await deltas(f"{kind}.delta", 3, model, write, **at)
    after = int(model.rsplit(":", 2)[1]) + 3
    await write(event(f"{kind}.delta", after, delta='"}', **at))
    arguments = f'{{"input":"{text}"}}'
    await write(event(f"{kind}.done", after + 1, name="exec", arguments=arguments, **at))
    return call(arguments, "completed")


async def deltas(kind: str, first: int, model: str, write: Write, **at: object) -> str:
    """Every delta when it is due, from a frame made once; the whole text."""
    before, after = event(kind, 0, delta="@", **at).split(b':0,"delta":"@')
    texts: list[bytes] = []
    async for number, text in stamps(model):
        texts.append(text)
        await write(b'%b:%d,"delta":"%b%b' % (before, first + number, text, after))
    return b"".join(texts).decode()


async def whole(model: str, *, chat: bool) -> dict[str, object]:
    """The answer to a request that does not stream."""
    text = b"".join([text async for _, text in stamps(model)]).decode()
    if chat:
        return completion(model, text)
    item = message(text)
    if model.startswith("custom:"):
        item = call(f'{{"input":"{text}"}}', "completed")
    return response(model, "completed", item)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection until it closes."""

    async def write(data: bytes) -> None:
        if writer.is_closing():  # uvloop's transport takes that for a mistake of ours
            raise ConnectionResetError
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()

    def write_json(value: object) -> None:
        body = orjson.dumps(value)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            % len(body)
            + body
        )

    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = head.partition("content-length:")[2].split("\r\n")[0].strip()
            if not length:
                write_json(MODELS)
                continue
            body = orjson.loads(await reader.readexactly(int(length)))
            chat = "/chat/completions " in head.partition("\r\n")[0]
            if body.get("stream"):
                writer.write(HEAD)
                await (play_chat if chat else play)(body["model"], write)
                writer.write(b"0\r\n\r\n")
            else:
                write_json(await whole(body["model"], chat=chat))
            await writer.drain()
            if "connection: close" in head:
                return
    except (asyncio.IncompleteReadError, ConnectionError):
        return  # the other side has what it wanted
    finally:
        writer.close()


async def serve(port: int) -> None:
    """Serve on loopback until cancelled."""
    server = await asyncio.start_server(
        answer, "127.0.0.1", port, limit=LARGEST_BODY, backlog=BACKLOG
    )
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
