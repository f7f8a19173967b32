"""Roles as real processes that are killed while tools run: one result a call, one end, and the same bytes for everybody.

A scripted model asks for five calls at once, which a real MCP server and a search endpoint answer when the test says
so; every process is `respool serve --role …`, the store is a real server.
"""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from respool.replica import Replica
from streams.store import Store
from tests.frames import frame_of, frames
from tests.ingest.made import entries
from tests.ingest.server import serving as upstream_serving
from tests.respool.errands import (
    ALL_CALLS,
    CALLS,
    HIT,
    MAY_REPEAT,
    Engine,
    Gates,
    Model,
    Tools,
    results_of,
)
from tests.respool.processes import all_of, get, replica, streaming
from tests.translator import laws
from tests.wait import wait_until
from tests.workers.team import recomputed
from tests.workers.tools.mcp_server import serving as mcp_serving
from tests.workers.tools.search_server import searching
from translator.protocol.entries import Kind
from workers.tools.session import loaded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(90),
    pytest.mark.parametrize("store_url", ["valkey"], indirect=True),
]

DONE = b"data: [DONE]\n\n"
LEASE_S = 2.0
"""Others run beside: whoever lives must come to renew it, however busy the machine is."""
SOON_S = 15.0
"""A machine of one core that starts a process meanwhile; what is to be fast has bounds of its own."""
WRITES = tuple(place for place in ALL_CALLS if place not in MAY_REPEAT)


@dataclass
class Scene:
    """All that the processes meet, and the ways to look at it."""

    folder: Path
    store: Store
    model: Model
    tools: Tools
    engine: Engine
    gates: Gates
    settings: dict[str, str]
    _stack: AsyncExitStack
    replicas: list[Replica] = field(default_factory=list)

    async def start(self, *roles: str, **settings: str) -> Replica:
        """A process that is ready."""
        (made,) = await self.start_all(roles, **settings)
        return made

    async def start_all(self, *crews: tuple[str, ...], **settings: str) -> list[Replica]:
        """Processes that are ready, one a crew; they end with the scene."""
        made = [replica(self.folder, *roles, **{**self.settings, **settings}) for roles in crews]
        for one in made:
            self._stack.push_async_callback(one.stop)
        await all_of(*(one.start() for one in made))
        await all_of(*(one.ready() for one in made))
        return made

    def request(self, tag: str) -> dict[str, Any]:
        """Five calls at once."""
        server = {
            "type": "mcp",
            "server_label": "files",
            # Lists are kept for a while: each response asks for its own.
            "server_url": f"{self.tools.url}?{tag}",
            "require_approval": "never",
        }
        return {
            "model": "m",
            "input": tag,
            "stream": True,
            "tools": [{"type": "web_search"}, server],
            "parallel_tool_calls": True,
            "include": ["web_search_call.action.sources"],
        }

    async def ask(self, door: Replica, tag: str) -> bytes:
        """A new response's whole stream, read live."""
        async with streaming(door.url, **self.request(tag)) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.read()

    async def results(self, rid: str) -> dict[str, dict[str, Any]]:
        """The results in the input log; no call may have two."""
        found = [e for e in await entries(self.store, rid) if e.kind == Kind.TOOL_RESULT]
        read = [json.loads(entry.data) for entry in found]
        by_key = {result["key"]: result for result in read}
        assert len(by_key) == len(read), "a call has two results"
        return by_key

    async def rids(self) -> dict[str, str]:
        """The responses that there are, by their tags."""
        pattern = f"{self.settings['NAMESPACE']}:*:st"
        found = {}
        for key in await self.store.connections.command("KEYS", pattern):
            rid = re.search(r"resp_[0-9a-f]{32}", key.decode())[0]
            (first,) = await self.store.logs.read_input(rid, 0, 1)
            found[json.loads(first.data)["input"][0]["content"][0]["text"]] = rid
        return found

    async def has_results(self, rid: str, count: int) -> bool:
        """Whether the log has so many."""
        return len(await self.results(rid)) == count

    async def settled(self, rid: str, results: int) -> bool:
        """Whether the log has so many results, and the client all that follows from them."""
        if not await self.has_results(rid, results):
            return False
        state = await self.store.logs.state(rid)
        return state.seq + 1 == len(await recomputed(self.store, rid))


@pytest.fixture
async def scene(store_url, namespace, tmp_path) -> AsyncIterator[Scene]:
    async with setting(store_url, namespace, tmp_path) as made:
        yield made


@asynccontextmanager
async def setting(store_url: str, namespace: str, folder: Path) -> AsyncIterator[Scene]:
    await loaded()
    gates = Gates()
    async with (
        Store.open(store_url, namespace) as store,
        upstream_serving(Model(gates)) as model,
        mcp_serving(Tools(gates)) as tools,
        searching(Engine(gates)) as engine,
        AsyncExitStack() as stack,
    ):
        settings = {
            "REDIS_URL": store_url,
            "NAMESPACE": namespace,
            "UPSTREAM_URL": model.url,
            "MCP_ALLOWED_HOSTS": tools.host,
            "WEB_SEARCH_PROVIDER": "searxng",
            "WEB_SEARCH_URL": engine.url,
            "LEASE_S": str(LEASE_S),
        }
        yield Scene(folder, store, model, tools, engine, gates, settings, stack)


def frames_of(stream: bytes) -> list[bytes]:
    """The frames of a whole stream."""
    assert stream.endswith(DONE)
    return [frame_of(block) for block in stream.removesuffix(DONE).split(b"\n\n")[:-1]]


def id_of(stream: bytes) -> str:
    return laws.parse(frames_of(stream)[0])["response"]["id"]


def ended(stream: bytes) -> dict[str, Any]:
    """The response at the end of a stream that keeps the laws."""
    events = [laws.parse(frame) for frame in frames_of(stream)]
    laws.check(events)
    laws.gateway(events)
    return events[-1]["response"]


def anonymous(stream: bytes, tag: str) -> bytes:
    """The stream without what differs between responses: ids, times, the tag."""
    names: dict[bytes, bytes] = {}

    def numbered(found: re.Match[bytes]) -> bytes:
        return names.setdefault(found[0], b"%s_<%d>" % (found[1], len(names)))

    stream = re.sub(rb"\b([a-z]+)_[0-9a-f]{32,}\b", numbered, stream)
    stream = re.sub(rb'"(created|completed)_at":\d+', rb'"\1_at":0', stream)
    return stream.replace(tag.encode(), b"TAG")


async def begun(scene: Scene, *tags: str) -> None:
    """Wait until all calls of these responses run."""
    await wait_until(
        lambda: all(scene.gates.times(tag) == [1] * len(CALLS) for tag in tags), SOON_S
    )


GAPS = {
    f"gap-{done}-{way}": places[:done]
    for done in range(len(CALLS) + 1)
    for way, places in (("up", ALL_CALLS), ("down", ALL_CALLS[::-1]))
}
"""A response for each place between two results, which arrive from the first call on or from the last one."""
EVERY_CURSOR = ("calm", "gap-2-up", "gap-3-down")


async def test_a_translator_that_is_killed_between_any_two_results_changes_no_byte(scene: Scene):
    """One process is killed while a response stands at each of these places; another one ends them all."""
    home, first = await scene.start_all(("api", "ingest", "tools"), ("translate",))
    scene.gates.open("calm")
    calm = await asyncio.wait_for(scene.ask(home, "calm"), SOON_S)
    reading = {tag: asyncio.create_task(scene.ask(home, tag)) for tag in GAPS}
    await begun(scene, *GAPS)
    rids = await scene.rids()
    for count in range(1, len(CALLS) + 1):
        for tag, places in GAPS.items():
            scene.gates.open(tag, places[:count])
        for tag, places in GAPS.items():
            await wait_until(lambda t=tag, p=places[:count]: scene.settled(rids[t], len(p)), SOON_S)
    other = await scene.start("api", "translate")
    first.signal(signal.SIGSTOP)
    for tag, places in GAPS.items():
        if tag.endswith("down"):  # these get a result more that nobody has translated
            scene.gates.open(tag, ALL_CALLS[::-1][: len(places) + 1])
            await wait_until(
                lambda t=tag, p=places: scene.has_results(rids[t], min(len(p) + 1, len(CALLS))),
                SOON_S,
            )
    await first.kill()
    for tag in GAPS:
        scene.gates.open(tag)
    async with asyncio.timeout(LEASE_S + SOON_S):
        streams = {tag: await task for tag, task in reading.items()}
    for tag, stream in {"calm": calm, **streams}.items():
        rid = id_of(stream)
        whole = frames_of(stream)
        assert whole == await recomputed(scene.store, rid), "the log folds to what was read"
        assert ended(stream)["status"] == "completed"
        assert set(await scene.results(rid)) == {f"1.{n + 1}" for n in ALL_CALLS}
        assert scene.gates.times(tag) == [1] * len(CALLS), "no call has run again"
        assert len(scene.model.asked(tag)) == 2, "no round was asked for twice"
        assert anonymous(stream, tag) == anonymous(calm, "calm")
        cursors = range(-1, len(whole)) if tag in EVERY_CURSOR else (-1, 0, len(whole) - 1)
        await resumable(other, rid, whole, cursors)


async def resumable(door: Replica, rid: str, whole: list[bytes], cursors: Iterable[int]) -> None:
    """From these cursors the rest comes, byte for byte."""
    async with aiohttp.ClientSession() as session:
        for cursor in cursors:
            after = {"starting_after": str(cursor)} if cursor >= 0 else {}
            async with session.get(
                f"{door.url}/v1/responses/{rid}", params={"stream": "true", **after}
            ) as answer:
                assert await answer.read() == b"".join(whole[cursor + 1 :]) + DONE


async def test_a_tool_worker_that_is_killed_in_the_middle_of_five_calls_costs_none_its_result(
    scene: Scene,
):
    """What only reads is run again by the other worker, what may have written fails, and what was done stays."""
    home, first = await scene.start_all(("api", "ingest", "translate"), ("tools",))
    reading = {tag: asyncio.create_task(scene.ask(home, tag)) for tag in ("all", "some")}
    await begun(scene, *reading)
    rids = await scene.rids()
    scene.gates.open("some", (1, 2))
    await wait_until(lambda: scene.settled(rids["some"], 2), SOON_S)
    second = await scene.start("tools")
    await first.kill()
    for tag in reading:
        scene.gates.open(tag)
    async with asyncio.timeout(LEASE_S + SOON_S):
        streams = {tag: await task for tag, task in reading.items()}
    assert scene.gates.times("all") == [2, 2, 1, 2, 1]
    assert scene.gates.times("some") == [2, 1, 1, 2, 1]
    assert 'calls_total{ok="true",tool="mcp"} 3' in (await get(second.url, "/metrics"))[1]
    for tag, lost in (("all", WRITES), ("some", (4,))):
        await one_result_a_call(scene, tag, streams[tag], lost, "The worker that ran this call")


async def test_a_tool_worker_that_was_stopped_past_its_lease_adds_nothing(scene: Scene):
    """It wakes with five results in its hands, when each call has one and the response still runs."""
    home, first = await scene.start_all(("api", "ingest", "translate"), ("tools",))
    reading = asyncio.create_task(scene.ask(home, "late"))
    await begun(scene, "late")
    rid = (await scene.rids())["late"]
    await scene.start("tools")
    first.signal(signal.SIGSTOP)
    scene.gates.open("late", ALL_CALLS)
    await wait_until(lambda: scene.has_results(rid, len(CALLS)), SOON_S)
    assert scene.gates.times("late") == [2, 2, 1, 2, 1]
    first.signal(signal.SIGCONT)
    await wait_until(lambda: through_with(first, len(CALLS) + 1), SOON_S)  # the list is one, too
    scene.gates.open("late")
    stream = await asyncio.wait_for(reading, SOON_S)
    await one_result_a_call(scene, "late", stream, WRITES, "The worker that ran this call")


async def through_with(worker: Replica, jobs: int) -> bool:
    """Whether a worker has no more to do for so many jobs, whatever became of them."""
    text = (await get(worker.url, "/metrics"))[1]
    ended = re.findall(r"^respool_tool_calls(?:_dropped)?_total\S* (\d+)$", text, re.MULTILINE)
    return sum(map(int, ended)) == jobs


async def test_a_tool_worker_that_is_ended_hands_over_what_only_reads(scene: Scene):
    """Long before its lease is over: the process says goodbye to its calls."""
    home = await scene.start("api", "ingest", "translate")
    first = await scene.start("tools", LEASE_S="60", DRAIN_S="0.1")
    reading = asyncio.create_task(scene.ask(home, "ended"))
    await begun(scene, "ended")
    second = await scene.start("tools")
    first.signal(signal.SIGTERM)
    assert await first.wait() == 0
    await wait_until(lambda: scene.gates.times("ended") == [2, 2, 1, 2, 1], SOON_S)
    scene.gates.open("ended")
    stream = await asyncio.wait_for(reading, SOON_S)
    assert 'calls_total{ok="true",tool="mcp"} 2' in (await get(second.url, "/metrics"))[1]
    await one_result_a_call(scene, "ended", stream, WRITES, "was stopped")


async def test_the_only_process_that_is_killed_is_succeeded_by_the_next(scene: Scene):
    """All roles die at once; what the client has read and what it gets from the next process are one stream."""
    first = await scene.start()
    seen: list[bytes] = []

    async def read() -> None:
        async with streaming(first.url, **scene.request("killed")) as answer:
            incoming = frames(answer)
            while True:
                seen.append(await anext(incoming))

    reading = asyncio.create_task(read())
    await begun(scene, "killed")
    await first.kill()
    with pytest.raises(aiohttp.ClientPayloadError):
        await reading
    other = await scene.start()
    scene.gates.open("killed")
    rid = laws.parse(seen[0])["response"]["id"]
    path = f"/v1/responses/{rid}?stream=true&starting_after={len(seen) - 1}"
    status, rest = await asyncio.wait_for(get(other.url, path), LEASE_S + SOON_S)
    assert status == 200
    assert scene.gates.times("killed") == [2, 2, 1, 2, 1]
    stream = b"".join(seen) + rest.encode()
    await one_result_a_call(scene, "killed", stream, WRITES, "The worker that ran this call")
    await resumable(other, rid, frames_of(stream), range(-1, len(frames_of(stream))))


async def one_result_a_call(
    scene: Scene, tag: str, stream: bytes, lost: tuple[int, ...], why: str
) -> None:
    """The laws of a response some of whose calls were lost: in the log, to the model, to the client."""
    rid = id_of(stream)
    assert frames_of(stream) == await recomputed(scene.store, rid)
    results = await scene.results(rid)
    assert set(results) == {f"1.{place + 1}" for place in ALL_CALLS}
    failed = {key for key, result in results.items() if not result["ok"]}
    assert failed == {f"1.{place + 1}" for place in lost}
    response = ended(stream)
    assert response["status"] == "completed"
    items = [i for i in response["output"] if i["type"] in ("web_search_call", "mcp_call")]
    told = results_of(scene.model.asked(tag)[1])
    assert len(items) == len(told) == len(CALLS)
    for place, (item, content) in enumerate(zip(items, told, strict=True)):
        assert item["status"] == ("failed" if place in lost else "completed")
        if place in lost:
            assert why in json.loads(content)["error"]
            assert why in item["error"]["message"]
        elif item["type"] == "mcp_call":
            assert content == item["output"] == ("read it" if place in MAY_REPEAT else "wrote it")
        else:
            assert HIT["content"] in content
            assert item["action"]["sources"] == [{"type": "url", "url": HIT["url"]}]
