"""Real processes that are killed, stopped and ended, on a real server."""

import asyncio
import re
import signal

import pytest

from streams.store import Store
from tests.ingest.made import entries, made
from tests.ingest.server import Server, text_stream
from tests.wait import wait_until
from tests.workers.team import (
    LEASE_MS,
    begin,
    ingesting,
    lawful,
    process,
    recomputed,
    stream,
    translating,
    types,
)

pytestmark = pytest.mark.parametrize("store_url", ["valkey"], indirect=True)

A_LEASE_AND_A_LITTLE_S = LEASE_MS / 1000 + 1.0


async def committed(store: Store, rid: str, at_least: int) -> bool:
    state = await store.logs.state(rid)
    return state is not None and state.seq + 1 >= at_least


async def test_a_translator_that_is_killed_is_taken_over_within_a_lease(
    store: Store, store_url, namespace, server: Server
) -> None:
    go_on = asyncio.Event()
    blocks = text_stream(*"abcdef")
    server.play(*blocks[:5], go_on, *blocks[5:])
    async with (
        ingesting(store, server.url),
        process(store_url, namespace, server.url, "translate") as first,
    ):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 6))
        first.kill()
        go_on.set()
        async with translating(store):
            async with asyncio.timeout(A_LEASE_AND_A_LITTLE_S):
                frames = await stream(store, rid)
        assert types(frames)[-1] == "completed"
        await lawful(store, rid)
        assert [frame.data for frame in frames] == await recomputed(store, rid)


async def test_a_translator_that_was_stopped_past_its_lease_writes_nothing_more(
    store: Store, store_url, namespace, server: Server
) -> None:
    gates = [asyncio.Event() for _ in range(2)]
    blocks = text_stream(*"abcdef")
    server.play(*blocks[:5], gates[0], *blocks[5:7], gates[1], *blocks[7:])
    async with (
        ingesting(store, server.url),
        process(store_url, namespace, server.url, "translate") as first,
    ):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 6))
        first.send_signal(signal.SIGSTOP)
        gates[0].set()
        async with translating(store):
            await wait_until(lambda: committed(store, rid, 8))
            first.send_signal(signal.SIGCONT)
            gates[1].set()
            frames = await stream(store, rid)
            assert types(frames)[-1] == "completed"
            await wait_until(lambda: dropped(first, "FENCED"))
        assert [frame.data for frame in await lawful(store, rid)] == await recomputed(store, rid)


async def dropped(child: asyncio.subprocess.Process, reason: str) -> bool:
    """Whether the process has counted a translation that it gave up for this reason."""
    assert child.stdout is not None
    child.send_signal(signal.SIGUSR1)
    text = (await child.stdout.readuntil(b"respool_translations_open")).decode()
    return bool(re.search(rf'translations_dropped_total{{reason="{reason}"}} [1-9]', text))


@pytest.mark.parametrize("seen", [False, True])
async def test_an_ingest_that_is_killed_is_run_again_while_nothing_was_seen(
    store: Store, store_url, namespace, server: Server, seen: bool
) -> None:
    blocks = text_stream("a", "b")
    server.play(*blocks[: 4 if seen else 1], asyncio.Event())
    server.play(*blocks)
    async with (
        translating(store),
        process(store_url, namespace, server.url, "ingest") as first,
    ):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: log_has(store, rid, "frame"))
        if seen:
            await wait_until(lambda: committed(store, rid, 5))
        first.kill()
        async with ingesting(store, server.url), asyncio.timeout(A_LEASE_AND_A_LITTLE_S):
            frames = await stream(store, rid)
        await lawful(store, rid)
    assert types(frames)[-1] == ("failed" if seen else "completed")
    assert len(server.requests) == (1 if seen else 2)
    assert [frame.data for frame in frames] == await recomputed(store, rid)


async def log_has(store: Store, rid: str, kind: str) -> bool:
    return kind in [entry.kind for entry in await entries(store, rid)]


async def test_a_process_that_is_ended_gives_its_responses_away_at_once(
    store: Store, store_url, namespace, server: Server
) -> None:
    go_on = asyncio.Event()
    blocks = text_stream(*"abcdef")
    server.play(*blocks[:5], go_on, *blocks[5:])
    async with (
        ingesting(store, server.url),
        process(store_url, namespace, server.url, "translate") as first,
    ):
        rid = await made(store)
        await begin(store, rid)
        await wait_until(lambda: committed(store, rid, 6))
        async with translating(store):
            first.terminate()
            await wait_until(lambda: store.handover.translating(rid), 0.9 * LEASE_MS / 1000)
            assert await first.wait() == 0
            go_on.set()
            assert types(await stream(store, rid))[-1] == "completed"
            await lawful(store, rid)


async def test_a_whole_process_that_dies_leaves_no_response_without_an_end(
    store: Store, store_url, namespace, server: Server
) -> None:
    blocks = text_stream(*"abc")
    for cut in range(5):
        server.play(*blocks[:cut], asyncio.Event())
    server.play(*blocks)
    async with process(store_url, namespace, server.url, "ingest", "translate") as first:
        rids = [await made(store) for _ in range(5)]
        for number, rid in enumerate(rids, 1):
            await begin(store, rid)
            await wait_until(lambda n=number: len(server.requests) == n)
        for rid in rids:
            await wait_until(lambda rid=rid: committed(store, rid, 2))
        first.kill()
        async with translating(store), ingesting(store, server.url):
            for rid in rids:
                frames = await stream(store, rid)
                assert types(frames)[-1] in ("completed", "failed")
                assert [f.data for f in await lawful(store, rid)] == await recomputed(store, rid)
