import asyncio

import orjson

from streams import metrics
from streams.faults import StoreAway
from streams.scripts.outputs import acquire
from streams.scripts.responses import create, delete, keep
from streams.scripts.rounds import claim_round, heartbeat_round
from streams.store import Store
from tests.ingest.made import entries, made, request_data
from tests.wait import wait_until
from tests.workers.team import LEASE_MS, payload, stream, translating, types
from workers import sweep
from workers.sweep import Sweeper
from workers.verdict import LOST_GRACE_MS


class Takers:
    """What was offered to this process."""

    def __init__(self, store: Store) -> None:
        self.offers: list[tuple[str, str]] = []
        for kind in ("rounds", "translate", "tools"):
            store.work.register(kind, lambda rid, kind=kind: self.take(kind, rid))

    def take(self, kind: str, rid: str) -> bool:
        self.offers.append((kind, rid))
        return True


async def due_at(store: Store, rid: str) -> float | None:
    score = await store.connections.command("ZSCORE", store.keys.due, rid)
    return None if score is None else float(score)


async def swept(store: Store, rid: str, sweeper: Sweeper | None = None) -> None:
    """One look at a response, now."""
    await store.due.enter(rid, after_ms=-1)
    assert await (sweeper or Sweeper(store, lease_ms=LEASE_MS)).turn() == 1
    await asyncio.sleep(0)  # offers are given in the next turn


async def test_nothing_due_is_nothing_to_do(store: Store) -> None:
    rid = await made(store)
    await store.due.enter(rid, after_ms=60_000)
    assert await Sweeper(store, lease_ms=LEASE_MS).turn() == 0


async def test_what_nobody_took_is_offered_again_and_looked_at_after_a_lease(store) -> None:
    takers, rid = Takers(store), await made(store)
    await swept(store, rid)
    assert sorted(takers.offers) == [("rounds", rid), ("translate", rid)]
    now = await store.logs.now()
    at = await due_at(store, rid)
    assert at is not None
    assert now < at <= now + LEASE_MS


async def test_what_is_in_good_hands_is_looked_at_when_its_lease_ends(store: Store) -> None:
    takers, rid = Takers(store), await made(store)
    await store.writer.do(acquire(store.keys, rid, token="t", lease_ms=700))
    await store.writer.do(claim_round(store.keys, rid, round=1, token="t", lease_ms=900))
    await swept(store, rid)
    assert takers.offers == []
    state = await store.logs.state(rid)
    assert state is not None
    assert await due_at(store, rid) == state.lease


async def test_a_lease_that_runs_out_is_noticed_when_it_does_and_not_at_the_next_turn(
    store: Store, monkeypatch
) -> None:
    monkeypatch.setattr(sweep, "TURN_S", 60.0)
    takers, rid = Takers(store), await made(store)
    await store.writer.do(acquire(store.keys, rid, token="t", lease_ms=400))
    await store.writer.do(claim_round(store.keys, rid, round=1, token="t", lease_ms=60_000))
    await store.due.enter(rid, after_ms=100)  # the first look finds the lease alive
    sweeping = asyncio.create_task(Sweeper(store, lease_ms=LEASE_MS).run())
    await wait_until(lambda: takers.offers)
    now, state = await store.logs.now(), await store.logs.state(rid)
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    assert takers.offers == [("translate", rid)]
    assert state is not None
    assert 0 <= now - state.lease < 250  # SOONEST_TURN_S, and a busy machine


async def test_a_dead_attempt_is_lost_and_handed_over_as_such(store: Store) -> None:
    takers, rid = Takers(store), await made(store)
    await store.writer.do(claim_round(store.keys, rid, round=1, token="t", lease_ms=1))
    await wait_until(lambda: ilease_over(store, rid))
    heard: list = []

    class Follower:
        def entries_appended(self, entries) -> None:
            heard.extend(entries)

        def upstream_opened(self) -> None:
            pass

        def ingesting_changed(self) -> None:
            pass

    store.handover.subscribe_input(rid, Follower())
    await swept(store, rid)
    last = (await entries(store, rid))[-1]
    assert (last.kind, orjson.loads(last.data)) == ("round_end", {"how": "lost"})
    assert heard == [last]
    assert takers.offers == [("translate", rid)]
    await swept(store, rid)
    assert (await entries(store, rid))[-1] == last


async def ilease_over(store: Store, rid: str) -> bool:
    state = await store.logs.state(rid)
    return state is not None and state.ilease + LOST_GRACE_MS < await store.logs.now()


async def test_a_round_whose_lease_ran_out_while_the_store_was_away_is_not_lost(
    store: Store,
) -> None:
    """Its ingest was away from the store as well, and comes back within its pause."""
    rid = await made(store)
    claim = await store.writer.do(claim_round(store.keys, rid, token="a", lease_ms=1))
    await store.due.enter(rid, after_ms=-1)
    store.writer.trouble_at = asyncio.get_running_loop().time()
    turn = asyncio.create_task(Sweeper(store, lease_ms=LEASE_MS).turn())
    await wait_until(lambda: taken(store, rid))
    call = heartbeat_round(store.keys, rid, fence=claim.fence, lease_ms=60_000)
    await store.writer.do(call)
    assert await turn == 1
    assert "round_end" not in [entry.kind for entry in await entries(store, rid)]


async def taken(store: Store, rid: str) -> bool:
    """Whether a sweeper has it in hand."""
    return (await due_at(store, rid) or 0) > await store.logs.now()


async def test_a_response_past_its_deadline_is_ended(store: Store) -> None:
    rid = await made(store, run_ms=1)
    async with translating(store):
        store.work.offer("translate", rid)
        await store.due.enter(rid, after_ms=10)
        frames = await stream(store, rid)
    assert types(frames)[-1] == "failed"
    assert [entry.kind for entry in await entries(store, rid)].count("cancel") == 1


async def test_an_unstored_response_without_readers_is_cancelled(store: Store) -> None:
    rid = await made(store, store=False)
    await store.writer.do(keep(store.keys, rid, reader="r", lease_ms=60_000, grace_ms=100))
    sweeper = Sweeper(store, lease_ms=LEASE_MS)
    await swept(store, rid, sweeper)
    assert "cancel" not in [entry.kind for entry in await entries(store, rid)]
    past = await store.logs.now() - 20_000
    await store.connections.command("HSET", store.keys.state(rid), "reader", 1, "created", past)
    await swept(store, rid, sweeper)
    last = (await entries(store, rid))[-1]
    assert (last.kind, orjson.loads(last.data)) == ("cancel", {"reason": "abandoned"})
    async with translating(store):
        store.work.offer("translate", rid)
        frames = await stream(store, rid)
    assert payload(frames[-1])["response"]["status"] == "cancelled"


async def test_a_finished_response_leaves_the_due_set(store: Store) -> None:
    rid = await made(store, run_ms=1)
    async with translating(store):
        await store.due.enter(rid, after_ms=1)
        store.work.offer("translate", rid)
        await stream(store, rid)
        await wait_until(lambda: gone_from_due(store, rid))
    await swept(store, rid)
    assert await due_at(store, rid) is None


async def gone_from_due(store: Store, rid: str) -> bool:
    return await due_at(store, rid) is None


async def test_one_that_is_not_there_yet_is_looked_at_again_until_the_grace_is_over(
    store: Store, monkeypatch
) -> None:
    rid = "resp_" + "a" * 32
    sweeper = Sweeper(store, lease_ms=LEASE_MS)
    await swept(store, rid, sweeper)
    assert await due_at(store, rid) is not None
    monkeypatch.setattr(sweep, "MISSING_GRACE_MS", 0)
    await swept(store, rid, sweeper)
    assert await due_at(store, rid) is None
    assert sweeper._missing == {}


async def test_one_that_came_late_is_as_any_other(store: Store) -> None:
    rid = "resp_" + "a" * 32
    sweeper, takers = Sweeper(store, lease_ms=LEASE_MS), Takers(store)
    await swept(store, rid, sweeper)
    await store.writer.do(
        create(
            store.keys,
            rid,
            tenant="",
            store=True,
            background=False,
            request_data=request_data(rid),
            round_body=b"{}",
            run_ms=60_000,
            retention_ms=60_000,
        )
    )
    await swept(store, rid, sweeper)
    assert ("translate", rid) in takers.offers
    assert sweeper._missing == {}


async def test_what_changes_under_the_sweeper_is_looked_at_another_time(store, caplog) -> None:
    """A response that is deleted between the look and the deed; a store that is away."""
    rid = await made(store, run_ms=1)
    sweeper = Sweeper(store, lease_ms=LEASE_MS)
    state = await store.logs.state(rid)
    assert state is not None
    await store.writer.do(delete(store.keys, rid))

    class Late:
        def __init__(self, answer) -> None:
            self.answer = answer

        async def state(self, _: str):
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    import dataclasses

    now = await store.logs.now() + 10
    sweeper._store = dataclasses.replace(store, logs=Late(state))
    await sweeper._look(rid, now)
    assert caplog.text == ""
    sweeper._store = dataclasses.replace(store, logs=Late(StoreAway("away")))
    await sweeper._look(rid, now)
    assert "could not be looked at" in caplog.text


async def test_trouble_with_the_store_does_not_end_the_sweeper(
    store_url, namespace, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(sweep, "TURN_S", 0.01)
    async with Store.open(store_url, namespace, retry_for_s=0.0) as store:
        rid = await made(store)
        sweeping = asyncio.create_task(Sweeper(store, lease_ms=LEASE_MS).run())
        before = metrics.value("sweeps_total")
        take, failing = store.due.take, []

        async def broken(*_: object) -> list[str]:
            failing.append(1)
            raise StoreAway("away")

        monkeypatch.setattr(store.due, "take", broken)
        await wait_until(lambda: len(failing) > 1)
        monkeypatch.setattr(store.due, "take", take)
        await store.due.enter(rid, after_ms=-1)
        await wait_until(lambda: metrics.value("sweeps_total") > before)
        assert not sweeping.done()
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
    assert "could not look" in caplog.text
