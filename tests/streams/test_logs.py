"""Reads of the input log and the state."""

from streams.scripts.entry import entry_of
from streams.scripts.refused import Reason
from tests.streams.rig import refused
from tests.wait import wait_until
from translator.protocol.entries import Entry


async def test_entries_are_read_by_number(rig):
    await rig.running()
    await rig.append(1, *(("frame", b"%d" % n) for n in range(10)))
    logs = rig.store.logs
    assert [entry.n for entry in await logs.read_input(rig.rid, 0)] == list(range(1, 14))
    assert [entry.n for entry in await logs.read_input(rig.rid, 4, 3)] == [5, 6, 7]
    assert await logs.read_input(rig.rid, 13) == []
    heard = []
    logs.request_input(rig.rid, 11, 10, heard.append)
    await wait_until(lambda: heard)
    assert [entry.n for entry in heard[0]] == [12, 13]


async def test_the_request_is_the_first_entry(rig):
    await rig.create(request_data=b'{"version":1,"text":"\xc3\xa9"}')
    assert await rig.store.logs.read_request(rig.rid) == {"version": 1, "text": "é"}


async def test_of_a_response_that_is_not_there_nothing_is_read(rig):
    logs = rig.store.logs
    assert await logs.read_input(rig.rid, 0) == []
    assert await logs.read_request(rig.rid) is None
    assert await logs.state(rig.rid) is None
    assert await refused(logs.last_frame(rig.rid)) == Reason.MISSING
    heard = []
    logs.request_state(rig.rid, heard.append)
    await wait_until(lambda: heard == [None])


def test_round_and_attempt_are_zero_where_an_entry_has_none():
    plain = [b"k", b"cancel", b"t", b"5", b"d", b"{}"]
    assert entry_of([b"1-1", plain]) == Entry(1, "cancel", 5, b"{}")
    assert entry_of([b"2-1", [*plain, b"r", b"2"]]) == Entry(2, "cancel", 5, b"{}", 2)
    assert entry_of([b"3-1", [*plain, b"r", b"2", b"a", b"3"]]) == Entry(
        3, "cancel", 5, b"{}", 2, 3
    )


async def test_the_clock_is_the_servers(rig):
    created = (await rig.create()).created
    assert 0 <= await rig.store.logs.now() - created < 20_000
