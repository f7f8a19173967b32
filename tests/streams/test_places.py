"""The places of open responses: exact, shared by all processes, and left by whoever ends, dies or is lost."""

import asyncio

import pytest

from streams.scripts.hints import Place, due_begin
from streams.scripts.refused import Reason, Refused
from tests.streams.rig import Rig

RUN_MS = 600_000


def place(tenant: str = "acme", *, most: int = 0, own: int = 0, run_ms: int = RUN_MS) -> Place:
    return Place(tenant, most, own, run_ms)


async def begin(store, rid: str, **fields) -> Reason | None:
    """Why there is no place, or None."""
    try:
        await store.due.begin(rid, after_ms=1_000, place=place(**fields))
    except Refused as refused:
        return refused.reason
    return None


@pytest.fixture
def one_server(store) -> None:
    """In a cluster places are in another slot than their response, and asked for before: `tests/cluster/test_places.py`."""
    if store.connections.clustered:
        pytest.skip("a place and its response are in two slots of a cluster")


async def test_there_are_as_many_as_the_bound_says_in_all_processes_together(store, elsewhere):
    assert await begin(store, "a", most=2) is None
    assert await begin(elsewhere, "b", most=2, tenant="other") is None
    assert await begin(store, "c", most=2) is Reason.FULL
    assert await begin(elsewhere, "c", most=2, tenant="third") is Reason.FULL
    await elsewhere.due.drop("a")
    assert await begin(store, "c", most=2) is None


async def test_a_tenant_has_its_own_and_others_are_served(store):
    assert await begin(store, "a", own=1) is None
    assert await begin(store, "b", own=1) is Reason.TENANT_FULL
    assert await begin(store, "b", own=1, tenant="other") is None
    await store.due.ended("a", await store.logs.now() + 60_000)
    assert await begin(store, "c", own=1) is None
    assert "a" in await store.due.take(await store.logs.now() + 61_000), "it is looked at again"


async def test_a_repeat_has_its_place_and_takes_no_second_one(store):
    for _ in range(3):
        assert await begin(store, "a", most=1, own=1) is None
    await store.due.drop("a")
    await store.due.drop("a")
    assert await begin(store, "b", most=1, own=1) is None
    assert await begin(store, "c", own=1) is Reason.TENANT_FULL


@pytest.mark.usefixtures("one_server")
async def test_who_is_refused_is_neither_due_nor_created(store):
    await begin(store, "resp_held", most=1)
    rig = Rig(store)
    begun = store.due.begin(rig.rid, after_ms=-1, place=place(most=1))
    created = store.writer.send(rig.creating(placed=True))  # in the same pipeline
    for refused in await asyncio.gather(begun, created, return_exceptions=True):
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.FULL
    assert await store.logs.state(rig.rid) is None
    assert rig.rid not in await store.due.take()


@pytest.mark.usefixtures("one_server")
async def test_a_place_and_its_response_come_in_one_exchange(store):
    rig = Rig(store)
    before = store.writer.pipelines
    begun = store.due.begin(rig.rid, after_ms=60_000, place=place(most=1))
    await asyncio.gather(begun, store.writer.send(rig.creating(placed=True)))
    assert store.writer.pipelines == before + 1
    again = await rig.create(placed=True)
    assert again.dup


async def test_a_place_lapses_where_nobody_could_see_the_end(store):
    """A store that lost the response and its due entry, as a failover may."""
    assert await begin(store, "a", own=1, run_ms=-60_000) is None
    assert await begin(store, "b", own=1) is None


async def test_a_count_does_not_outlive_the_places_it_counts(store):
    assert await begin(store, "a", own=1) is None
    await store.connections.command("DEL", store.keys.open[1])
    assert await begin(store, "b", own=1) is None
    assert await begin(store, "c", own=1) is Reason.TENANT_FULL


async def test_places_that_are_all_free_leave_nothing_but_what_is_due(store):
    for rid in ("a", "b"):
        await begin(store, rid, own=5)
        await store.due.drop(rid)
    keys = await store.connections.command("KEYS", f"*{store.keys.ns}:*")
    assert keys == []


@pytest.mark.parametrize("end", ["drop", "ended"])
async def test_an_end_without_a_place_is_an_end_all_the_same(store, end):
    await store.due.enter("a", after_ms=60_000)
    await (store.due.drop("a") if end == "drop" else store.due.ended("a", 1))
    assert await store.due.take() == ([] if end == "drop" else ["a"])


async def test_all_keys_of_places_share_the_slot_of_the_due_set(store):
    call = due_begin(store.keys, "r", after_ms=1, place=place())
    due, *others = call.command[3:7]
    assert {other.partition("{")[2].partition("}")[0] for other in others} == {due}
