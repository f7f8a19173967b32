"""A store in trouble under a whole gateway: full, read-only, loading, killed, gone for too long."""

import asyncio
import itertools
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from streams.store import Store
from tests.api.gateway import DONE, Gateway, data_of, running, types_of
from tests.ingest.server import Server, text_stream
from tests.servers import QUIET, Served, serving
from tests.wait import wait_until

TEXT = text_stream("a", "b", "c")
AOF = (*QUIET, "--appendonly", "yes", "--appendfsync", "always", "--rdbcompression", "no")
SLOW_START = ("--key-load-delay", "10000")  # µs a key of its file
BALLAST = [(f"ballast:{n}", "x" * 200_000) for n in range(100)]
LOOKS = "loading-process-events-interval-bytes"
"""How often it looks at its clients meanwhile; before Redis 7 that was fixed at 2 MiB."""
PATIENCE_S = 1.5
"""How long an outage may last here."""


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    """A server of the test's own, with an append-only file."""
    with serving(tmp_path / "server", *AOF) as one:
        yield one


@pytest.fixture
async def own(served, upstream) -> AsyncIterator[Gateway]:
    """A gateway on it."""
    async with (
        Store.open(served.url, "trouble", retry_for_s=PATIENCE_S) as store,
        running(store, upstream, lease_s=0.5) as gateway,
    ):
        yield gateway


def loading(served: Served) -> bool:
    """Whether it says that it reads its file."""
    try:
        served.ask("PING")
    except redis.exceptions.BusyLoadingError:
        return True
    except redis.ConnectionError:
        return False
    raise AssertionError("it has read its file before anybody looked")


def playing(upstream: Server) -> asyncio.Event:
    """The upstream pauses in the middle of its text, until the event."""
    gate = asyncio.Event()
    upstream.play(*TEXT[:4], gate, *TEXT[4:])
    return gate


async def test_a_full_store_fails_what_runs_and_refuses_what_comes_until_there_is_room(
    own: Gateway, served: Served, upstream: Server
):
    gate = playing(upstream)
    async with own.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        served.ask("CONFIG", "SET", "maxmemory", "100kb")
        refused = await own.create()
        gate.set()
        *_, last, done = await live.rest()
    assert (refused.status, refused.error["code"]) == (503, "store_full")
    assert refused.error["message"] == "The store of this gateway is full."
    assert (refused.headers["retry-after"], refused.headers["retry-after-ms"]) == ("5", "5000")
    failed = data_of(last)
    assert (failed["type"], done) == ("response.failed", DONE)
    assert (await own.get(live.rid)).json == failed["response"], "kept, full as the store is"
    served.ask("CONFIG", "SET", "maxmemory", "0")
    assert (await own.made())["status"] == "completed"


async def test_creates_that_a_full_store_refuses_keep_no_place_and_say_what_is_full(
    served: Served, upstream: Server
):
    async with (
        Store.open(served.url, "trouble", retry_for_s=PATIENCE_S) as store,
        running(store, upstream, max_open=1) as gateway,
    ):
        upstream.play(*TEXT)
        served.ask("CONFIG", "SET", "maxmemory", "100kb")
        for _ in range(3):
            refused = await gateway.create()
            assert (refused.status, refused.error["code"]) == (503, "store_full")
        assert not upstream.requests
        served.ask("CONFIG", "SET", "maxmemory", "0")
        assert (await gateway.made())["status"] == "completed"


async def test_what_the_due_set_does_not_take_is_not_run(served: Served, upstream: Server):
    async with (
        Store.open(served.url, "trouble", retry_for_s=PATIENCE_S) as store,
        running(store, upstream, roles=True) as gateway,
    ):
        await store.connections.command("DEL", store.keys.due)
        await store.connections.command("SET", store.keys.due, "no set")
        upstream.play(*TEXT)
        refused = await gateway.create()
        assert refused.status == 503
        assert not upstream.requests
        assert await gateway.keys("resp_") == []


async def test_a_primary_that_is_a_replica_for_a_while_is_waited_for(
    own: Gateway, served: Served, upstream: Server
):
    gate = playing(upstream)
    async with own.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        served.ask("REPLICAOF", "127.0.0.1", 1)
        gate.set()
        creating = asyncio.ensure_future(own.create())
        await wait_until(lambda: own.store.writer.trouble_at > 0)
        assert (await own.get(live.rid)).status == 200, "it can still be read"
        served.ask("REPLICAOF", "NO", "ONE")
        assert types_of(await live.rest())[-1] == "response.completed"
    assert (await creating).json["status"] == "completed"


async def test_a_server_that_is_killed_and_loads_its_file_again_is_waited_for(
    own: Gateway, served: Served, upstream: Server
):
    gate = playing(upstream)
    async with own.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        served.ask("MSET", *itertools.chain(*BALLAST))
        looks = (f"--{LOOKS}", "65536") if served.ask("CONFIG", "GET", LOOKS) else ()
        served.ask("BGREWRITEAOF")  # of keys instead of commands
        await wait_until(lambda: not served.info("persistence")["aof_rewrite_in_progress"])
        served.kill()
        gate.set()
        await wait_until(lambda: own.store.writer.trouble_at > 0)
        served.options = (*AOF, *SLOW_START, *looks)
        served.start()
        await wait_until(lambda: loading(served))
        assert types_of(await live.rest())[-1] == "response.completed"
    assert (await own.get(live.rid)).json["status"] == "completed"
    assert (await own.ask("GET", "/readyz")).status == 200


async def test_an_outage_past_the_bound_fails_its_response_alone_and_the_gateway_goes_on(
    own: Gateway, served: Served, upstream: Server
):
    gate = playing(upstream)
    async with own.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        began = time.monotonic()
        served.kill()
        gate.set()
        reply = await own.create()
        assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
        assert PATIENCE_S - 0.5 < time.monotonic() - began < PATIENCE_S + 2
        *_, last, done = await live.rest()
    assert (data_of(last)["type"], done) == ("error", DONE), "this client is told, and may resume"
    served.start()
    await wait_until(served.answers)
    ended = await own.until(live.rid, "failed")
    frames = (await own.get(live.rid, "?stream=true")).frames
    assert types_of(frames).count("response.failed") == 1
    assert data_of(frames[-2])["response"] == ended
    upstream.plays[:] = []
    upstream.play(*TEXT)
    assert (await own.made())["status"] == "completed"


async def test_a_store_that_comes_back_without_its_last_entries_fails_the_response_clearly(
    own: Gateway, served: Served, upstream: Server, tmp_path: Path
):
    """What a failover to a replica that was behind leaves: neither side goes on with a hole, or tells a number twice."""
    first, second = asyncio.Event(), asyncio.Event()
    upstream.play(*TEXT[:4], first, TEXT[4], second, *TEXT[5:])
    async with own.creating(stream=True) as live:
        await live.until(b'"delta":"a"')
        await own.store.writer.drained()
        older = shutil.copytree(served.folder, tmp_path / "older")
        first.set()
        await live.until(b'"delta":"b"')
        served.kill()
        shutil.rmtree(served.folder)
        older.rename(served.folder)
        served.start()
        await wait_until(served.answers)
        second.set()
        seen = await live.rest()
    told = data_of(seen[-2])
    assert (told["type"], seen[-1]) == ("response.failed", DONE)
    assert told["response"]["error"]["code"] == "server_error"
    numbers = [data_of(frame)["sequence_number"] for frame in seen[:-1]]
    assert numbers == list(range(len(numbers))), "no number twice, none left out"
    assert (await own.get(live.rid)).json == told["response"]
    frames = (await own.get(live.rid, "?stream=true")).frames
    assert [data_of(frame)["sequence_number"] for frame in frames[:-1]] == numbers
    assert frames[-2:] == seen[-2:]
    upstream.plays[:] = []
    upstream.play(*TEXT)
    assert (await own.made())["status"] == "completed"
