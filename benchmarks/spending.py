"""What processes and the store have spent so far, to be taken before a run and after it.

In: process ids, and a connection to the store. Out: a `Spending`; the difference of two is what a run cost.
"""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from redis.asyncio import Redis

MB = 1 << 20
READS = ("cmdstat_xrange", "cmdstat_getrange")
"""What every read of a log ends in, of one that is packed too (`streams/scripts/`)."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Processor time in s, and what the store counted; NaN where there is no store."""

    processor_s: float
    store_s: float = math.nan
    commands: float = math.nan
    """Those that scripts call included, as the server counts them."""
    bytes: float = math.nan
    """In and out on its sockets."""
    reads: float = math.nan

    def __sub__(self, before: Self) -> "Spending":
        return Spending(
            self.processor_s - before.processor_s,
            self.store_s - before.store_s,
            self.commands - before.commands,
            self.bytes - before.bytes,
            self.reads - before.reads,
        )


def processor_s(pid: int) -> float:
    """Processor time of a process's living threads so far, in s: to the ns where Linux tells, else to its tick."""
    try:
        threads = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9
    except (OSError, IndexError):
        return _ticks_s(pid)


def _ticks_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident memory of a process in MB (Linux; NaN elsewhere)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


class Meter:
    """Reads the store's own counters. Each reading costs it one command."""

    def __init__(self, client: "Redis") -> None:
        self._client = client

    async def spent(self, pids: Iterable[int]) -> Spending:
        """What these processes and the store have spent so far."""
        info = await self._client.info("all")
        return Spending(
            processor_s=sum(map(processor_s, pids)),
            store_s=processor_s(int(info["process_id"])),
            commands=float(info["total_commands_processed"]),
            bytes=float(info["total_net_input_bytes"] + info["total_net_output_bytes"]),
            reads=float(sum(calls(info, name) for name in READS)),
        )

    async def steady(self) -> None:
        """No rewrite of the append-only file from now on: one that falls into a run would be measured with it."""
        await self._client.config_set("auto-aof-rewrite-percentage", 0)


def calls(info: dict[str, Any], name: str) -> int:
    """How often the server carried out a command; 0 where it never did."""
    return int(info.get(name, {}).get("calls", 0))
