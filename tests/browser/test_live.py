"""A response is followed while it runs, over whatever breaks: a dead process, a reload, a translator taken over."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from respool.replica import free_port
from streams.store import Store
from tests.api.tools.model import Say
from tests.browser.chromium import Browser
from tests.browser.debug import settled
from tests.browser.marks import BROWSER
from tests.frames import frames
from tests.ingest.server import Server, text_stream
from tests.ingest.server import serving as upstream_serving
from tests.respool.processes import replica, streaming

pytestmark = BROWSER

Rest = Callable[[], Awaitable[int]]
WORDS = [f"word{n} " for n in range(60)]
FRAMES = "Number(document.querySelector('#one').dataset.frames)"
MARKS = (
    "[...document.querySelectorAll('#marks button')].map(b => b.getAttribute('aria-label')).join()"
)


class Balancer:
    """One address for several processes: a connection goes to the first of them that takes it."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.tasks.add(task)
        try:
            for port in self.ports:
                try:
                    back, forth = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    continue
                await self.pass_on(reader, writer, back, forth)
                return
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            writer.close()
            self.tasks.discard(task)

    async def pass_on(self, reader, writer, back, forth) -> None:
        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while chunk := await source.read(1 << 16):
                sink.write(chunk)
                await sink.drain()

        pumps = [asyncio.create_task(pump(*pair)) for pair in ((reader, forth), (back, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in pumps:
                one.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            forth.close()


@asynccontextmanager
async def balanced(*ports: int):
    balancer = Balancer(*ports)
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(balancer.tasks):
            task.cancel()
        await asyncio.gather(*balancer.tasks, return_exceptions=True)


async def test_a_running_response_grows_before_ones_eyes(browser: Browser, rig):
    gates = [asyncio.Event() for _ in range(2)]
    rig.model.script([Say("one"), gates[0], Say("two"), gates[1], Say("three")])
    async with rig.gateway.creating(stream=True) as live:
        await live.until(b'"delta":"one"')
        await browser.open(f"{rig.gateway.url}/debug#{live.rid}")
        await browser.until("document.querySelector('#client').textContent.includes('one')")
        assert await browser.data("live") == "live"
        gates[0].set()
        await browser.until("document.querySelector('#client').textContent.includes('two')")
        await browser.until("document.querySelector('#machine').textContent.includes('two')")
        # Who goes back stays there while more comes.
        await browser.press("\ue011")
        before = await browser.js(f"return {FRAMES}")
        gates[1].set()
        await live.rest()
        await browser.until(
            f"{FRAMES} > {before} && document.querySelector('#one').dataset.live === 'ended'"
        )
        assert await browser.js("return document.querySelector('#scrubber').value") == "0"
        await browser.press("l")
        await settled(browser)
        assert "three" in await browser.text("#client")


@asynccontextmanager
async def begun(
    upstream: Server, url: str, *, after: int
) -> AsyncIterator[tuple[str, asyncio.Event, Rest]]:
    """A response of which so many events have come: its id, what lets the rest come, and what reads all its frames."""
    go, events = asyncio.Event(), text_stream(*WORDS)
    upstream.play(*events[:after], go, *events[after:])
    async with streaming(url, model="m") as stream:
        told = frames(stream)
        first = await anext(told)

        async def rest() -> int:
            """How many frames there are in all, once the response has ended."""
            return len([first, *[frame async for frame in told]]) - 1

        yield first.decode().partition('"id":"')[2].partition('"')[0], go, rest


async def test_the_death_of_its_replica_and_a_reload_lose_and_repeat_nothing(
    browser: Browser, store: Store, tmp_path: Path
):
    del store  # the processes have one of their own
    async with upstream_serving() as upstream:
        settings = {"UPSTREAM_URL": upstream.url, "DEBUG_UI": "true"}
        works = replica(tmp_path, **settings)
        answers = replica(tmp_path, "api", port=free_port(), **settings)
        async with works, answers, balanced(answers.port, works.port) as url:
            async with begun(upstream, works.url, after=20) as (rid, go, rest):
                await browser.open(f"{url}/debug#{rid}")
                await browser.until(f"{FRAMES} > 10")
                await answers.kill()
                await browser.until(f"/resumed after frame/.test({MARKS})")
                at = await browser.js(f"return {FRAMES}")
                await browser.reload()
                await browser.until(f"{FRAMES} >= {at}")
                go.set()
                whole = await rest()
            await settled(browser)
            assert await browser.js(f"return {FRAMES}") == whole
            assert "".join(WORDS) in await browser.text("#client")
            # The marks of this tab have outlived the reload.
            await browser.until(f"/connection lost after frame/.test({MARKS})")
            await browser.press("r")
            await browser.until(
                "document.querySelector('#verdict').dataset.verdict === 'identical'"
            )
            await browser.leave()
    # A connection that was cut is an error in the console, and nothing else is.
    assert all("ERR_" in said for said in await browser.console())
    browser.errors.clear()


async def test_a_translator_that_is_lost_is_a_mark(browser: Browser, store: Store, tmp_path: Path):
    del store
    async with upstream_serving() as upstream, AsyncExitStack() as stack:
        settings = {"UPSTREAM_URL": upstream.url, "DEBUG_UI": "true", "LEASE_S": "1"}
        served = replica(tmp_path, "api", "ingest", **settings)
        first, second = (
            replica(tmp_path, "translate", **settings),
            replica(tmp_path, "translate", **settings),
        )
        await stack.enter_async_context(served)
        await stack.enter_async_context(first)
        async with begun(upstream, served.url, after=20) as (rid, go, rest):
            await browser.open(f"{served.url}/debug#{rid}")
            await browser.until(f"{FRAMES} > 10")
            await first.kill()
            await stack.enter_async_context(second)
            await browser.until(f"/translator taken over/.test({MARKS})")
            go.set()
            whole = await rest()
            await settled(browser)
        assert await browser.js(f"return {FRAMES}") == whole
        assert "2, one after another" in await browser.text("#facts")
        await browser.leave()


async def test_a_lost_reader_of_the_upstream_and_the_next_attempt_are_marks(
    browser: Browser, store: Store, tmp_path: Path
):
    del store
    async with upstream_serving() as upstream, AsyncExitStack() as stack:
        settings = {"UPSTREAM_URL": upstream.url, "DEBUG_UI": "true", "LEASE_S": "1"}
        served = replica(tmp_path, "api", "translate", **settings)
        first, second = (
            replica(tmp_path, "ingest", **settings),
            replica(tmp_path, "ingest", **settings),
        )
        await stack.enter_async_context(served)
        await stack.enter_async_context(first)
        # Nothing of the round is public yet, so it may be begun again.
        async with begun(upstream, served.url, after=1) as (rid, go, rest):
            await browser.open(f"{served.url}/debug#{rid}")
            await browser.until(f"/upstream opened/.test({MARKS})")
            await first.kill()
            go.set()  # the second attempt is not held up
            await stack.enter_async_context(second)
            await rest()
            await settled(browser)
        for mark in ("upstream's reader lost", "attempt 2: ingest taken over", "completed"):
            await browser.until(f'{MARKS}.includes("{mark}")')
        await browser.leave()
