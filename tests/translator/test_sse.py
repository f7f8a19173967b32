"""Cutting upstream bytes into blocks, and writing frames."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.protocol.errors import LimitPassed
from translator.protocol.sse import Blocks, fields, frame, is_end, with_id


def cut(*chunks: bytes, limit: int = 1 << 20) -> list[bytes]:
    blocks = Blocks(limit)
    return [block for chunk in chunks for block in blocks.feed(chunk)] + blocks.flush()


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_all_three_line_ends_close_a_block(newline: bytes) -> None:
    raw = newline.join([b"event: a", b"data: 1", b"", b"data: 2", b"", b""])
    assert cut(raw) == [b"event: a\ndata: 1", b"data: 2"]


def test_a_cr_ends_its_line_at_once_and_the_lf_in_the_next_chunk_is_swallowed() -> None:
    blocks = Blocks()
    assert blocks.feed(b"data: 1\r\n\r") == [b"data: 1"]
    assert blocks.feed(b"\ndata: 2\r\r") == [b"data: 2"]


def test_one_bom_goes_and_a_later_one_is_text() -> None:
    assert cut(b"\xef", b"\xbb", b"\xbfdata: \xef\xbb\xbfx\n\n") == [b"data: \xef\xbb\xbfx"]
    twice = b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\ndata: y\n\n"
    assert cut(twice) == cut(*(twice[at : at + 1] for at in range(len(twice)))) == [b"data: y"]


def test_unicode_line_ends_are_text() -> None:
    raw = "data: a\u2028b\u2029c\x85d\x0be\n\n".encode()
    assert cut(raw) == [raw[:-2]]


@pytest.mark.parametrize(
    "raw", [b": hi\n\n", b":\n\n", b"retry: 5\n\n", b"event: ping\n\n", b"\n\n\n"]
)
def test_blocks_without_data_are_dropped(raw: bytes) -> None:
    assert cut(raw + b"data: 1\n\n") == [b"data: 1"]


def test_a_whole_last_block_without_its_blank_line_counts_and_a_torn_one_does_not() -> None:
    assert cut(b'data: {"a": 1}') == [b'data: {"a": 1}']
    assert cut(b"data: [DONE]\n") == [b"data: [DONE]"]
    assert cut(b'data: {"a": 1') == []
    assert cut(b": bye") == []


def test_a_json_body_is_one_block_blank_lines_and_all() -> None:
    body = json.dumps({"a": 1, "b": [2]}, indent=2).encode().replace(b"1,", b"1,\n\n")
    assert cut(b"  \n" + body[:7], body[7:]) == [body]


def test_a_torn_json_body_is_no_block() -> None:
    assert cut(b'{"a": ') == []


def test_an_endless_block_passes_the_bound() -> None:
    with pytest.raises(LimitPassed):
        cut(b"data: " + b"x" * 100, b"y" * 100, limit=150)


def test_blocks_before_one_that_is_too_large_are_given_out_first() -> None:
    blocks = Blocks(20)
    assert blocks.feed(b"data: a\n\ndata: b\n\ndata: %b\n\ndata: c\n\n" % (b"x" * 30)) == [
        b"data: a",
        b"data: b",
    ]
    with pytest.raises(LimitPassed):
        blocks.feed(b"data: d\n\n")


def test_several_data_lines_join_with_lf_and_one_blank_is_stripped() -> None:
    assert fields(b"data:  a\ndata:b\nevent: t\nid: 7\nfoo") == ("t", b" a\nb")
    assert fields(b"data: x") == (None, b"x")
    assert fields(b'{"a": 1}') == (None, b'{"a": 1}')


@pytest.mark.parametrize(
    ("block", "end"),
    [
        (b"data: [DONE]", True),
        (b'data: {"type":"response.completed","response":{}}', True),
        (b'event: response.done\ndata: {"response":{}}', True),
        (b'event: x\ndata: {"type":"response.failed"}', True),
        (b'data: {"type":"response.created","response":{"x":"response.completed"}}', False),
        (b'data: {"type":"response.output_text.delta","delta":"[DONE]"}', False),
        (b'data: {"type":"response.incomplete"', False),
        (b'data: ["response.failed"]', False),
        (b'data: {"delta":"a"}', False),
        (b'event: response.completed\ndata: {"choices":[]}', False),
        (b'data: {"type":"response.cancelled"}', True),
    ],
)
def test_the_end_of_an_upstream_is_known_by_its_own_type(block: bytes, end: bool) -> None:
    assert is_end(block) is end


def test_a_frame_has_one_event_line_one_data_line_and_no_foreign_line_ends() -> None:
    written = frame("response.x", {"type": "response.x", "delta": "a\u2028b\u2029c\x85d\ne"})
    assert written == (
        b'event: response.x\ndata: {"type":"response.x","delta":"a\\u2028b\\u2029c\\u0085d\\ne"}\n\n'
    )


def test_ids_and_retry_come_inside_the_frame() -> None:
    assert (
        with_id(b"event: a\ndata: 1\n\n", 0, 1000) == b"id: 0\nretry: 1000\nevent: a\ndata: 1\n\n"
    )
    assert with_id(b"event: a\ndata: 1\n\n", 7) == b"id: 7\nevent: a\ndata: 1\n\n"


PIECES = st.sampled_from(
    [
        b"data: x",
        b"data",
        b"event: e",
        b": c",
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"{",
        b"}",
        b"\xef\xbb\xbf",
        b"\xc3",
        b" ",
    ]
)


@given(st.lists(PIECES, max_size=20), st.data())
def test_any_split_gives_the_same_blocks(pieces: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert cut(*chunks) == cut(raw)
