import asyncio

import pytest

from ingest.attempt import PENDING_BYTES, Attempt, Stop
from streams.faults import StoreAway
from streams.scripts.refused import Reason, Refused
from streams.scripts.rounds import claim_round
from streams.store import Store
from tests.ingest.made import made, said


async def attempt(store: Store, rid: str, stops: list[Stop]) -> Attempt:
    call = claim_round(store.keys, rid, round=1, token="t", lease_ms=5_000)
    claim = await store.writer.do(call)
    return Attempt(
        store, rid, claim.held, lease_ms=5_000, max_in_bytes=1 << 24, on_stop=stops.append
    )


async def test_what_comes_while_an_append_is_in_flight_goes_with_the_next(store: Store) -> None:
    rid, stops = await made(store), []
    mine = await attempt(store, rid, stops)
    before = store.writer.calls
    for number in range(20):
        mine.add([("frame", b"%d" % number)])
    await mine.settled()
    assert [data for _, data in (await said(store, rid))[1:]] == [b"%d" % n for n in range(20)]
    assert store.writer.calls == before + 2
    assert stops == []


async def test_nothing_follows_the_end(store: Store) -> None:
    rid, stops = await made(store), []
    mine = await attempt(store, rid, stops)
    mine.end({"how": "ok"})
    mine.end({"how": "eof"})
    mine.add([("frame", b"late")])
    await mine.settled()
    assert [kind for kind, _ in await said(store, rid)] == ["attempt", "round_end"]


async def test_too_much_in_hand_is_said_until_half_of_it_is_gone(store: Store) -> None:
    rid = await made(store)
    mine = await attempt(store, rid, [])
    assert not mine.full
    for _ in range(3):
        mine.add([("frame", b"x" * (PENDING_BYTES // 2 - 10))])
    assert mine.full
    await mine.room()
    assert not mine.full
    await mine.settled()


async def test_who_waits_for_room_may_be_cut_off(store: Store) -> None:
    """By the round's time-out, with the acknowledgement on its way."""
    rid, stops = await made(store), []
    mine = await attempt(store, rid, stops)
    for _ in range(3):
        mine.add([("frame", b"x" * (PENDING_BYTES // 2 - 10))])
    waiting = [asyncio.ensure_future(wait()) for wait in (mine.room, mine.settled)]
    await asyncio.sleep(0)
    for one in waiting:
        one.cancel()
    mine.end({"how": "ok"})
    await mine.settled()
    assert await asyncio.gather(*waiting, return_exceptions=True)
    assert [kind for kind, _ in await said(store, rid)][-1] == "round_end"


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (StoreAway("away"), Stop.STORE),
        (Refused(Reason.GAP), Stop.FENCED),
        (Refused(Reason.CONFLICT), Stop.FENCED),
        (Refused(Reason.FENCED), Stop.FENCED),
        (Refused(Reason.DONE), Stop.DONE),
        (Refused(Reason.MISSING), Stop.GONE),
    ],
)
async def test_a_refusal_stops_the_attempt_and_lets_nobody_wait(store, error, stop) -> None:
    rid, stops = await made(store), []
    mine = await attempt(store, rid, stops)
    mine.add([("frame", b"x" * PENDING_BYTES), ("frame", b"y")])
    mine.add([("frame", b"z")])
    mine._acknowledged(error)
    assert stops == [stop]
    async with asyncio.timeout(1):
        await mine.room()
        await mine.settled()
        await mine.lose()
    mine.add([("frame", b"late")])
    mine.beat(mine.heard_at + 60, 1)
    await mine.settled()


async def test_a_heartbeat_is_sent_in_silence_only(store: Store) -> None:
    rid = await made(store)
    mine = await attempt(store, rid, [])
    before = store.writer.calls
    mine.beat(mine.heard_at + 0.5, 1)
    mine.beat(mine.heard_at + 2, 1)
    mine.beat(mine.heard_at + 2, 1)  # one is under way
    await store.writer.drained()
    assert store.writer.calls == before + 1


async def test_a_cancel_is_told_once_and_the_end_may_still_be_said(store: Store) -> None:
    rid, stops = await made(store), []
    mine = await attempt(store, rid, stops)
    await store.connections.command("HSET", store.keys.state(rid), "cancel", 1)
    mine.add([("frame", b"1")])
    await mine.settled()
    mine.add([("frame", b"2")])
    mine.end({"how": "reset"})
    await mine.settled()
    assert stops == [Stop.CANCELLED]
    kinds = [kind for kind, _ in await said(store, rid)]
    assert kinds == ["attempt", "frame", "frame", "round_end"]
