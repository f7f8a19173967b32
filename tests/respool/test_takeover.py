"""How long a reader waits when the process that translates its response goes: told, or killed.

A machine that is busy with something else makes any single wait longer, so several are measured and the shortest is
held against the promise; all of them against what would be a failure of another kind.
"""

import asyncio
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import pytest

from respool import demo_upstream
from respool.demo_upstream import serving
from tests.frames import frames
from tests.respool.processes import replica, streaming
from tests.wait import wait_until

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow, pytest.mark.alone]

PACE_S = 0.01
LEASE_S = 1.0
HANDED_OVER_S = 0.1
"""The promise for a process that was told to end."""
NOTICED_S = 0.1
"""What a killed one may cost beyond its lease: SOONEST_TURN_S of the sweeper, the lease, the log read again."""


class Watched:
    """One stream, and when each of its frames came."""

    def __init__(self):
        self.times = []
        self.last = b""

    async def read(self, answer):
        async for frame in frames(answer):
            self.times.append(time.monotonic())
            self.last = frame

    def longest_silence(self, since):
        """The longest one after a moment, the one that it fell into included."""
        place = next(i for i, at in enumerate(self.times) if at > since)
        return max(b - a for a, b in pairwise([since, *self.times[place:]]))

    async def goes_on(self, since):
        await wait_until(lambda: len([at for at in self.times if at > since]) > 20, 20)


@asynccontextmanager
async def deployed(tmp_path, monkeypatch, url):
    monkeypatch.setattr(demo_upstream, "PACE_S", PACE_S)
    monkeypatch.setattr(demo_upstream, "HELLO", "Hello " * 2_000)
    settings = {"UPSTREAM_URL": url, "LEASE_S": str(LEASE_S)}
    async with replica(tmp_path, "api", "ingest", **settings) as door:
        yield door, lambda: replica(tmp_path, "translate", **settings)


async def silence(watched, holder, number):
    """How long a stream is silent after its translator got a signal."""
    told = time.monotonic()
    holder.signal(number)
    await watched.goes_on(told)
    return watched.longest_silence(told)


async def test_a_successor_goes_on_at_once_when_told_and_after_the_lease_when_not(
    tmp_path, monkeypatch
):
    told, killed, processes = [], [], AsyncExitStack()
    async with (
        serving() as url,
        deployed(tmp_path, monkeypatch, url) as (door, another),
        processes,
        streaming(door.url) as answer,
    ):
        holder = await processes.enter_async_context(another())
        watched = Watched()
        reading = asyncio.create_task(watched.read(answer))
        await wait_until(lambda: len(watched.times) > 50, 20)
        for number, found in ((signal.SIGTERM, told), (signal.SIGKILL, killed)) * 2:
            successor = await processes.enter_async_context(another())
            found.append(await silence(watched, holder, number))
            holder = successor
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert min(told) < HANDED_OVER_S, told
    assert max(told) < LEASE_S / 2, told  # nobody waited for a lease to run out
    assert min(killed) < LEASE_S + NOTICED_S, killed
    assert min(killed) > LEASE_S / 2, killed  # it was waited for
