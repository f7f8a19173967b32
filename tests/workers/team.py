"""Processes of Respool as tests need them: roles on a store, in this event loop or in a real process."""

import asyncio
import hashlib
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from ingest.role import Ingest
from ingest.run import RoundLimits
from streams.scripts.outputs import Frame
from streams.store import Store
from tests.ingest.made import RETENTION_MS, entries
from tests.wait import wait_until
from translator.machine import Machine
from translator.protocol.sse import fields
from translator.protocol.upstream import Upstream
from workers.role import Translate
from workers.seal import Sealer
from workers.translate import TranslateLimits

LEASE_MS = 1_000
GRACE_MS = 5_000
MAX_BYTES = 1 << 24
ROOT = Path(__file__).parents[2]


def round_limits(lease_ms: int = LEASE_MS) -> RoundLimits:
    return RoundLimits(lease_ms, idle_timeout_s=10, total_timeout_s=20, max_in_bytes=MAX_BYTES)


def translate_limits(lease_ms: int = LEASE_MS, max_out_bytes: int = MAX_BYTES) -> TranslateLimits:
    return TranslateLimits(lease_ms, RETENTION_MS, GRACE_MS, max_out_bytes)


@asynccontextmanager
async def ingesting(
    store: Store, url: str, lease_ms: int = LEASE_MS, **options: int
) -> AsyncIterator[Ingest]:
    upstream = Upstream("main", url, "responses")
    limits = round_limits(lease_ms)
    async with Ingest(store, lambda _: upstream, limits, **options) as role, running(role):
        yield role


@asynccontextmanager
async def translating(
    store: Store, limits: TranslateLimits | None = None, **options: int
) -> AsyncIterator[Translate]:
    limits = limits or translate_limits()
    async with Translate(store, limits, **options) as role, running(role):
        yield role


@asynccontextmanager
async def running(role: Ingest | Translate) -> AsyncIterator[None]:
    task = asyncio.create_task(role.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def begin(store: Store, rid: str) -> None:
    """What the api does once a response is made."""
    await store.due.enter(rid, after_ms=LEASE_MS)
    store.work.offer("translate", rid)
    store.work.offer("rounds", rid)


async def committed(store: Store, rid: str, at_least: int) -> bool:
    state = await store.logs.state(rid)
    return state is not None and state.seq + 1 >= at_least


async def stream(store: Store, rid: str) -> list[Frame]:
    """All frames up to the terminal one, as a reader of this process gets them."""
    frames: list[Frame] = []
    async with store.hub.open(rid, -1) as reader:
        async for more in reader:
            frames += more
    return frames


def types(frames: list[Frame]) -> list[str]:
    return [payload(frame)["type"].removeprefix("response.") for frame in frames]


def payload(frame: Frame) -> dict:
    return orjson.loads(fields(frame.data.strip(b"\n"))[1])


async def seal(store: Store, rid: str) -> None:
    """Have a finished response sealed, as the sweeper does when its time has come."""
    sealer = Sealer(store)
    working = asyncio.create_task(sealer.run())

    async def sealed() -> bool:
        return (await store.logs.state(rid)).sealed

    sealer.take(rid, await store.logs.state(rid))
    await wait_until(sealed)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def lawful(store: Store, rid: str) -> list[Frame]:
    """The committed frames, after checking what must hold of every finished response."""
    page = await store.logs.read_output(rid, -1, 100_000)
    state = await store.logs.state(rid)
    assert state is not None
    frames = page.frames
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    assert [payload(frame)["sequence_number"] for frame in frames] == list(range(len(frames)))
    assert [frame.terminal for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert (page.done, state.lease, state.ilease) == (True, 0, 0)
    assert payload(frames[-1])["response"]["status"] == page.status == state.status
    digest = hashlib.blake2b(b"".join(f.data for f in frames), digest_size=16)
    assert state.digest == digest.hexdigest()
    return frames


async def recomputed(store: Store, rid: str) -> list[bytes]:
    """The outputs as the input log alone gives them."""
    machine, frames = Machine(rid), []
    for entry in await entries(store, rid):
        frames += machine.feed(entry).frames
    return frames


@asynccontextmanager
async def process(
    store_url: str, namespace: str, upstream_url: str, *roles: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A real process with these roles, ready to work; killed at the end if it still lives."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.workers.team", store_url, namespace, upstream_url, *roles),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


async def work(store_url: str, namespace: str, upstream_url: str, *roles: str) -> None:
    """The life of such a process, until SIGTERM."""
    from contextlib import AsyncExitStack

    from streams import metrics

    term = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, term.set)
    loop.add_signal_handler(signal.SIGUSR1, lambda: say(metrics.render()))
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(Store.open(store_url, namespace))
        translate = ingest = None
        if "translate" in roles:
            translate = await stack.enter_async_context(translating(store))
        if "ingest" in roles:
            ingest = await stack.enter_async_context(ingesting(store, upstream_url))
        say("ready\n")
        await term.wait()
        if translate is not None:
            await translate.retire()
        if ingest is not None:
            await ingest.drain(0.2)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
