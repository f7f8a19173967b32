"""create, cancel, delete, keep."""

from streams.scripts.refused import Reason
from tests.streams.rig import Rig, refused, refused_unchanged
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
