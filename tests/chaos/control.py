"""The control: what one writes first. A consumer group, `XADD *`, an ack after processing, a reader by last id.

It lives on the same server, and whatever is done to one of our processes is done to one of its workers in the same
moment. Its feeder is never hurt. As a program (`python -m tests.chaos.control URL NAME`) this is a worker.
"""

import asyncio
import contextlib
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals

from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.chaos.fleet import LEASE_S, NUMBERS
from tests.chaos.model import PACE_S
from tests.chaos.tally import Tally
from tests.streams.proxy import Proxy, proxied
from tests.wait import wait_until

ROOT = Path(__file__).parents[2]
IN, GROUP, OUT = "naive:in", "workers", "naive:out:{}"
STREAMS = range(4)
COUNT = 10
BLOCK_MS = 100
PAUSE_S = 0.05
REST_S = 3.0
"""After the last frame was fed: what has not come out by then is lost."""


async def work(url: str, name: str) -> None:
    """Entries in, frames out, for ever."""
    client = Redis.from_url(url, socket_timeout=5)
    while True:
        with contextlib.suppress(RedisError, OSError):
            _, left, *_ = await client.xautoclaim(IN, GROUP, name, int(LEASE_S * 1000))
            new = await client.xreadgroup(GROUP, name, {IN: ">"}, count=COUNT, block=BLOCK_MS)
            for entry, fields in [*left, *(entry for _, fresh in new for entry in fresh)]:
                await client.xadd(OUT.format(int(fields[b"stream"])), fields)
                await client.xack(IN, GROUP, entry)
            continue
        await asyncio.sleep(PAUSE_S)


class Worker:
    """A worker's place, which process after process takes."""

    def __init__(self, name: str, url: str, proxy: Proxy) -> None:
        self._name = name
        self._url = url
        self.proxy = proxy
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chaos.control", self._url, self._name), cwd=ROOT
        )

    def signal(self, number: Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def end(self, number: Signals = Signals.SIGKILL) -> None:
        self.signal(number)
        if self._process is not None:
            await self._process.wait()


class Control:
    """Feeds frames, reads them, and counts."""

    def __init__(self, url: str) -> None:
        self._client = Redis.from_url(url, socket_timeout=5)
        self.workers: list[Worker] = []
        self.trial = ""
        """The name of the trial that runs."""
        self._fed: defaultdict[int, list[str]] = defaultdict(list)
        """By stream, the trial in which each frame was fed."""
        self._seen: defaultdict[int, list[int]] = defaultdict(list)

    async def feed(self, stream: int) -> None:
        while True:
            number = len(self._fed[stream])
            with contextlib.suppress(RedisError, OSError):
                await self._client.xadd(IN, {"stream": stream, "n": number})
                self._fed[stream].append(self.trial)
            await asyncio.sleep(PACE_S)

    async def read(self, stream: int) -> None:
        last = "0-0"
        while True:
            with contextlib.suppress(RedisError, OSError):
                for _, page in await self._client.xread({OUT.format(stream): last}):
                    last = page[-1][0]
                    self._seen[stream] += [int(fields[b"n"]) for _, fields in page]
            await asyncio.sleep(PACE_S)

    def whole(self) -> bool:
        return all(set(self._seen[s]) >= set(range(len(self._fed[s]))) for s in STREAMS)

    def tallies(self) -> dict[str, Tally]:
        """What became of the frames, by the trial in which they were fed."""
        found: dict[str, Tally] = defaultdict(Tally)
        for stream in STREAMS:
            trials, seen, high = self._fed[stream], set(), -1
            for trial in trials:
                found[trial].frames += 1
            for number in self._seen[stream]:
                tally = found[trials[number] if number < len(trials) else self.trial]
                tally.repeated += number in seen
                tally.disordered += number < high and number not in seen
                seen.add(number)
                high = max(high, number)
            for number in set(range(len(trials))) - seen:
                found[trials[number]].lost += 1
        return found


@asynccontextmanager
async def controlled(url: str) -> AsyncIterator[Control]:
    """A control that runs; its last frames have come, or are lost, when the block is left."""
    control = Control(url)
    await control._client.xgroup_create(IN, GROUP, mkstream=True)
    async with contextlib.AsyncExitStack() as stack:
        for number in NUMBERS:
            proxy, behind = await stack.enter_async_context(proxied(url))
            proxy.looks, proxy.losing_of = False, b"XADD"
            worker = Worker(f"worker-{number}", behind, proxy)
            stack.push_async_callback(worker.end)
            await worker.start()
            control.workers.append(worker)
        stack.push_async_callback(control._client.aclose)
        feeding = [asyncio.create_task(control.feed(stream)) for stream in STREAMS]
        reading = [asyncio.create_task(control.read(stream)) for stream in STREAMS]
        try:
            yield control
            await cancelled(feeding)
            with contextlib.suppress(AssertionError):
                await wait_until(control.whole, REST_S)
        finally:
            await cancelled([*feeding, *reading])


async def cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """A cancellation that meets the client's own time-out is lost in it: whoever goes on gets another."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.5)
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(*sys.argv[1:]))
