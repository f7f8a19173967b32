"""The responses that a store holds, newest first."""

import itertools

import pytest

from streams import recent as recent_module
from streams.recent import Found, recent
from streams.store import Store
from tests.streams.rig import Rig
from translator.protocol.sse import frame

TIMES = itertools.count(1)
CREATED = frame(
    "response.created", {"type": "response.created", "response": {"id": "x", "model": "tiny"}}
)


async def made(store: Store, count: int, *, kept: bool = True, **changes) -> list[str]:
    """So many responses, newest first."""
    rigs = [Rig(store) for _ in range(count)]
    for rig in rigs:
        await rig.create(store=kept, **changes)
        await store.connections.command("HSET", rig.keys.state(rig.rid), "created", next(TIMES))
    return [rig.rid for rig in reversed(rigs)]


def ids(found: Found) -> list[str]:
    return [one.rid for one in found.responses]


async def test_the_newest_come_first_and_no_more_than_wanted(store, monkeypatch):
    monkeypatch.setattr(recent_module, "BATCH", 3)
    monkeypatch.setattr(recent_module, "STEP_KEYS", 5)
    rids = await made(store, 20)
    assert ids(await recent(store, limit=100)) == rids
    found = await recent(store, limit=4)
    assert ids(found) == rids[:4]
    assert (found.walked, found.whole) == (20, True)


async def test_of_one_tenant_or_one_status(store):
    mine, theirs = await made(store, 3), await made(store, 2, tenant="umbrella")
    assert ids(await recent(store, limit=10, tenant="umbrella")) == theirs
    assert ids(await recent(store, limit=10, tenant="nobody")) == []
    done = await Rig(store).finished()
    assert ids(await recent(store, limit=10, status="completed")) == [done.rid]
    assert set(ids(await recent(store, limit=10, tenant="acme"))) == {*mine, done.rid}


async def test_without_those_that_are_not_kept(store):
    kept = await made(store, 2)
    fleeting = await made(store, 3, kept=False)
    assert set(ids(await recent(store, limit=10))) == {*kept, *fleeting}
    assert ids(await recent(store, limit=2, stored=True)) == kept


async def test_a_response_comes_with_its_state_and_model(store):
    begun, (bare,) = await Rig(store).finished(CREATED, b"the end\n\n"), await made(store, 1)
    packed = await Rig(store).finished(CREATED, b"the end\n\n")
    await packed.seal()
    found = {one.rid: one for one in (await recent(store, limit=10)).responses}
    assert found[begun.rid].model == found[packed.rid].model == "tiny"
    assert found[begun.rid].state == await begun.state()
    assert found[bare].model == ""


async def test_other_namespaces_and_other_keys_are_not_walked(store, store_url, namespace):
    (rid,) = await made(store, 1)
    async with Store.open(store_url, f"{namespace}x") as other:
        await made(other, 2)
        assert ids(await recent(store, limit=10)) == [rid]
        await other.connections.command("SET", f"{namespace}:other", "1", "PX", 60_000)
        assert ids(await recent(store, limit=10)) == [rid]
        for one in (await recent(other, limit=10)).responses:
            await Rig(other, one.rid).delete()


@pytest.mark.parametrize("odd", ["a[b]c", "a*c", "a?c", "a\\c"])
async def test_a_namespace_is_no_pattern(store_url, namespace, odd):
    async with Store.open(store_url, f"{namespace}:{odd}") as other:
        (rid,) = await made(other, 1)
        assert ids(await recent(other, limit=10)) == [rid]
        async with Store.open(store_url, f"{namespace}:abc") as plain:
            await made(plain, 1)
            assert ids(await recent(other, limit=10)) == [rid]


async def test_a_look_is_bounded_and_says_so(store, monkeypatch):
    monkeypatch.setattr(recent_module, "MOST_WALKED", 6)
    monkeypatch.setattr(recent_module, "BATCH", 2)
    await made(store, 10)
    found = await recent(store, limit=100)
    assert (found.walked, found.whole, len(found.responses)) == (6, False, 6)


async def test_a_key_that_comes_twice_counts_once(store, monkeypatch):
    rids = await made(store, 3)
    walk = recent_module._batches

    async def twice(store):
        async for batch in walk(store):
            yield batch + batch

    monkeypatch.setattr(recent_module, "_batches", twice)
    assert ids(await recent(store, limit=2)) == rids[:2]
    assert ids(await recent(store, limit=10)) == rids
