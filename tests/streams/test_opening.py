"""Waiting for the upstream's yes or no (`Hub.opened`)."""

import asyncio

import pytest

from streams.faults import Gone, StoreAway
from streams.opening import Opened, Refusal
from streams.store import Store
from tests.streams.proxy import proxied
from tests.streams.rig import Rig
from tests.wait import wait_until

OPENED = ("opened", b'{"status":200}')
REFUSED = ("round_end", b'{"how":"http","error":{"status":404}}')
REFUSAL = Refusal({"how": "http", "error": {"status": 404}})


def start(store: Store, rid: str, timeout_s: float = 5.0) -> "asyncio.Task[object]":
    return asyncio.create_task(store.hub.opened(rid, timeout_s))


async def test_what_was_said_before_is_told_at_once(store):
    yes, no = await Rig(store).running(), await Rig(store).running()
    await yes.append(1, OPENED)
    await no.append(1, REFUSED)
    assert await store.hub.opened(yes.rid, 5) == Opened()
    assert await store.hub.opened(no.rid, 5) == REFUSAL


@pytest.mark.parametrize(("item", "outcome"), [(OPENED, Opened()), (REFUSED, REFUSAL)])
async def test_a_process_elsewhere_hears_it_by_the_doorbell(rig, elsewhere, item, outcome):
    await rig.running()
    opening = start(elsewhere, rig.rid)
    await wait_until(lambda: elsewhere.doorbell.channels == 1)
    await rig.append(1, item)
    assert await opening == outcome
    assert elsewhere.doorbell.channels == 0


async def start_where_it_runs(rig: Rig) -> "asyncio.Task[object]":
    """The wait begins in the process that then takes up the round."""
    rig.store.work.register("rounds", lambda _: True)
    await rig.running()
    opening = start(rig.store, rig.rid)
    await asyncio.sleep(0)
    rig.store.handover.begin_ingesting(rig.rid)
    return opening


async def test_inside_one_process_the_word_of_its_ingest_is_enough(rig):
    store = rig.store
    opening = await start_where_it_runs(rig)
    store.handover.publish_input(rig.rid, [rig.claimed.entry])
    store.handover.publish_opened(rig.rid)  # and nothing is in the log yet
    assert await opening == Opened()
    assert store.doorbell.channels == 0


async def test_inside_one_process_a_refusal_is_handed_over(rig):
    store = rig.store
    opening = await start_where_it_runs(rig)
    result = await rig.append(1, REFUSED)
    store.handover.publish_input(rig.rid, result.entries(rig.claimed, [REFUSED]))
    assert await opening == REFUSAL
    assert store.doorbell.channels == 0


async def test_where_ingest_ends_here_the_doorbell_takes_over(rig, elsewhere):
    store = rig.store
    store.work.register("rounds", lambda _: True)
    await rig.create()
    store.handover.begin_ingesting(rig.rid)
    opening = start(store, rig.rid)
    await asyncio.sleep(0)
    assert store.doorbell.channels == 0
    store.handover.end_ingesting(rig.rid)
    await wait_until(lambda: store.doorbell.channels == 1)
    there = Rig(elsewhere, rig.rid)
    await there.claim()
    await there.append(1, OPENED)
    assert await opening == Opened()


async def test_a_lost_bell_costs_no_more_than_the_poll(rig, elsewhere):
    await rig.running()
    opening = start(elsewhere, rig.rid)
    await wait_until(lambda: elsewhere.doorbell.rings or elsewhere.doorbell.channels)
    await rig.store.connections.command("HSET", rig.keys.state(rig.rid), "opened", 1)
    async with asyncio.timeout(1.5):
        assert await opening == Opened()


async def test_a_response_that_ended_without_opening_has_its_end_in_the_stream(rig):
    await rig.finished()
    assert await rig.store.hub.opened(rig.rid, 5) == Opened()


async def test_time_may_be_over_first(rig):
    await rig.create()
    assert await rig.store.hub.opened(rig.rid, 0.05) is None
    assert rig.store.doorbell.channels == 0


async def test_a_response_that_is_not_there_is_gone(store):
    with pytest.raises(Gone):
        await store.hub.opened("resp_" + "0" * 32, 5)


async def test_a_store_that_is_away_is_told(valkey_url, aside):
    async with (
        proxied(valkey_url) as (proxy, url),
        Store.open(url, aside, retry_for_s=0.05) as store,
    ):
        proxy.away = True
        proxy.cut()
        with pytest.raises(StoreAway):
            await store.hub.opened("resp_" + "0" * 32, 5)
