"""A scripted upstream on loopback: plays exact bytes, and lets a test decide when they go on.

A `Play` says how one request is answered: its head, then steps: bytes to write, an `asyncio.Event`
to wait for, one of the endings, or a function of the request that gives such steps. Requests are
kept in `requests` as they came.
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from typing import Any


class End(Enum):
    CLEAN = auto()  # the last chunk of a chunked body
    CUT = auto()  # FIN in the middle of the body
    RESET = auto()  # RST in the middle of the body
    HANG = auto()  # silence with the socket open


@dataclass
class Play:
    steps: "list[Step | Made]" = field(default_factory=list)
    status: str = "200 OK"
    headers: dict[str, str] = field(default_factory=dict)
    raw_head: bytes | None = None  # in place of an HTTP head


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: bytes
    left: asyncio.Event  # set once the client has closed this request's connection
    connection: int


Step = bytes | asyncio.Event | End
Made = Callable[[Seen], Iterable[Step]]


class Server:
    def __init__(self) -> None:
        self.plays: list[Play] = []  # the last one is played again and again
        self.requests: list[Seen] = []
        self.connections: list[Connection] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def play(self, *steps: Step | Made, **fields: Any) -> None:
        self.plays.append(Play(list(steps), **fields))

    def next_play(self) -> Play:
        return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]


class Connection(asyncio.Protocol):
    """One connection of a client: reads requests, plays answers, notices that the client left."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.number = len(server.connections)
        self.left = asyncio.Event()
        self.more = asyncio.Event()
        self.buffer = bytearray()
        server.connections.append(self)

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.task = asyncio.get_running_loop().create_task(self.serve())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.more.set()

    def eof_received(self) -> bool:
        self.connection_lost(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.left.set()
        self.more.set()

    async def take(self, until: Callable[[bytes], int]) -> bytes:
        """Bytes up to where `until` says; raises EOFError once the client has left."""
        while (end := until(bytes(self.buffer))) < 0:
            if self.left.is_set():
                raise EOFError
            self.more.clear()
            await self.more.wait()
        taken = bytes(self.buffer[:end])
        del self.buffer[:end]
        return taken

    async def serve(self) -> None:
        try:
            while True:
                head = (await self.take(end_of_head)).decode("latin-1")
                first, *lines = head.split("\r\n")
                pairs = (line.partition(":") for line in lines if line)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                size = int(headers.get("content-length", 0))
                body = await self.take(lambda held: size if len(held) >= size else -1)  # noqa: B023
                path = first.split(" ")[1]
                seen = Seen(path, headers, body, self.left, self.number)
                self.server.requests.append(seen)
                if not await self.answer(self.server.next_play(), seen):
                    return
        except EOFError:
            return
        finally:
            self.transport.close()

    async def answer(self, play: Play, seen: Seen) -> bool:
        """Play it; whether the connection can serve another request."""
        headers = {"content-type": "text/event-stream", **play.headers}
        chunked = "content-length" not in headers
        if chunked:
            headers["transfer-encoding"] = "chunked"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        write = self.transport.write
        write(play.raw_head or f"HTTP/1.1 {play.status}\r\n{lines}\r\n".encode())
        parts = (part(seen) if callable(part) else (part,) for part in play.steps)
        for step in chain.from_iterable(parts):
            if isinstance(step, asyncio.Event):
                await self.until(step)
            elif isinstance(step, bytes):
                write(b"%x\r\n%s\r\n" % (len(step), step) if chunked else step)
                await asyncio.sleep(0)
            else:
                return await self.end(step)
        return await self.end(End.CLEAN) if chunked else True

    async def until(self, event: asyncio.Event) -> None:
        """Wait for the test, or for the client to leave."""
        waits = [asyncio.ensure_future(each.wait()) for each in (event, self.left)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self.left.is_set():
            raise EOFError

    async def end(self, end: End) -> bool:
        if end is End.CLEAN:
            self.transport.write(b"0\r\n\r\n")
            return True
        if end is End.HANG:
            await self.left.wait()
        elif end is End.RESET:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        return False


def end_of_head(held: bytes) -> int:
    found = held.find(b"\r\n\r\n")
    return found if found < 0 else found + 4


@asynccontextmanager
async def serving(server: Server | None = None) -> AsyncIterator[Server]:
    server = server or Server()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for connection in server.connections:
            connection.task.cancel()
        tasks = [connection.task for connection in server.connections]
        await asyncio.gather(*tasks, return_exceptions=True)
        await listening.wait_closed()


def event(kind: str, **fields: Any) -> bytes:
    payload = json.dumps({"type": kind, **fields}, separators=(",", ":"))
    return f"event: {kind}\ndata: {payload}\n\n".encode()


def text_stream(*deltas: str, usage: dict[str, Any] | None = None) -> list[bytes]:
    """The Responses events of a plain answer, one bytes object each."""
    at = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    text = "".join(deltas)
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_up", "type": "message", "role": "assistant", "status": "completed"}
    response = {"id": "resp_up", "object": "response", "model": "m", "status": "in_progress"}
    return [
        event("response.created", response={**response, "output": []}),
        event(
            "response.output_item.added",
            output_index=0,
            item={**item, "status": "in_progress", "content": []},
        ),
        event("response.content_part.added", part={**part, "text": ""}, **at),
        *(event("response.output_text.delta", delta=delta, logprobs=[], **at) for delta in deltas),
        event("response.output_text.done", text=text, logprobs=[], **at),
        event("response.content_part.done", part=part, **at),
        event("response.output_item.done", output_index=0, item={**item, "content": [part]}),
        event(
            "response.completed",
            response={
                **response,
                "status": "completed",
                "output": [{**item, "content": [part]}],
                "usage": usage,
            },
        ),
    ]
