"""Work hints: local takers first, then anybody; lost, repeated and put-back hints."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ReadOnlyError, ResponseError

from streams.asked import Asked
from streams.scripts.hints import GROUP_NAME
from streams.store import Store
from streams.work import parse, passes
from tests.streams.proxy import proxied
from tests.wait import wait_until
from translator.protocol.errors import StoreError


class Taker:
    """Takes as many as it has room for."""

    def __init__(self, room: int = 1_000) -> None:
        self.room = room
        self.taken: list[str] = []

    def __call__(self, rid: str) -> bool:
        if self.room == 0:
            return False
        self.room -= 1
        self.taken.append(rid)
        return True


@asynccontextmanager
async def taking(store: Store, kind: str = "rounds"):
    task = asyncio.create_task(store.work.take(kind))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def length(store: Store, kind: str = "rounds") -> int:
    return await store.connections.command("XLEN", store.keys.work(kind))


async def test_a_local_taker_with_room_gets_it_without_redis(store):
    taker = Taker()
    store.work.register("rounds", taker)
    assert store.work.registered("rounds")
    calls = store.writer.calls
    store.work.offer("rounds", "a")
    assert taker.taken == [], "in the next turn, not inside the offer"
    await wait_until(lambda: taker.taken == ["a"])
    assert store.writer.calls == calls


async def test_without_a_taker_here_somebody_else_gets_it(store, elsewhere):
    taker = Taker()
    elsewhere.work.register("rounds", taker)
    async with taking(elsewhere):
        store.work.offer("rounds", "a")
        store.work.offer("rounds", "b")
        await wait_until(lambda: taker.taken == ["a", "b"])
        await wait_until(lambda: gone(store))


async def gone(store: Store) -> bool:
    return await length(store) == 0


async def test_hints_that_came_before_anybody_was_there_are_read(store):
    for rid in "abcdefghijklmnopqrst":
        store.work.offer("tools", rid)
    await store.writer.drained()
    assert await length(store, "tools") == 20
    taker = Taker()
    store.work.register("tools", taker)
    async with taking(store, "tools"):
        await wait_until(lambda: "".join(taker.taken) == "abcdefghijklmnopqrst")


async def test_what_has_no_room_here_goes_to_others(store, elsewhere):
    full, roomy = Taker(room=1), Taker()
    store.work.register("rounds", full)
    elsewhere.work.register("rounds", roomy)
    async with taking(store), taking(elsewhere):
        for rid in "abcd":
            store.work.offer("rounds", rid)
        await wait_until(lambda: len(full.taken + roomy.taken) == 4)
    assert full.taken == ["a"]
    assert sorted(roomy.taken) == ["b", "c", "d"]


async def test_taking_pauses_while_there_is_no_room_and_goes_on_when_told(store):
    taker = Taker(room=1)
    store.work.register("rounds", taker)
    async with taking(store):
        for rid in "abc":
            store.work.offer("rounds", rid)
        await wait_until(lambda: taker.taken == ["a"])
        await wait_until(lambda: waiting(store, 2))
        taker.room = 5
        store.work.room("rounds")
        await wait_until(lambda: sorted(taker.taken) == ["a", "b", "c"])


async def waiting(store: Store, count: int) -> bool:
    return await length(store) == count


async def test_who_drains_takes_nothing_more(store):
    taker = Taker()
    store.work.register("rounds", taker)
    store.work.offer("rounds", "a")
    store.work.unregister("rounds")
    store.work.room("rounds")
    store.work.offer("rounds", "b")
    await wait_until(lambda: waiting(store, 2))
    assert taker.taken == []
    assert not store.work.registered("rounds")


async def test_who_has_left_does_not_even_read_what_is_for_others(store):
    taker = Taker()
    store.work.register("rounds", taker)
    async with taking(store):
        await wait_until(lambda: group_is_there(store, store.keys.work("rounds")))
        await store.work.leave("rounds")
        calls = store.writer.calls
        store.work.offer("rounds", "a")
        await wait_until(lambda: waiting(store, 1))
        await store.work.leave("rounds")  # again: nothing is left to end
        assert store.writer.calls == calls + 1, "written once: not read and put back"
    assert taker.taken == []


async def test_a_create_is_asked_for_leases_only_by_who_has_room_for_the_work(store):
    taker, wish = Taker(room=0), Asked("token", 1_000, lambda _: None)
    assert store.work.ask("rounds", "a") is None, "nobody does such work here"
    store.work.register("rounds", taker, lambda rid: wish if rid == "a" else None)
    assert store.work.ask("rounds", "a") is wish
    assert store.work.ask("rounds", "b") is None
    store.work.offer("rounds", "c")  # no room: noted until somebody says that there is
    await wait_until(lambda: waiting(store, 1))
    assert store.work.ask("rounds", "a") is None
    store.work.room("rounds")
    assert store.work.ask("rounds", "a") is wish
    store.work.unregister("rounds")
    assert store.work.ask("rounds", "a") is None
    store.work.register("rounds", taker)
    assert store.work.ask("rounds", "a") is None, "it takes hints alone"


async def test_a_group_that_is_gone_is_made_again(store):
    taker = Taker()
    store.work.register("rounds", taker)
    key = store.keys.work("rounds")
    async with taking(store):
        await wait_until(lambda: group_is_there(store, key))
        await store.connections.command("DEL", key)
        store.work.unregister("rounds")
        store.work.offer("rounds", "a")
        store.work.register("rounds", taker)
        await wait_until(lambda: taker.taken == ["a"])


async def group_is_there(store: Store, key: str) -> bool:
    if not await store.connections.command("EXISTS", key):
        return False
    groups = await store.connections.command("XINFO", "GROUPS", key)
    return [group[1] for group in groups] == [GROUP_NAME.encode()]


async def test_the_work_stream_lives_a_week_from_its_last_use(store):
    store.work.offer("rounds", "a")
    await store.writer.drained()
    life = await store.connections.command("PTTL", store.keys.work("rounds"))
    assert 0 < life <= 7 * 24 * 3_600_000


async def test_kinds_that_do_not_exist_are_a_mistake(store):
    with pytest.raises(ValueError, match="lunch"):
        store.work.register("lunch", Taker())
    with pytest.raises(ValueError, match="lunch"):
        store.work.offer("lunch", "a")


def test_an_entry_that_was_deleted_before_it_was_read_is_no_hint():
    assert parse(None) == ([], [])
    assert parse([[b"key", [[b"1-1", None], [b"2-1", [b"r", b"a"]]]]]) == ([b"2-1"], ["a"])


async def test_taking_survives_an_outage_and_hints_lost_in_it_are_counted(valkey_url, aside):
    async with (
        proxied(valkey_url) as (proxy, url),
        Store.open(url, aside, retry_for_s=0.05) as store,
    ):
        taker = Taker()
        async with taking(store):
            store.work.register("rounds", taker)
            await wait_until(lambda: group_is_there(store, store.keys.work("rounds")))
            store.work.unregister("rounds")
            proxy.away = True
            proxy.cut()
            store.work.offer("rounds", "lost")
            await wait_until(lambda: store.work.lost_hints == 1)
            store.work.register("rounds", taker)
            await asyncio.sleep(0.05)
            proxy.away = False
            store.work.unregister("rounds")
            store.work.offer("rounds", "a")
            store.work.register("rounds", taker)
            await wait_until(lambda: taker.taken == ["a"])


async def test_a_server_that_cannot_keep_hints_is_told(store):
    await store.connections.command("SET", store.keys.work("rounds"), "x", "PX", 60_000)
    store.work.register("rounds", Taker())
    with pytest.raises(StoreError, match="refused"):
        await store.work.take("rounds")


def test_only_what_passes_by_itself_is_waited_for():
    assert passes(ResponseError("NOGROUP No such key or consumer group"))
    assert passes(ReadOnlyError("replica", status_code="READONLY"))
    assert not passes(ResponseError("WRONGTYPE Operation against a key"))
