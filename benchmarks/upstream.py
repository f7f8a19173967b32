"""A fast scripted upstream. The text of each delta is the time at which it was sent.

In: `POST /v1/responses` or `POST /v1/chat/completions` with a model named `NAME:FRAMES:INTERVAL_MS`.
Out: that many deltas, that far apart (0: as fast as the socket takes them), each `t=<monotonic ns>;`,
so that a reader on the same machine can tell how long it was under way. Run alone:
`python -m benchmarks.upstream PORT`.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
import uvloop

BACKLOG = 2048
LARGEST_BODY = 1 << 26
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MODELS = b'{"object":"list","data":[]}'

Write = Callable[[bytes], Awaitable[None]]


def event(kind: str, number: int, **fields: object) -> bytes:
    """One SSE frame."""
    data = orjson.dumps({"type": kind, "sequence_number": number, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


async def stamps(model: str) -> AsyncIterator[tuple[int, str]]:
    """The texts of the deltas, numbered, each when it is due."""
    _, frames, interval_ms = model.rsplit(":", 2)
    interval = float(interval_ms) / 1000
    due = time.monotonic()
    for number in range(int(frames)):
        if interval:
            due += interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        yield number, f"t={time.monotonic_ns()};"


async def play_chat(model: str, write: Write) -> None:
    """The answer to one Chat request."""
    await write(chunk(model, {"role": "assistant", "content": ""}))
    async for _, text in stamps(model):
        await write(chunk(model, {"content": text}))
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


async def play(model: str, write: Write) -> None:
    """The answer to one Responses request."""
    response: dict[str, object] = {
        "id": "resp_up",
        "object": "response",
        "model": model,
        "status": "in_progress",
    }
    part = {"type": "output_text", "text": "", "annotations": []}
    item: dict[str, object] = {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "content": [],
    }
    at = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    await write(event("response.created", 0, response=response))
    await write(event("response.output_item.added", 1, output_index=0, item=item))
    await write(event("response.content_part.added", 2, part=part, **at))
    texts: list[str] = []
    async for number, text in stamps(model):
        texts.append(text)
        await write(event("response.output_text.delta", number + 3, delta=text, **at))
    part = {**part, "text": "".join(texts)}
    item = {**item, "status": "completed", "content": [part]}
    after = len(texts) + 3
    await write(event("response.output_text.done", after, text=part["text"], **at))
    await write(event("response.content_part.done", after + 1, part=part, **at))
    await write(event("response.output_item.done", after + 2, output_index=0, item=item))
    done = {**response, "status": "completed", "output": [item]}
    await write(event("response.completed", after + 3, response=done))


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection until it closes."""

    async def write(data: bytes) -> None:
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()

    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = head.partition("content-length:")[2].split("\r\n")[0].strip()
            if not length:
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(MODELS) + MODELS
                )
                continue
            body = orjson.loads(await reader.readexactly(int(length)))
            writer.write(HEAD)
            player = play_chat if "/chat/completions " in head.partition("\r\n")[0] else play
            await player(body["model"], write)
            writer.write(b"0\r\n\r\n")
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
