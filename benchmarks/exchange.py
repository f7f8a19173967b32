"""One HTTP exchange on a connection of its own, as cheap as it can be: nothing is parsed but the status.

In: a base address, a method, a path, a body. Out: an `Exchange` to read from, or a `Whole` answer. Used by every client
of the benchmarks.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

READ = 1 << 16
LARGEST_HEAD = 1 << 24
"""The reader's buffer as well, so that a fast sender is not stopped at asyncio's 64 KiB."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer whose body has still to be read."""

    head: bytes
    reader: asyncio.StreamReader
    sent_ns: int
    """When the request was written, on the monotonic clock."""

    @property
    def status(self) -> int:
        """The answer's status."""
        return int(self.head.split(b" ", 2)[1])


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer that was read to its end; times in s from the request to the body's first byte and its last."""

    status: int
    body: bytes
    first_s: float
    last_s: float


@asynccontextmanager
async def exchange(base: str, method: str, path: str, body: bytes = b"") -> AsyncIterator[Exchange]:
    """Connect, ask and read the head; the connection is closed at the end of the block."""
    url = urlsplit(base)
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=LARGEST_HEAD)
    sent = time.monotonic_ns()
    writer.write(
        f"{method} {url.path}{path} HTTP/1.1\r\nhost: {url.netloc}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    try:
        yield Exchange(await reader.readuntil(b"\r\n\r\n"), reader, sent)
    finally:
        writer.close()


async def whole(base: str, method: str, path: str, body: bytes = b"") -> Whole:
    """One exchange to its end."""
    async with exchange(base, method, path, body) as asked:
        pieces = [await asked.reader.read(READ)]
        first = time.monotonic_ns()
        while piece := await asked.reader.read(LARGEST_HEAD):
            pieces.append(piece)
        last = time.monotonic_ns()
    raw = b"".join(pieces)
    chunked = b"\r\ntransfer-encoding: chunked" in asked.head.lower()
    return Whole(
        asked.status,
        unchunked(raw) if chunked else raw,
        (first - asked.sent_ns) / 1e9,
        (last - asked.sent_ns) / 1e9,
    )


def unchunked(raw: bytes) -> bytes:
    """The body that chunks carry."""
    pieces, at = [], 0
    while at < len(raw):
        end = raw.index(b"\r\n", at)
        size = int(raw[at:end], 16)
        pieces.append(raw[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(pieces)
