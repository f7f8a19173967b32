import hashlib
from time import process_time

import orjson
import pytest

from streams.scripts.outputs import Lease
from tests.ingest.made import request_data
from tests.workers.test_fold import RID, log
from translator.closing import Closing
from translator.protocol.entries import Entry, Kind
from translator.protocol.sse import fields
from workers.fold import Fold
from workers.translate_end import MESSAGE, Ending, committed_frames, ending

CREATED = 1_700_000_000_123


def frames(*deltas: str, upto: int | None = None) -> list[bytes]:
    fold = Fold(RID, Lease("f", 0, -1, "", False))
    fold.feed(log(*deltas)[:upto])
    batch = fold.take()
    assert batch
    return batch.frames


def said(found: Ending) -> list[dict]:
    return [orjson.loads(fields(frame.strip(b"\n"))[1]) for frame in found.frames]


@pytest.mark.parametrize(("upto", "items"), [(5, 0), (8, 1), (12, 1)])
def test_the_end_continues_what_was_seen_and_closes_what_is_open(upto, items):
    committed = frames("a", "b", upto=upto)
    seq = len(committed) - 1
    found = ending(RID, committed, seq, [], CREATED)
    events = said(found)
    event = events[-1]
    assert [one["sequence_number"] for one in events] == list(range(seq + 1, seq + 1 + len(events)))
    assert found.first_seq == seq + 1
    assert event["type"] == "response.failed"
    response = event["response"]
    assert (response["id"], response["status"]) == (RID, "failed")
    assert response["error"] == {"code": "server_error", "message": MESSAGE}
    assert len(response["output"]) == items
    assert len(response) >= 31
    whole = b"".join([*committed, *found.frames])
    assert found.digest == hashlib.blake2b(whole, digest_size=16).hexdigest()


def test_a_response_without_frames_begins_before_it_ends():
    first = Entry(1, Kind.REQUEST, CREATED, request_data(RID, store=False))
    created, failed = said(ending(RID, [], -1, [first], CREATED))
    assert created["type"] == "response.created"
    assert created["response"]["status"] == "in_progress"
    assert created["response"]["created_at"] == CREATED // 1000
    assert created["response"]["store"] is False
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 1)


@pytest.mark.parametrize("data", [b"no json", b"[]", b"{}", b'{"request":7}'])
def test_a_request_that_cannot_be_read_still_gives_a_whole_response(data):
    for first in ([], [Entry(1, Kind.REQUEST, 1, data)], [Entry(2, Kind.ROUND, 1, data)]):
        created, failed = said(ending(RID, [], -1, first, CREATED))
        assert created["response"]["id"] == failed["response"]["id"] == RID
        assert len(failed["response"]) >= 31


def test_frames_that_were_lost_leave_their_numbers_behind():
    first = Entry(1, Kind.REQUEST, CREATED, request_data(RID))
    found = ending(RID, [], 7, [first], CREATED)
    (event,) = said(found)
    assert event["sequence_number"] == found.first_seq == 8


async def test_what_the_log_still_holds_is_read_to_a_hole(store):
    assert await committed_frames(store.logs, RID) == []


@pytest.mark.parametrize(
    ("room", "closes", "shows"), [(10**9, True, True), (10_000, False, True), (3_000, False, False)]
)
def test_an_end_that_would_not_fit_leaves_out_what_it_repeats(room, closes, shows, monkeypatch):
    committed = frames(*(["x" * 1000] * 5), upto=13)
    monkeypatch.setattr("workers.translate_end.ROOM_BYTES", room)
    found = ending(RID, committed, len(committed) - 1, [], CREATED)
    assert sum(map(len, found.frames)) <= room
    events = said(found)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["sequence_number"] == len(committed) + len(events) - 1
    assert (len(events) > 1) is closes
    assert (b"x" * 5000 in found.frames[-1]) is shows
    whole = b"".join([*committed, *found.frames])
    assert found.digest == hashlib.blake2b(whole, digest_size=16).hexdigest()


def test_an_end_costs_no_more_for_each_of_many_deltas():
    """Elsewhere it was quadratic: a response of some MB froze its process for minutes."""

    def took_s(count: int) -> float:
        closing = Closing()
        closing.see({"type": "response.output_item.added", "item": {"type": "message", "id": "m"}})
        place = {"output_index": 0, "content_index": 0}
        part = {"type": "output_text"}
        closing.see({"type": "response.content_part.added", "part": part, **place})
        delta = {"type": "response.output_text.delta", "delta": "x" * 400, **place}
        began = process_time()
        for _ in range(count):
            closing.see(delta)
        assert len(closing.close()[1][0]["content"][0]["text"]) == 400 * count
        return process_time() - began

    few = min(took_s(2_000) for _ in range(3))
    assert took_s(40_000) < 100 * few, "twenty times as many"
