import sys

import pytest

from streams.scripts.outputs import Lease
from tests.ingest.made import request_data
from tests.ingest.server import text_stream
from translator.protocol.entries import Entry, Kind
from workers.fold import AT_ONCE, COMMIT_BYTES, COMMIT_FRAMES, Batch, Diverged, Fold

RID = "resp_" + "a" * 32
NEW = Lease("f", 0, -1, "", False)


def log(*deltas: str, end: bool = True, **limits: int) -> list[Entry]:
    """The input log of a response with one round."""
    blocks = [block[:-2] for block in text_stream(*deltas)]
    if not end:
        blocks = blocks[:-4]
    rows = [
        (Kind.REQUEST, request_data(RID, limits=limits)),
        (Kind.ROUND, b"{}"),
        (Kind.ATTEMPT, b"{}"),
        (Kind.OPENED, b"{}"),
        *((Kind.FRAME, block) for block in blocks),
    ]
    return [
        Entry(n, kind, 1_700_000_000_000 + n, data, int(n > 1), int(n > 2))
        for n, (kind, data) in enumerate(rows, 1)
    ]


def batches(fold: Fold) -> list[Batch]:
    found = []
    while batch := fold.take():
        assert fold.take() is None  # one at a time
        assert fold.flying
        fold.committed()
        found.append(batch)
    return found


def lease_after(found: list[Batch]) -> Lease:
    last = found[-1]
    return Lease("g", last.cursor, last.first_seq + len(last.frames) - 1, last.digest, False)


def test_a_log_is_folded_into_one_batch_with_its_end():
    fold = Fold(RID, NEW)
    entries = log("a", "b")
    assert fold.feed(entries) == len(entries)
    (batch,) = batches(fold)
    assert batch.terminal
    assert batch.status == "completed"
    assert (batch.first_seq, batch.cursor) == (0, len(entries))
    assert fold.seq == len(batch.frames) - 1
    assert fold.pending_bytes == 0
    assert fold.response_is_stored


def test_what_comes_during_a_commit_goes_with_the_next():
    fold = Fold(RID, NEW)
    entries = log("a", "b", "c")
    fold.feed(entries[:6])
    first = fold.take()
    fold.feed(entries[6:])
    assert fold.take() is None
    assert fold.committed() is first
    (second,) = batches(fold)
    assert second.first_seq == first.first_seq + len(first.frames)
    assert first.cursor < second.cursor == len(entries)


@pytest.mark.parametrize("deltas", [["x"] * (3 * COMMIT_FRAMES), ["x" * 300_000] * 8])
def test_a_commit_is_bounded_in_frames_and_bytes(deltas):
    fold = Fold(RID, NEW)
    fold.feed(log(*deltas, end=False))
    found = batches(fold)
    assert len(found) > 2
    for batch in found:
        assert len(batch.frames) <= COMMIT_FRAMES
        assert batch.size <= COMMIT_BYTES


def test_cutting_anywhere_and_folding_again_gives_the_same_bytes():
    entries = log("a", "b", "c")
    whole = Fold(RID, NEW)
    whole.feed(entries)
    (expected,) = batches(whole)
    for cut in range(1, len(entries)):
        before = Fold(RID, NEW)
        before.feed(entries[:cut])
        found = batches(before)
        after = Fold(RID, lease_after(found))
        after.feed(entries)
        after.check_end()
        rest = batches(after)
        frames = [frame for batch in [*found, *rest] for frame in batch.frames]
        assert frames == expected.frames
        assert rest[-1].digest == expected.digest


def test_entries_come_once_whatever_is_fed_again():
    fold = Fold(RID, NEW)
    entries = log("a")
    fold.feed(entries[:4])
    fold.feed(entries[2:])
    (batch,) = batches(fold)
    assert batch.terminal


def test_a_slice_ends_when_its_time_is_up_and_goes_on_where_it_stood():
    fold = Fold(RID, NEW)
    entries = log(*"abcdefghijklmnopqrstuvwxyz")
    at, slices = 0, 0
    while at < len(entries):
        at = fold.feed(entries, at, until=0.0)
        slices += 1
    assert slices > len(entries) // AT_ONCE
    (batch,) = batches(fold)
    assert batch.terminal


def test_a_hole_in_the_input_log_is_seen():
    fold = Fold(RID, NEW)
    entries = log("a")
    with pytest.raises(Diverged, match="lacks entry 5"):
        fold.feed([*entries[:4], *entries[5:]])


def test_an_input_log_shorter_than_what_was_folded_is_seen():
    entries = log("a", "b")
    first = Fold(RID, NEW)
    first.feed(entries)
    successor = Fold(RID, lease_after(batches(first)))
    successor.feed(entries[:-1])
    with pytest.raises(Diverged, match="ends before"):
        successor.check_end()


@pytest.mark.parametrize("change", ["digest", "fewer", "more"])
def test_outputs_that_are_not_what_was_committed_are_seen(change):
    entries = log("a", "b")
    first = Fold(RID, NEW)
    first.feed(entries)
    lease = lease_after(batches(first))
    other = {
        "digest": Lease("g", lease.cursor, lease.seq, "0" * 32, False),
        "fewer": Lease("g", lease.cursor, lease.seq - 1, lease.digest, False),
        "more": Lease("g", lease.cursor, lease.seq + 1, lease.digest, False),
    }[change]
    with pytest.raises(Diverged):
        Fold(RID, other).feed(entries)


def test_a_lost_round_is_opened_again_by_a_commit_of_its_own():
    entries = log("a", end=False)[:5]
    lost = Entry(len(entries) + 1, Kind.ROUND_END, 1, b'{"how":"lost"}', 1, 1)
    fold = Fold(RID, NEW)
    fold.feed([*entries, lost])
    (batch,) = batches(fold)
    assert batch.reopen
    assert not batch.terminal
    assert batch.cursor == lost.n


def test_notes_are_told_once_and_not_again_by_a_successor():
    entries = log("a", end=False)
    odd = Entry(len(entries) + 1, Kind.FRAME, 1, b'data: {"type":"response.strange"}', 1, 1)
    end = Entry(odd.n + 1, Kind.ROUND_END, 1, b'{"how":"eof"}', 1, 1)
    fold = Fold(RID, NEW)
    fold.feed([*entries, odd, end])
    assert fold.notes
    successor = Fold(RID, lease_after(batches(fold)))
    successor.feed([*entries, odd, end])
    assert successor.notes == []


def test_what_is_discarded_is_not_committed():
    fold = Fold(RID, NEW)
    fold.feed(log("a"))
    fold.take()
    fold.discard()
    assert fold.take() is None
    assert fold.pending_bytes == 0
    with pytest.raises(AssertionError):
        fold.committed()


def test_entries_that_came_with_the_lease_are_not_held_once_they_are_folded():
    data = request_data(RID)
    lease = Lease("f", 0, -1, "", False, (Entry(1, Kind.REQUEST, 1, data), *log("a")[1:3]))
    fold = Fold(RID, lease)
    assert fold.feed(lease.entries) == 3
    del lease
    nobody_has_it = bytes(999)
    assert sys.getrefcount(data) == sys.getrefcount(nobody_has_it)
    assert len(batches(fold)) == 1
