"""The incremental decoder of custom inputs: what is shown, when, and that no cut matters."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from translator.custom_input import CustomInput, decode


def pieces(*cuts: str) -> list[str]:
    scanner = CustomInput()
    shown = [scanner.feed(piece) for piece in cuts]
    return [*shown, scanner.finish("".join(cuts))]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"input":"ls -l"}', "ls -l"),
        (' \t\r\n{ "input" : "a" , "x" : 1 } tail', "a"),
        ('{"x":{"input":"no","y":["}",{"input":"no"}]},"input":"yes"}', "yes"),
        ('{"x":"\\"input\\":\\"no\\"\\\\","input":"yes"}', "yes"),
        ('{"x":true,"y":null,"z":-1.5e3,"input":"yes"}', "yes"),
        ('{"inp\\u0075t":"escaped key"}', "escaped key"),
        ('{}{"input":"after an empty object"}', "after an empty object"),
        ('{"input":"first","input":"second"}', "first"),
        ('{"input":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041"}', '"\\/\b\f\n\r\tA'),
        ('{"input":"\\ud83d\\ude00"}', "😀"),
        ('{"input":"\\ud83d"}', "\ufffd"),
        ('{"input":"\\ud83dx"}', "\ufffdx"),
        ('{"input":"\\ud83d\\u0041"}', "\ufffdA"),
        ('{"input":"\\ud83d\\ud83d\\ude00"}', "\ufffd😀"),
        ('{"input":"\\ude00"}', "\ufffd"),
        ('{"input":"a\\qb\\u12xz"}', "a\\qb\\u12xz"),
        ('{"input":"line\nbreak\x01"}', "line\nbreak\x01"),
        ('{"input":"truncated', "truncated"),
        ('{"input":"half \\u00', "half "),
        ('{"input":"half \\', "half "),
        ('{"input":"half \\ud83d', "half "),
        ('{"input":"x" garbage', "x"),
        ('"one string"', "one string"),
        ("bare text", "bare text"),
        ("  bare after blanks", "  bare after blanks"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_what_is_shown_of_an_envelope(arguments: str, shown: str) -> None:
    assert decode(arguments) == (shown, False)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"patch":"other key"}',
        '{"input":5}',
        '{"input":null,"input":"too late"}',
        "{ code() }",
        "{",
        "{}",
        "{}{}",
        '{"inp',
        '{"a":1}',
        '{"a" 1}',
        '"two" "strings"',
        '"open',
    ],
)
def test_without_an_envelope_the_arguments_are_the_input_and_it_is_told(arguments: str) -> None:
    assert decode(arguments) == (arguments, True)
    assert "".join(pieces(*arguments)[:-1]) == "", "nothing may be streamed before it is certain"


def test_an_escape_cut_inside_a_skipped_string_is_held() -> None:
    assert "".join(pieces('{"a":"\\', '"","input":"x"}')) == "x"


def test_one_delta_gives_at_most_one_and_the_envelope_never_shows() -> None:
    assert pieces('{"inp', 'ut":"', "CUS", "TOM", '"', "}") == ["", "", "CUS", "TOM", "", "", ""]


def test_half_a_pair_is_held_until_the_other_half_is_known() -> None:
    assert pieces('{"input":"a\\ud8', "3d", "\\ude", '00b"}') == ["a", "", "", "😀b", ""]


def test_bare_text_streams_as_it_comes() -> None:
    assert pieces("  ", "rm ", "-rf") == ["", "  rm ", "-rf", ""]


def test_a_closed_envelope_is_certain_and_an_open_one_is_not() -> None:
    scanner = CustomInput()
    scanner.feed('{"input":"x"')
    assert not scanner.whole
    scanner.feed("}")
    assert scanner.whole


@given(st.text(), st.data())
@example("😀\ud7ff", None)
def test_every_text_comes_back_however_it_is_cut(text: str, data: st.DataObject | None) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=data is None or data.draw(st.booleans()))
    for at in range(len(arguments) + 1):
        assert "".join(pieces(arguments[:at], arguments[at:])) == text


JSONISH = st.text(st.sampled_from('{}[]":,\\udinput8 3DdeE0\n'), max_size=30)


@given(JSONISH)
@example('{"input":"\\ud83d\\u"}')
@example('{}{"input":"a"}')
def test_no_cut_changes_what_is_shown(arguments: str) -> None:
    whole = decode(arguments)
    for at in range(len(arguments) + 1):
        scanner = CustomInput()
        shown = scanner.feed(arguments[:at]) + scanner.feed(arguments[at:])
        shown += scanner.finish(arguments)
        assert (shown, scanner.fallback) == whole
    assert "".join(pieces(*arguments)) == whole[0]
