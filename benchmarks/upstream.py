"""A fast scripted Responses upstream. The text of each delta is the time at which it was sent.

In: `POST /v1/responses` with a model named `bench:FRAMES:INTERVAL_MS`. Out: that many text deltas,
that far apart (0: as fast as the socket takes them), each `t=<monotonic ns>;`, so that a reader on
the same machine can tell how long it was under way. Run alone: `python -m benchmarks.upstream PORT`.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

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


async def play(model: str, write: Write) -> None:
    """The answer to one request."""
    _, frames, interval_ms = model.split(":")
    interval = float(interval_ms) / 1000
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
    stamps: list[str] = []
    due = time.monotonic()
    for number in range(int(frames)):
        if interval:
            due += interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        stamps.append(f"t={time.monotonic_ns()};")
        await write(event("response.output_text.delta", number + 3, delta=stamps[-1], **at))
    part = {**part, "text": "".join(stamps)}
    item = {**item, "status": "completed", "content": [part]}
    after = int(frames) + 3
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
            await play(body["model"], write)
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
