"""The due set."""

import pytest

from streams.scripts import hints
from workers.sweep import RETURN_S


async def test_what_is_due_is_taken_in_order_and_held_back_from_others(store, elsewhere):
    now = await store.logs.now()
    await store.due.enter("late", now - 1)
    await store.due.enter("early", now - 1_000)
    await store.due.enter("future", now + 60_000)
    assert await store.due.take() == ["early", "late"]
    assert await elsewhere.due.take() == []
    assert await elsewhere.due.take(now + 59_000) == ["early", "late"]


async def test_what_a_sweeper_took_and_died_with_is_given_to_another_soon(store, elsewhere):
    now = await store.logs.now()
    await store.due.enter("a", now - 1)
    assert await store.due.take(now) == ["a"]
    assert await elsewhere.due.take(now + hints.DUE_HOLD_MS - 1) == []
    assert await elsewhere.due.take(now + hints.DUE_HOLD_MS) == ["a"]
    assert RETURN_S * 1000 < hints.DUE_HOLD_MS < 5_000  # the default lease


async def test_it_is_told_when_the_next_one_is_due(store):
    assert await store.due.take() == []
    assert store.due.next_in_ms is None
    now = await store.logs.now()
    await store.due.enter("soon", now + 5_000)
    await store.due.enter("later", now + 60_000)
    assert await store.due.take(now) == []
    assert 4_000 < store.due.next_in_ms <= 5_000
    assert await store.due.take(now + 30_000) == ["soon"]  # which is held back for a while
    await store.due.drop("soon")
    await store.due.take(now)
    assert 59_000 < store.due.next_in_ms <= 60_000


async def test_a_bounded_number_is_taken(store):
    for rid in "abcde":
        await store.due.enter(rid, 1)
    assert len(await store.due.take(limit=3)) == 3
    assert len(await store.due.take()) == 2


async def test_times_may_count_from_the_servers_now(store):
    await store.due.enter("a", after_ms=60_000)
    now = await store.logs.now()
    assert await store.due.take() == []
    assert await store.due.take(now + 61_000) == ["a"]


async def test_a_time_is_needed_and_only_one(store):
    with pytest.raises(ValueError, match="either"):
        await store.due.enter("a")
    with pytest.raises(ValueError, match="either"):
        await store.due.enter("a", 1, after_ms=1)


async def test_who_is_moved_is_due_then_and_who_is_dropped_never(store):
    now = await store.logs.now()
    await store.due.enter("a", 1)
    await store.due.enter("b", 1)
    await store.due.move("a", now + 60_000)
    await store.due.drop("b")
    assert await store.due.take() == []
    assert await store.due.take(now + 61_000) == ["a"]


async def test_the_set_lives_a_month_from_its_last_use(store):
    await store.due.enter("a", 1)
    await store.due.take()
    life = await store.connections.command("PTTL", store.keys.due)
    assert 0 < life <= 30 * 24 * 3_600_000
