"""What a fragment adds to a call's arguments: pieces, the whole so far each time, the whole once more at the end."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from translator.chat_arguments import ChatArguments, may_begin

# Few letters, so that texts often begin with what came before them.
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers()
    | st.text('a{}[]":\\ é\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab{"), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from("ab{"), VALUES, max_size=2)


def taken(*pieces: Any) -> str:
    arguments = ChatArguments()
    return "".join(arguments.take(piece) for piece in pieces)


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges) if a != b]


@given(OBJECTS, st.lists(st.integers(0, 10_000), max_size=8), st.booleans())
def test_pieces_are_joined_wherever_they_are_cut(
    value: Any, places: list[int], spaces: bool
) -> None:
    text = json.dumps(value, separators=None if spaces else (",", ":"), ensure_ascii=False)
    assert taken(*cut(text, places)) == text


def test_a_piece_that_begins_like_all_before_it_is_a_piece_where_it_may_be_one() -> None:
    assert taken('{"a":', '{"a":1}', "}") == '{"a":{"a":1}}'
    assert taken('{"a":', '{"a":', '{"a":{"a":', "1}}}}") == '{"a":{"a":{"a":{"a":1}}}}'
    assert taken('{"n":"x', "x", "x", '{{"}') == '{"n":"xxx{{"}'


@given(st.dictionaries(st.sampled_from("ab{"), VALUES, min_size=1, max_size=2), st.integers(1, 3))
def test_the_whole_so_far_each_time_is_told_once(value: Any, step: int) -> None:
    text = json.dumps(value)
    # A first piece that goes on to a value could be followed by an equal one: only then nobody can tell.
    ends = [2, *range(3, len(text), step), len(text)]
    assert taken(*[text[:end] for end in ends], text) == text


@given(OBJECTS)
def test_some_value_begins_with_each_beginning_of_one(value: Any) -> None:
    text = json.dumps(value)
    assert all(may_begin(text[:end]) for end in range(len(text) + 1))


def test_no_value_begins_with_two_beginnings_of_one_but_where_a_value_may_stand() -> None:
    for text in ("{{", '{"ci{"city":', '{"a":1{', '{"a":"x{"a":"x', '{"a":tr{', "[1,,"):
        assert not may_begin(text)
    assert may_begin("[" * 100_000)


def test_whether_they_are_whole_is_asked_after_each_of_many_pieces_in_no_time() -> None:
    """A hundred thousand looks at a megabyte would take minutes; the guard on time of all tests ends them."""
    arguments = ChatArguments()
    for piece in ('{"a":"', *["{y", "x}"] * 100_000, '\\"', "\\", '"{', '"}'):
        arguments.take(piece)
        whole = arguments.whole
    assert whole
