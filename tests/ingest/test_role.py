import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from ingest.role import Ingest
from streams import metrics
from streams.store import Store
from tests.ingest.made import made, said
from tests.ingest.server import End, Server, text_stream
from tests.ingest.test_run import LIMITS, log_has
from tests.wait import wait_until
from translator.protocol.upstream import Upstream


@asynccontextmanager
async def ingesting(store: Store, server: Server, **options: int) -> AsyncIterator[Ingest]:
    upstream = Upstream("main", server.url, "responses")
    async with Ingest(store, lambda _: upstream, LIMITS, **options) as role:
        running = asyncio.create_task(role.run())
        try:
            yield role
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_an_offer_becomes_a_round(store: Store, server: Server) -> None:
    server.play(*text_stream("a"))
    async with ingesting(store, server):
        rid = await made(store)
        store.work.offer("rounds", rid)
        await wait_until(lambda: log_has(store, rid, "round_end", 1))
        await wait_until(lambda: not store.handover.ingesting(rid))


async def test_a_hint_of_another_process_becomes_a_round(
    store: Store, store_url, namespace, server: Server
) -> None:
    server.play(*text_stream("a"))
    async with ingesting(store, server), Store.open(store_url, namespace) as other:
        rid = await made(other)
        other.work.offer("rounds", rid)
        await wait_until(lambda: log_has(store, rid, "round_end", 1))


async def test_what_has_no_room_waits_until_a_round_has_ended(store: Store, server) -> None:
    go_on = asyncio.Event()
    server.play(go_on, *text_stream("a"))
    async with ingesting(store, server, max_open=2):
        rids = [await made(store) for _ in range(5)]
        for rid in rids:
            store.work.offer("rounds", rid)
        await wait_until(lambda: len(server.requests) == 2)
        assert metrics.render().count("respool_rounds_open 2")
        assert len(server.requests) == 2
        go_on.set()
        for rid in rids:
            await wait_until(lambda rid=rid: log_has(store, rid, "round_end", 1))


async def test_this_process_says_that_it_runs_the_round_until_the_last_one_is_over(
    store: Store, server: Server
) -> None:
    server.play(*text_stream("a")[:2], End.HANG)
    async with ingesting(store, server) as role:
        rid = await made(store)
        assert role.take(rid)
        assert role.take(rid)  # a repeated hint: refused by the claim, the first goes on
        assert store.handover.ingesting(rid)
        await wait_until(lambda: log_has(store, rid, "frame", 2))
        await wait_until(lambda: len(role._rounds) == 1)
        assert store.handover.ingesting(rid)
    assert not store.handover.ingesting(rid)


async def test_a_drain_lets_rounds_end_and_takes_no_new_ones(store: Store, server) -> None:
    go_on = asyncio.Event()
    server.play(*text_stream("a")[:2], go_on, *text_stream("a")[2:])
    async with ingesting(store, server) as role:
        rid = await made(store)
        store.work.offer("rounds", rid)
        await wait_until(lambda: log_has(store, rid, "frame", 2))
        draining = asyncio.create_task(role.drain(5))
        await asyncio.sleep(0)
        late = await made(store)
        store.work.offer("rounds", late)
        go_on.set()
        await draining
        assert orjson.loads((await said(store, rid))[-1][1]) == {"how": "ok"}
        assert await said(store, late) == []


async def test_what_a_drain_cuts_off_is_lost_at_once(store: Store, server: Server) -> None:
    server.play(*text_stream("a")[:2], End.HANG)
    async with ingesting(store, server) as role:
        rids = [await made(store) for _ in range(3)]
        for rid in rids:
            store.work.offer("rounds", rid)
            await wait_until(lambda rid=rid: log_has(store, rid, "frame", 2))
        async with asyncio.timeout(1.5):
            await role.drain(0.05)
        for rid in rids:
            assert orjson.loads((await said(store, rid))[-1][1]) == {"how": "lost"}


@pytest.mark.parametrize("rounds", [0, 1])
async def test_a_drain_of_nothing_is_at_once(store: Store, server: Server, rounds: int) -> None:
    server.play(*text_stream("a"))
    async with ingesting(store, server) as role:
        for _ in range(rounds):
            role.take(await made(store))
        async with asyncio.timeout(2):
            await role.drain(60)


async def test_leaving_without_a_drain_leaves_the_lease_to_run_out(store, server) -> None:
    server.play(*text_stream("a")[:2], End.HANG)
    async with ingesting(store, server):
        rid = await made(store)
        store.work.offer("rounds", rid)
        await wait_until(lambda: log_has(store, rid, "frame", 2))
    state = await store.logs.state(rid)
    assert state is not None
    assert state.rstate == "running"
    async with asyncio.timeout(1):
        await server.requests[0].left.wait()


async def test_who_has_no_room_asks_nothing_of_a_create(store: Store, server: Server) -> None:
    async with ingesting(store, server, max_open=1) as role:
        asked = role.ask("resp_a")
        assert asked is not None
        assert role.ask("resp_b") is None
        assert store.handover.ingesting("resp_a")
        asked.answer(None)  # the response was not created
        await wait_until(lambda: not store.handover.ingesting("resp_a"))
        assert role.ask("resp_b") is not None
    assert not server.requests


async def test_an_answer_that_comes_after_the_end_is_nobodys(store: Store, server: Server) -> None:
    async with ingesting(store, server) as role:
        asked = role.ask("resp_a")
        assert asked is not None
    asked.answer(None)
    assert not store.handover.ingesting("resp_a")
