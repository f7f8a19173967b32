import hashlib

import orjson
import pytest

from streams.scripts.outputs import Lease
from tests.ingest.made import request_data
from tests.workers.test_fold import RID, log
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
