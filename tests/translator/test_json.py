"""JSON as it crosses our wires: what is read can be written again."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.protocol.json import MAX_DEPTH, WRITABLE_DEPTH, dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@given(VALUES)
def test_what_is_written_is_read_again(value):
    assert loads(dumps(value)) == value


@given(VALUES)
def test_nothing_written_looks_like_the_end_of_a_line(value):
    assert len(dumps(value).decode().splitlines()) == 1


@given(st.binary())
def test_any_bytes_are_a_value_or_a_value_error(raw):
    try:
        value = loads(raw)
    except ValueError:
        return
    assert isinstance(dumps(value), bytes)


@given(st.text(st.characters(codec=None, categories=["Cs", "Ll"]) | st.just("\\")))
def test_lone_surrogates_become_replacement_characters_one_for_one(text):
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert loads(json.dumps(text).encode()) == paired


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (rb'"\ud800"', "\ufffd"),
        (rb'"\uDC00\ud83d\ude00\udbff"', "\ufffd\U0001f600\ufffd"),
        (rb'"\ud800\n"', "\ufffd\n"),
        (rb'"\\ud800 \ud800"', "\\ud800 \ufffd"),
        (rb'{"\ud83d": "\u0041"}', {"\ufffd": "A"}),
    ],
)
def test_surrogate_escapes(raw, value):
    assert loads(raw) == value


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"NaN", b"[1e400]", b"\xff", b'"\xed\xa0\x80"', b'"\\ud800', b'{"a": 1,}']
)
def test_what_is_no_json_is_refused(raw):
    with pytest.raises(orjson.JSONDecodeError):
        loads(raw)


def test_what_nests_too_deeply_to_be_written_is_not_read():
    dumps(loads(nested(WRITABLE_DEPTH)))
    for depth in (WRITABLE_DEPTH + 1, 1_000, 1_000_000):
        with pytest.raises(ValueError, match=r"deep|depth"):
            loads(nested(depth))


def test_what_comes_from_outside_leaves_room_for_an_envelope():
    value = loads(nested(MAX_DEPTH), max_depth=MAX_DEPTH)
    envelope = dumps({"response": {"output": [{"item": value}]}})
    assert loads(envelope)["response"]["output"][0]["item"] == value
    with pytest.raises(ValueError, match="deep"):
        loads(nested(MAX_DEPTH + 1), max_depth=MAX_DEPTH)


def test_many_brackets_side_by_side_are_not_deep():
    assert len(loads(b"[" + b"[],{}," * 1_000 + b"0]")) == 2_001


def test_integers_past_64_bits_can_be_written_again():
    assert loads(dumps(loads(b"123456789012345678901234567890"))) == 1.2345678901234568e29
