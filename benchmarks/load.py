"""A load client: many streams at once, each delta's age taken when it arrives.

In: an address and a `Load`. Out: a `Figures`. It parses nothing but the stamps, so that it costs
little on a machine that also runs the gateway.
"""

import asyncio
import re
import time
from dataclasses import dataclass, field
from statistics import median
from urllib.parse import urlsplit

import orjson

STAMP = re.compile(rb'"delta":\s?"t=(\d+);"')
LONGEST_FRAME = 4096
READ = 1 << 16
LONGEST_S = 60.0
"""A run that takes so much longer than its upstream is given up."""


@dataclass(frozen=True, slots=True)
class Load:
    """So many streams at once, each of so many frames, so far apart."""

    streams: int
    frames: int
    interval_ms: float
    api: str = "responses"

    @property
    def model(self) -> str:
        """The name that tells the gateway which upstream to use, and the scripted one what to play."""
        return f"{self.api}:{self.frames}:{self.interval_ms:g}"

    @property
    def shortest_s(self) -> float:
        """How long the upstream itself takes."""
        return self.frames * self.interval_ms / 1000


@dataclass(slots=True)
class Figures:
    """What one run came to; times in milliseconds."""

    load: Load
    ages: list[float] = field(default_factory=list)
    first_bytes: list[float] = field(default_factory=list)
    frames: int = 0
    lost: int = 0
    repeated: int = 0
    disordered: int = 0
    errors: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def rate(self) -> float:
        """Frames a second over the whole run."""
        return self.frames / self.wall_s if self.wall_s else 0.0


def quantile(values: list[float], q: float) -> float:
    """A quantile, NaN of nothing."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return median(ordered) if q == 0.5 else ordered[min(len(ordered) - 1, int(len(ordered) * q))]


async def run(base: str, load: Load) -> Figures:
    """All streams of the load at once."""
    figures = Figures(load)
    began = time.monotonic()
    async with asyncio.timeout(load.shortest_s * 2 + LONGEST_S):
        await asyncio.gather(*(_stream(base, load, figures) for _ in range(load.streams)))
    figures.wall_s = time.monotonic() - began
    return figures


async def _stream(base: str, load: Load, figures: Figures) -> None:
    url = urlsplit(base)
    body = orjson.dumps({"model": load.model, "input": "hi", "stream": True})
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1 << 26)
    sent = time.monotonic_ns()
    writer.write(
        b"POST %b/responses HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\nconnection: close\r\n\r\n"
        % (url.path.encode(), url.netloc.encode(), len(body))
        + body
    )
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            figures.errors.append((await reader.read(500)).decode(errors="replace"))
            return
        await _read(reader, load, figures, sent)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        figures.errors.append(repr(error))
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader, load: Load, figures: Figures, sent: int) -> None:
    rest, stamps, first = b"", [], 0
    while chunk := await reader.read(READ):
        now = time.monotonic_ns()
        first = first or now
        rest += chunk
        end = 0
        for match in STAMP.finditer(rest):
            stamp = int(match[1])
            stamps.append(stamp)
            figures.ages.append((now - stamp) / 1e6)
            end = match.end()
        rest = rest[end:][-LONGEST_FRAME:]
    figures.first_bytes.append((first - sent) / 1e6)
    figures.frames += len(stamps)
    figures.lost += max(0, load.frames - len(set(stamps)))
    figures.repeated += len(stamps) - len(set(stamps))
    figures.disordered += stamps != sorted(stamps)
