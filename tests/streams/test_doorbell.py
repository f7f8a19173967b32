"""Pub/sub: rings, reference counts, reconnects."""

import asyncio

from streams.store import Store
from tests.streams.proxy import proxied
from tests.wait import wait_until


class Ring:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


async def heard_by(store: Store, channel: str) -> int:
    told = await store.connections.command("PUBSUB", "NUMSUB", channel)
    return sum(told[1::2])  # by each node of a cluster


async def test_who_subscribed_is_rung_once_the_subscription_stands_and_at_each_message(
    store, elsewhere, namespace
):
    ring, channel = Ring(), f"{namespace}:bell"
    leave = elsewhere.doorbell.subscribe(channel, ring)
    await wait_until(lambda: ring.count == 1)
    await store.connections.command("PUBLISH", channel, "x")
    await wait_until(lambda: ring.count == 2)
    await store.connections.command("PUBLISH", channel + "other", "x")
    leave()
    await wait_until(lambda: no_one_hears(store, channel))
    await store.connections.command("PUBLISH", channel, "x")
    assert (ring.count, elsewhere.doorbell.rings, elsewhere.doorbell.channels) == (2, 1, 0)


async def no_one_hears(store: Store, channel: str) -> bool:
    return await heard_by(store, channel) == 0


async def test_one_subscription_serves_all_of_a_process(store, namespace):
    one, two, channel = Ring(), Ring(), f"{namespace}:bell"
    leave_one = store.doorbell.subscribe(channel, one)
    leave_two = store.doorbell.subscribe(channel, two)
    await wait_until(lambda: one.count and two.count)
    assert await heard_by(store, channel) == 1
    leave_one()
    leave_one()
    await store.connections.command("PUBLISH", channel, "x")
    await wait_until(lambda: two.count == 2)
    assert one.count == 1
    leave_two()
    await wait_until(lambda: no_one_hears(store, channel))


async def test_many_channels_are_asked_for_together(store, namespace):
    rings = {f"{namespace}:{n}": Ring() for n in range(500)}
    leaves = [store.doorbell.subscribe(channel, ring) for channel, ring in rings.items()]
    await wait_until(lambda: all(ring.count == 1 for ring in rings.values()))
    for leave in leaves:
        leave()
    await wait_until(lambda: no_one_hears(store, f"{namespace}:499"))


async def test_after_a_reconnect_everybody_is_rung(valkey_url, aside):
    async with proxied(valkey_url) as (proxy, url), Store.open(url, aside) as store:
        ring, channel = Ring(), f"{aside}:bell"
        store.doorbell.subscribe(channel, ring)
        await wait_until(lambda: ring.count == 1)
        proxy.away = True
        proxy.cut()
        await asyncio.sleep(0.1)
        late = Ring()
        store.doorbell.subscribe(f"{aside}:late", late)
        proxy.away = False
        await wait_until(lambda: ring.count == 2 and late.count == 1)
        await store.connections.command("PUBLISH", channel, "x")
        await wait_until(lambda: ring.count == 3)
