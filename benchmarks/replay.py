"""`python -m benchmarks.replay`: how fast a long response is folded again, and how fast it is given to one client.

Prints one table: the fold (`respool replay`), and a finished response of 10,000 frames read through `respool serve` by a
client that parses nothing, from both logs as they were written, and from packed ones. The targets are 100,000 frames/s,
150,000 frames/s and 10 ms to the first byte. Ends with status 1 if a byte differs from the fold.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlsplit

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import upstream
from benchmarks.load import READ
from respool.replica import Replica
from streams import embedded, recording
from streams.store import Store
from translator.protocol.sse import DONE
from translator.refold import Identical, compare, refold

FRAMES: Final = 10_000
TIMES: Final = 15
SEAL_S: Final = 10.0
WAIT_S: Final = 30.0
MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Figures:
    """What several runs came to: frames a second, and ms to the first byte."""

    rates: list[float]
    first_ms: list[float]


async def made(base: str) -> str:
    """A finished response of so many frames; its id."""
    asked = json.dumps({"model": f"responses:{FRAMES}:0", "input": "hi"}).encode()
    status, answer, _, _ = await ask(base, "POST", "/responses", asked)
    if status != 200:
        raise SystemExit(answer[:500].decode(errors="replace"))
    return str(json.loads(answer)["id"])


async def ask(
    base: str, method: str, path: str, asked: bytes = b""
) -> tuple[int, bytes, float, float]:
    """One request on a connection of its own: status, body, and the times in s to its first byte and its last."""
    url = urlsplit(base)
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1 << 24)
    began = time.perf_counter()
    writer.write(
        f"{method} {url.path}{path} HTTP/1.1\r\nhost: {url.netloc}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(asked)}\r\n\r\n".encode()
        + asked
    )
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        pieces = [await reader.read(READ)]
        first = time.perf_counter() - began
        while piece := await reader.read(1 << 20):
            pieces.append(piece)
        last = time.perf_counter() - began
    finally:
        writer.close()
    raw = b"".join(pieces)
    body = unchunked(raw) if b"chunked" in head.lower() else raw
    return int(head.split(b" ", 2)[1]), body, first, last


def unchunked(raw: bytes) -> bytes:
    """The body that chunks carry."""
    pieces, at = [], 0
    while at < len(raw):
        end = raw.index(b"\r\n", at)
        size = int(raw[at:end], 16)
        pieces.append(raw[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(pieces)


async def served(base: str, rid: str, expected: bytes) -> Figures:
    """Read it several times; the first one warms the connection to the store."""
    rates, firsts = [], []
    frames = expected.count(b"\nevent: ") + 1
    for _ in range(TIMES):
        _, body, first, last = await ask(base, "GET", f"/responses/{rid}?stream=true")
        rates.append(frames / last)
        firsts.append(first * MS)
        if body != expected:
            raise SystemExit("the stream is not what the fold gives")
    return Figures(rates, firsts)


def folded(found: recording.Recording) -> Figures:
    """Fold it and compare, as `respool replay` does."""
    stored = [frame.data for frame in found.frames]
    rates, firsts = [], []
    for _ in range(TIMES):
        began = time.perf_counter()
        next(refold(found.rid, found.entries))
        firsts.append((time.perf_counter() - began) * MS)
        began = time.perf_counter()
        if not isinstance(compare(refold(found.rid, found.entries), stored), Identical):
            raise SystemExit("the fold is not what was stored")
        rates.append(len(stored) / (time.perf_counter() - began))
    return Figures(rates, firsts)


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(WAIT_S):
        while not await done():  # noqa: ASYNC110 - another process: nothing to wait on
            await asyncio.sleep(0.1)


def row(table: Table, name: str, figures: Figures) -> None:
    """One line of the table."""
    table.add_row(
        name,
        f"{median(figures.rates):,.0f}",
        f"{max(figures.rates):,.0f}",
        f"{median(figures.first_ms):.1f} ms",
    )


async def main() -> int:
    """Run everything."""
    table = Table("", "frames/s, median", "best", "first byte", title=f"{FRAMES:,} frames")
    with tempfile.TemporaryDirectory(prefix="respool-bench-") as name:
        folder = Path(name)
        settings = {"RESPOOL_LOG_LEVEL": "WARNING", "RESPOOL_SEAL_AFTER_S": f"{SEAL_S}"}
        async with upstream() as base:
            settings["RESPOOL_UPSTREAM_URL"] = base
            async with Replica(folder, settings) as gateway:
                through = f"{gateway.url}/v1"
                rid = await made(through)
                async with (
                    embedded.serve(folder / ".respool") as url,
                    Store.open(url, "respool") as store,
                ):
                    found = await recording.read(store.logs, rid)
                    expected = b"".join(frame.data for frame in found.frames) + DONE
                    row(table, "fold", folded(found))
                    if found.state.sealed:
                        raise SystemExit("it was sealed too soon")
                    row(table, "one client", await served(through, rid, expected))

                    async def sealed() -> bool:
                        state = await store.logs.state(rid)
                        return state is not None and state.sealed

                    await until(sealed)
                    row(table, "one client, packed", await served(through, rid, expected))
    Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
