"""Files: what is written is read again, and what is not as it was written is told in one line."""

import gzip
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import transcript
from streams.logs import State
from streams.recording import Recording
from streams.scripts.outputs import Frame
from streams.transcript import Damaged, data_of, lines_of, packed, recording_of, sealed, text
from translator.protocol.entries import Entry

ODD = [
    b"",
    b"plain",
    "schön \u2028 \U0001f600".encode(),
    b"\xff\xfe\x00",
    b'{"a":"\\ud800"}',
    b"\n",
]


RID = "resp_" + "0" * 32
STATE = State(
    tenant="acme",
    status="completed",
    created=1_700_000_000_000,
    store=True,
    background=False,
    expires=0,
    deadline=1_700_000_600_000,
    round=1,
    rstate="ended",
    attempt=1,
    ilease=0,
    last=4,
    in_bytes=0,
    opened=True,
    refusal=b"",
    lease=0,
    cursor=4,
    seq=2,
    digest="",
    out_bytes=0,
    done=True,
    ended=1_700_000_000_500,
    sealed=False,
    cancelled=False,
    reader=0,
    jobs=0,
    results={(1, 0): 4},
)
ENTRIES = [
    Entry(1, "request", 1_700_000_000_000, b'{"version":1}'),
    Entry(2, "round", 1_700_000_000_000, b'{"model":"tiny"}', 1),
    Entry(3, "attempt", 1_700_000_000_001, b"{}", 1, 1),
    Entry(4, "frame", 1_700_000_000_002, b"data: \xff", 1, 1),
]
FRAMES = [Frame(0, b"shown 0"), Frame(1, b"shown 1"), Frame(2, b"shown 2", True)]
FOUND = Recording(RID, STATE, ENTRIES, FRAMES)


def again(lines: bytes) -> Recording:
    return recording_of(transcript.read(lines))


def written(recording: Recording) -> bytes:
    return b"".join(lines_of(recording))


def test_a_response_comes_back_as_it_was():
    back = again(written(FOUND))
    assert (back.rid, back.entries, back.frames) == (FOUND.rid, FOUND.entries, FOUND.frames)
    assert back.frames[-1].terminal
    for name in (*transcript.SAID, "refusal", "results", "last", "seq"):
        assert getattr(back.state, name) == getattr(FOUND.state, name), name
    assert written(back) == written(FOUND)
    assert again(packed(lines_of(FOUND))) == back


def test_a_file_is_lines_of_json_that_say_what_it_is():
    rows = [json.loads(line) for line in written(FOUND).splitlines()]
    assert rows[0]["respool"] == "response"
    assert rows[0]["version"] == 1
    assert rows[0]["id"] == RID
    assert rows[1]["kind"] == "request"
    assert rows[-1]["end"] == len(rows) - 2
    assert len(rows) == len(FOUND.entries) + len(FOUND.frames) + 2


@given(st.lists(st.binary() | st.sampled_from(ODD)))
def test_any_bytes_come_back(pieces):
    for data in [*pieces, *ODD]:
        assert data_of(orjson.loads(orjson.dumps(text(data)))) == data


def cut(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def lastless(raw: bytes) -> bytes:
    return raw[: raw[:-1].rindex(b"\n") + 1]


def lineless(raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True)
    return b"".join(lines[:2] + lines[3:])


FAULTS = {
    "empty": (lambda raw: raw[:0], "no file of Respool's"),
    "foreign": (lambda raw: b"%PDF-1.7\n" + raw, "no file of Respool's"),
    "foreign JSON": (lambda raw: b'{"a":1}\n' + raw, "no file of Respool's"),
    "other version": (
        lambda raw: raw.replace(b'"version":1', b'"version":7', 1),
        "version 7; this Respool reads version 1",
    ),
    "cut in a line": (cut, "cut off"),
    "cut between lines": (lastless, "cut off"),
    "cut before the last line end": (lambda raw: raw[:-1], "cut off"),
    "a line missing": (lineless, "damaged"),
    "a byte changed": (lambda raw: raw.replace(b"shown 1", b"shown 7", 1), "damaged"),
    "a line added": (lambda raw: raw.replace(b"\n", b"\n{}\n", 1), "damaged"),
    "gzip cut": (lambda raw: cut(gzip.compress(raw)), "cut off|damaged"),
    "gzip changed": (lambda raw: gzip.compress(raw)[:-6] + b"abcdef", "damaged"),
    "gzip of nothing": (lambda raw: gzip.compress(raw[:0]), "no file of Respool's"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_as_it_was_written_is_told_in_one_line(fault):
    spoil, message = FAULTS[fault]
    raw = written(FOUND)
    assert spoil(raw) != raw
    with pytest.raises(Damaged, match=message) as caught:
        again(spoil(raw))
    assert "\n" not in caught.value.message


def test_a_file_that_unpacks_to_more_than_memory_is_refused(monkeypatch):
    monkeypatch.setattr(transcript, "MAX_FILE_BYTES", 100)
    with pytest.raises(Damaged, match="larger"):
        again(gzip.compress(written(FOUND)))


def edited(raw: bytes, line: int, **changes) -> bytes:
    """The file with a line changed by somebody who knows how to make the last one."""
    rows = [json.loads(one) for one in raw.splitlines()][:-1]
    rows[line] |= changes
    return b"".join(sealed(json.dumps(row).encode() + b"\n" for row in rows))


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        (0, {"id": "a}b"}),
        (0, {"id": 7}),
        (0, {"state": {}}),
        (0, {"state": None}),
        (1, {"n": 2}),
        (1, {"data": 5}),
        (1, {"data": {"base64": "="}}),
        (-1, {"seq": 7}),
        (-1, {"frame": None}),
    ],
)
def test_a_file_that_holds_no_response_is_refused(line, changes):
    raw = written(FOUND)
    with pytest.raises(Damaged, match="as Respool writes one"):
        again(edited(raw, line, **changes))


def test_a_file_of_something_else_is_no_response():
    raw = edited(written(FOUND), 0, respool="upstream")
    with pytest.raises(Damaged, match="of an upstream, not of a response"):
        again(raw)


def test_a_response_without_entries_is_none():
    with pytest.raises(Damaged):
        again(written(Recording(FOUND.rid, FOUND.state, [], FOUND.frames)))


def test_gzip_is_the_same_whenever_it_is_made():
    lines = [b"a\n", b"b\n"]
    assert packed(lines) == packed(lines)
    assert gzip.decompress(packed(lines)) == b"a\nb\n"
