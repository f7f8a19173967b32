"""`make bench`: the same loads on the scripted upstream alone and through `respool serve`, over both dialects.

Prints one table. Everything runs on this machine, so figures differ from one to another: compare
the lines with each other. Ends with status 1 if a frame was lost, repeated or out of order.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.load import Figures, Load, quantile, run
from respool.replica import Replica, free_port

LOADS = (Load(50, 200, 20), Load(200, 200, 20), Load(20, 2000, 0))
COLUMNS = ("", "streams", "frames/s", "took", "first byte", "age p50", "age p99", "age max", "MB")
WAIT_S = 10.0


@asynccontextmanager
async def upstream() -> AsyncIterator[str]:
    """The scripted upstream as a process of its own."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.upstream", str(port))
    )
    try:
        async with asyncio.timeout(WAIT_S):
            while not await _listens(port):  # noqa: ASYNC110 - another process: nothing to wait on
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}/v1"
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


def memory_mb(pid: int) -> float:
    """Resident memory of a process (Linux; 0 elsewhere)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def row(table: Table, name: str, figures: Figures, megabytes: float) -> None:
    """One line of the table."""
    load = figures.load
    pace = f"{1000 / load.interval_ms:g}/s" if load.interval_ms else "unpaced"
    took = f"{figures.wall_s:.2f} s"
    if load.shortest_s:
        took += f" (+{(figures.wall_s / load.shortest_s - 1) * 100:.0f} %)"
    table.add_row(
        name,
        f"{load.streams} x {load.frames}, {pace}",
        f"{figures.rate:,.0f}",
        took,
        f"{quantile(figures.first_bytes, 0.5):.1f} ms",
        *(f"{quantile(figures.ages, q):.2f} ms" for q in (0.5, 0.99, 1.0)),
        f"{megabytes:.0f}" if megabytes else "",
    )


async def main(redis_url: str | None) -> int:
    """Run every load both ways."""
    table = Table(*COLUMNS, title="age: from the upstream's send to the client's receipt")
    faults: list[str] = []
    settings = {"RESPOOL_LOG_LEVEL": "WARNING"}
    if redis_url:
        settings["RESPOOL_REDIS_URL"] = redis_url
    with tempfile.TemporaryDirectory(prefix="respool-bench-") as folder:
        async with upstream() as base:
            settings["RESPOOL_UPSTREAMS"] = json.dumps(
                [
                    {"id": api, "base_url": base, "api": api, "models": [f"{api}:*"]}
                    for api in ("responses", "chat")
                ]
            )
            async with Replica(Path(folder), settings) as served:
                through = f"{served.url}/v1"
                for api in ("responses", "chat"):  # warm: imports, connections, scripts
                    await run(through, Load(5, 20, 5, api))
                for load in LOADS:
                    for name, url, api in (
                        ("upstream alone", base, "responses"),
                        ("respool", through, "responses"),
                        ("over chat", through, "chat"),
                    ):
                        figures = await run(url, replace(load, api=api))
                        megabytes = memory_mb(served.pid) if url == through else 0.0
                        row(table, name, figures, megabytes)
                        faults += judge(name, figures)
    Console(width=120).print(table)
    for fault in faults:
        sys.stdout.write(f"{fault}\n")
    return 1 if faults else 0


def judge(name: str, figures: Figures) -> list[str]:
    """What must never be."""
    wrong = {
        "lost": figures.lost,
        "repeated": figures.repeated,
        "streams out of order": figures.disordered,
        "errors": len(figures.errors),
    }
    found = [f"{name}, {figures.load}: {count} {what}" for what, count in wrong.items() if count]
    return found + figures.errors[:1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--redis", help="a redis:// URL instead of the embedded store")
    sys.exit(uvloop.run(main(parser.parse_args().redis)))
