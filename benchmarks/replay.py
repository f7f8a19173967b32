"""`python -m benchmarks.replay`: how fast a long response is folded again, and how fast it is given to one client.

Prints one table: the fold (`respool replay`), and a finished response of 10,000 frames read through `respool serve` by a
client that parses nothing, from both logs as they were written, and from packed ones. The targets are 100,000 frames/s,
150,000 frames/s and 10 ms to the first byte. Ends with status 1 if a byte differs from the fold.
"""

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.exchange import whole
from benchmarks.load import Load, made
from benchmarks.process import carried_out, until
from benchmarks.upstream import running
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


async def served(base: str, rid: str, expected: bytes) -> Figures:
    """Read it several times; the first one warms the connection to the store."""
    rates, firsts = [], []
    frames = expected.count(b"\nevent: ") + 1
    for _ in range(TIMES):
        answer = await whole(base, "GET", f"/responses/{rid}?stream=true")
        rates.append(frames / answer.last_s)
        firsts.append(answer.first_s * MS)
        if answer.body != expected:
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
        async with running() as upstream:
            settings["RESPOOL_UPSTREAM_URL"] = upstream.base
            async with Replica(folder, settings) as gateway:
                through = f"{gateway.url}/v1"
                rid = await made(through, Load(1, FRAMES, 0))
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

                    await until(sealed, WAIT_S)
                    row(table, "one client, packed", await served(through, rid, expected))
    Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(carried_out(main()))
