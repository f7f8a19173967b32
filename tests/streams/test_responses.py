"""create, cancel, delete, keep."""

import pytest

from streams.asked import Asked
from streams.scripts.refused import Reason
from tests.streams.rig import LEASE_MS, Rig, refused, refused_unchanged
from translator.protocol.entries import Entry, Kind


async def test_a_response_begins_with_its_request_and_round_1(rig):
    created = await rig.create(background=True)
    assert (created.last, created.dup) == (2, False)
    assert await rig.log() == [
        Entry(1, Kind.REQUEST, created.created, b'{"request":1}'),
        Entry(2, Kind.ROUND, created.created, b'{"round":1}', 1),
    ]
    state = await rig.state()
    assert (state.tenant, state.status, state.store, state.background) == (
        "acme",
        "queued",
        True,
        True,
    )
    assert (state.round, state.rstate, state.attempt, state.last) == (1, "open", 0, 2)
    assert (state.seq, state.cursor, state.digest, state.done) == (-1, 0, "", False)
    assert state.deadline == created.created + 600_000
    assert state.expires == created.created + 600_000 + 3_600_000
    assert state.in_bytes == len(b'{"request":1}') + len(b'{"round":1}')


async def test_without_a_body_there_is_no_round_yet(rig):
    assert (await rig.create(round_body=None)).last == 1
    state = await rig.state()
    assert (state.round, state.rstate) == (0, "")
    assert await refused(rig.claim()) is Reason.STALE


async def test_created_keys_live_for_the_run_and_the_retention(rig):
    await rig.create()
    lives = await rig.lifetimes()
    assert set(lives) == {"st", "in"}
    assert all(4_190_000 < life <= 4_200_000 for life in lives.values())


async def test_a_repeated_create_changes_nothing(rig):
    first = await rig.create()
    before = await rig.everything()
    again = await rig.create()
    assert again.dup
    assert (again.created, again.last) == (first.created, first.last)
    assert await rig.everything() == before


async def test_a_create_is_repeated_even_after_the_response_moved_on(rig):
    await rig.finished()
    assert (await rig.create()).dup


def asked(token: str, lease_ms: int = LEASE_MS) -> Asked:
    """A lease, asked for by somebody who looks for the answer elsewhere."""
    return Asked(token, lease_ms, lambda _: None)


BOTH = {"lease": asked("translate"), "claim": asked("ingest")}


async def test_a_create_grants_what_a_claim_and_an_acquire_would(rig, store):
    created = await rig.create(**BOTH)
    other = Rig(store)
    slow = await other.create()
    claim, lease = await other.claim(), await other.acquire()

    assert (created.claim.round, created.claim.attempt) == (claim.round, claim.attempt)
    assert (created.claim.fence, created.claim.dup) == (claim.fence, claim.dup)
    assert (created.claim.body, created.claim.request) == (claim.body, claim.request)
    assert (created.lease.fence, created.lease.dup) == (lease.fence, lease.dup)
    assert (created.lease.cursor, created.lease.seq, created.lease.digest) == (
        *(lease.cursor, lease.seq),
        lease.digest,
    )
    assert slow.lease is slow.claim is None
    log = await rig.log()
    assert list(created.lease.entries) == log
    assert log[-1] == created.claim.entry
    assert created.last == 3
    assert [(e.n, e.kind, e.data, e.round, e.attempt) for e in log] == [
        (e.n, e.kind, e.data, e.round, e.attempt) for e in await other.log()
    ]
    one, two = await hash_of(rig), await hash_of(other)
    assert one.keys() == two.keys()
    for name in (b"lease", b"ilease"):
        assert abs(int(one.pop(name)) - int(two.pop(name))) < 30_000
    times = {b"created", b"expires", b"deadline", b"at", b"rt"}
    assert {k: v for k, v in one.items() if k not in times} == {
        k: v for k, v in two.items() if k not in times
    }


async def hash_of(rig: Rig) -> dict[bytes, bytes]:
    raw = await rig.store.connections.command("HGETALL", rig.keys.state(rig.rid))
    return raw if isinstance(raw, dict) else dict(zip(raw[::2], raw[1::2], strict=True))


async def test_what_a_create_grants_can_be_written_with_at_once(rig):
    created = await rig.create(**BOTH)
    rig.claimed, rig.lease = created.claim, created.lease
    assert (await rig.append(1, ("opened", b"{}"), ("frame", b"x"))).first == 4
    assert (await rig.commit(0, 3, 0, b"created")).seq == 0
    assert await refused(rig.claim("another")) is Reason.LEASED
    assert await refused(rig.acquire("another")) is Reason.LEASED


async def test_a_create_grants_one_lease_without_the_other(rig, store):
    created = await rig.create(lease=BOTH["lease"])
    assert created.claim is None
    assert [entry.kind for entry in created.lease.entries] == [Kind.REQUEST, Kind.ROUND]
    await rig.claim()
    other = Rig(store)
    created = await other.create(claim=BOTH["claim"])
    assert created.lease is None
    assert (await other.acquire()).entries[-1] == created.claim.entry


async def test_without_a_round_a_create_grants_the_translation_alone(rig):
    created = await rig.create(round_body=None, lease=BOTH["lease"])
    assert [entry.kind for entry in created.lease.entries] == [Kind.REQUEST]
    assert (created.last, created.claim) == (1, None)


async def test_a_claim_needs_a_round(rig):
    with pytest.raises(ValueError, match="round"):
        await rig.create(round_body=None, claim=BOTH["claim"])


async def test_a_repeated_create_grants_the_same_again(rig):
    first = await rig.create(**BOTH)
    before = await rig.everything()
    again = await rig.create(**BOTH)
    assert again.dup
    assert again.lease.dup
    assert again.claim.dup
    assert (again.lease.fence, again.lease.entries) == (first.lease.fence, first.lease.entries)
    assert (again.claim.fence, again.claim.entry) == (first.claim.fence, first.claim.entry)
    assert await rig.everything() == before


async def test_a_repeated_create_grants_nothing_that_went_to_another(rig):
    lapsed = {"lease": asked("translate", 0), "claim": asked("ingest", 0)}
    assert (await rig.create(**lapsed)).lease
    await rig.acquire("another")
    again = await rig.create(**lapsed)
    assert again.lease is None
    assert again.claim, "whose lease ran out, but nobody has said that it is lost"
    await rig.lose()
    assert (await rig.create(**lapsed)).claim is None


async def test_a_repeated_create_grants_nothing_of_what_is_finished(rig):
    rig.lease = (await rig.create(**BOTH)).lease
    await rig.finish(0, 0, b"end")
    again = await rig.create(**BOTH)
    assert (again.dup, again.lease, again.claim) == (True, None, None)


async def test_an_id_that_another_request_took_is_refused(rig):
    await rig.create()
    assert await refused_unchanged(
        rig, rig.create(tenant="other"), rig.create(request_data=b'{"request":2}')
    ) == [Reason.EXISTS, Reason.EXISTS]


async def test_a_cancel_is_an_entry_once(rig):
    await rig.create()
    cancelled = await rig.cancel("deadline")
    assert (cancelled.status, cancelled.done, cancelled.dup) == ("queued", False, False)
    assert cancelled.entry == Entry(3, Kind.CANCEL, cancelled.entry.t, b'{"reason":"deadline"}')
    assert (await rig.log())[2:] == [cancelled.entry]
    before = await rig.everything()
    again = await rig.cancel()
    assert (again.status, again.done, again.entry, again.dup) == ("queued", False, None, True)
    assert await rig.everything() == before
    assert (await rig.state()).cancelled


async def test_a_cancel_of_a_finished_response_tells_its_status(rig):
    await rig.finished()
    before = await rig.everything()
    cancelled = await rig.cancel()
    assert (cancelled.status, cancelled.done, cancelled.entry) == ("completed", True, None)
    assert await rig.everything() == before


async def test_a_delete_takes_all_keys_and_late_writers_find_nothing(rig):
    await rig.running()
    await rig.store.connections.command("HSET", rig.keys.secrets(rig.rid), "authorization", "x")
    await rig.commit(0, 1, 0, b"a")
    await rig.delete()
    assert await rig.lifetimes() == {}
    late = [
        rig.append(1, ("frame", b"x")),
        rig.commit(1, 2, 1, b"b"),
        rig.beat(),
        rig.beat_round(),
        rig.release(),
        rig.claim(),
        rig.acquire(),
        rig.lose(),
        rig.cancel(),
        rig.keep(),
        rig.delete(),
        rig.store.logs.read_output(rig.rid, -1),
    ]
    assert {await refused(call) for call in late} == {Reason.MISSING}
    assert await rig.lifetimes() == {}


async def test_a_reader_of_a_running_unstored_response_holds_a_lease(rig):
    await rig.create(store=False)
    expires = (await rig.state()).expires
    now = await rig.store.logs.now()
    kept = await rig.keep(lease_ms=5_000)
    assert (kept.done, kept.expires) == (False, expires)
    assert now + 5_000 <= (await rig.state()).reader <= now + 15_000


async def test_a_reader_of_a_finished_unstored_response_puts_off_its_expiry(rig):
    await rig.create(store=False)
    await rig.acquire()
    await rig.finish(0, 0, b"end", retain_ms=5_000)
    kept = await rig.keep(grace_ms=30_000)
    assert kept.done
    assert kept.expires == (await rig.state()).expires
    lives = await rig.lifetimes()
    assert set(lives) == {"st", "in", "out"}
    assert all(20_000 < life <= 30_000 for life in lives.values())
    assert (await rig.keep(grace_ms=10)).expires == kept.expires, "never shortened"


async def test_the_last_reader_that_leaves_a_running_unstored_response_cancels_it(rig):
    await rig.create(store=False)
    await rig.keep(lease_ms=9_000, reader="one")
    await rig.keep(lease_ms=60_000, reader="two")
    await rig.keep(lease_ms=30_000, reader="three")
    for _ in range(2):  # a repeat is told the same
        assert (await rig.cancel("abandoned", reader="two")).entry is None
    state, now = await rig.state(), await rig.store.logs.now()
    assert not state.cancelled
    assert now < state.reader <= now + 30_000, "the lease of those who are left"
    assert (await rig.cancel("abandoned", reader="one")).entry is None
    assert (await rig.cancel("abandoned", reader="three")).entry is not None
    assert (await rig.state()).cancelled


async def test_a_reader_whose_lease_lapsed_is_no_reader(rig):
    await rig.create(store=False)
    await rig.keep(lease_ms=0, reader="one")
    await rig.keep(lease_ms=9_000, reader="two")
    assert (await rig.cancel("abandoned", reader="two")).entry is not None


async def test_readers_do_not_keep_anybody_from_cancelling(rig):
    await rig.create(store=False)
    await rig.keep(lease_ms=9_000)
    assert (await rig.cancel("deadline")).entry is not None


async def test_readers_change_nothing_of_a_stored_response(rig):
    await rig.finished()
    before = await rig.everything()
    assert (await rig.keep(grace_ms=10**9)).done
    assert await rig.everything() == before


async def test_two_responses_do_not_touch_each_other(store):
    one, two = Rig(store), Rig(store)
    await one.running()
    await two.running()
    await one.append(1, ("frame", b"one"))
    await two.delete()
    assert (await one.log())[-1].data == b"one"
