"""Grammars are compiled or refused, and of an input only what is in the language passes."""

import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator import grammar
from translator.grammar import GrammarPrefix, check
from translator.protocol.errors import RequestError

SETTING = 'start: "SET " NAME "=" NUMBER\nNAME: /[a-zé😀]+/\nNUMBER: /[0-9]+/'
PATCH = """start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

%import common.LF
"""
AMBIGUOUS = 'start: s\ns: s s | "x"'


def lark(definition):
    return {"type": "grammar", "syntax": "lark", "definition": definition}


def regex(definition):
    return {"type": "grammar", "syntax": "regex", "definition": definition}


def refusal(format):
    with pytest.raises(RequestError) as caught:
        check(format, tool="exec", at="tools[0].format")
    assert caught.value.param == "tools[0].format"
    assert caught.value.message.startswith(f"Tool 'exec': its {format['syntax']} grammar cannot")
    return caught.value.message


# ---- at create


@pytest.mark.parametrize(
    "format",
    [
        lark(SETTING),
        lark(PATCH),
        lark(
            'start: "a" // & %json\n  | "&" # & "\n  | /x&y"/ | B\nB: /[&]/ ~ 2..3\n%ignore /[ %&]/'
        ),
        lark("start: WS\n%import common (WS, INT)"),
        regex(r"^(?P<month>January|May)\s+\d{1,2}(?:st|nd)?$"),
        regex("a&b%json"),
        regex(""),
    ],
)
def test_what_can_be_compiled_is_accepted(format):
    check(format, tool="exec", at="tools[0].format")


@pytest.mark.parametrize(
    ("format", "told"),
    [
        (lark("start: hush"), "not in the dialect of LLGuidance at line 1, column 8"),
        (lark('strat: "hush"'), "not in the dialect of LLGuidance."),
        (lark(""), "not in the dialect of LLGuidance."),
        (lark('start: "hush'), "LLGuidance at line 1, column"),
        (lark("start: x\nx: /hush(?=y)/"), "look-behind, is not supported at line 2, column 4"),
        (lark("%import python.NAME\nstart: NAME"), "at line 1, column 1"),
        (regex("hush(?=y)"), "look-around, including look-ahead and look-behind, is not supported."),
        (regex("(hush"), "unclosed group."),
    ],
)  # fmt: skip
def test_what_cannot_be_compiled_is_refused_without_being_quoted(format, told):
    message = refusal(format)
    assert told in message
    assert "hush" not in message


@pytest.mark.parametrize(
    "definition",
    [
        "start: A\nA: /a.*/ & /.*b/",
        'start: %json {"type": "object"}',
        'start: A\nA: %regex {"substring_words": "a b"}',
        '%llguidance {"no_forcing": true}\nstart: "a"',
        'start: %lark { start: "a" }',
        'start: "\\"" A\nA: /a/ & /b/ # "',
        'start: A\nfoo: <"> \nA: /a/ & /b/\nbar: <">',
        'start: A\nA: "/" & "/"',
    ],
)
def test_operators_that_lark_does_not_have_are_refused(definition):
    assert "only Lark's own operators" in refusal(lark(definition))


DOUBLED = "".join(f"T{n}: T{n + 1} T{n + 1}\n" for n in range(25))


@pytest.mark.parametrize(
    "format",
    [
        lark(f'start: T0\n{DOUBLED}T25: "x"'),
        lark("start: " + "(" * 3000 + '"a"' + ")" * 3000),
        regex("(" * 3000 + "a" + ")" * 3000),
    ],
    ids=["doubling", "nested", "nested regex"],
)
def test_a_grammar_that_grows_out_of_hand_is_refused_in_no_time(format):
    before = time.perf_counter()
    refusal(format)
    assert time.perf_counter() - before < 5


def test_a_grammar_of_the_largest_size_is_compiled_in_bounded_time():
    before = time.perf_counter()
    check(lark("start: " + " | ".join(f"/\\w{{50}}{n}/" for n in range(2100))), tool="a", at="")
    assert time.perf_counter() - before < 5


def test_a_grammar_is_compiled_once_unless_it_is_large():
    grammar.compile_once.cache_clear()
    large = lark(SETTING + " " * grammar.CACHED_CHARS)
    for format in (lark(SETTING), lark(SETTING), large, large):
        check(format, tool="exec", at="")
    assert grammar.compile_once.cache_info().misses == 1
    assert grammar.compile_once.cache_info().hits == 1


def test_the_compiler_is_not_loaded_before_a_grammar_comes():
    code = "import translator.outbound, sys; sys.exit('llguidance' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- as the input comes


def fed(format, *pieces):
    """What passes of an input in pieces, and how it ends."""
    prefix = GrammarPrefix(format)
    passed = [prefix.feed(piece) for piece in pieces]
    return passed, prefix.finish(), prefix.fault


def test_what_is_in_the_language_passes_piece_by_piece():
    assert fed(lark(SETTING), "SET sp", "eed=1", "", "29") == (
        ["SET sp", "eed=1", "", "29"],
        True,
        None,
    )
    assert fed(regex("a*"), "aa") == (["aa"], True, None)
    assert fed(regex("a*")) == ([], True, None)


def test_only_the_valid_part_of_a_piece_passes_and_nothing_after_it():
    prefix = GrammarPrefix(lark(SETTING))
    assert prefix.feed("SET speed=1") == "SET speed=1"
    assert not prefix.violated
    assert prefix.feed("2x9") == "2"
    assert prefix.violated
    assert prefix.fault == "does not match its grammar"
    assert prefix.feed("9") == ""
    assert not prefix.finish()
    assert prefix.fault == "does not match its grammar"


def test_an_input_that_stops_too_early_is_told_at_its_end():
    prefix = GrammarPrefix(lark(SETTING))
    assert prefix.feed("SET speed=") == "SET speed="
    assert not prefix.violated
    assert not prefix.finish()
    assert prefix.violated
    assert prefix.fault == "ends before its grammar does"


def test_nothing_may_follow_a_whole_sentence():
    assert fed(lark('start: "ab"'), "ab", "c") == (["ab", ""], False, "does not match its grammar")


@pytest.mark.parametrize(
    ("text", "passed"), [("aé", "aé"), ("aèx", "a"), ("a😀", "a😀"), ("a😁", "a"), ("a\ud83d", "a")]
)
def test_half_a_character_never_passes(text, passed):
    assert fed(lark(SETTING), "SET " + text)[0] == ["SET " + passed]


def test_a_patch_passes_and_a_broken_one_does_not():
    patch = "*** Begin Patch\n*** Add File: a.py\n+é = '\\n'\n+\n*** End Patch\n"
    assert fed(lark(PATCH), *patch) == (list(patch), True, None)
    assert fed(lark(PATCH), patch.replace("+é", "é"))[0] == [
        "*** Begin Patch\n*** Add File: a.py\n"
    ]


@given(st.text("SET spe=129é😀", max_size=20), st.lists(st.integers(0, 20), max_size=5))
def test_however_an_input_is_cut_the_same_part_of_it_passes(text, cuts):
    text = "SET " + text
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(at)]
    whole, ended, fault = fed(lark(SETTING), text)
    passed, ended_too, fault_too = fed(lark(SETTING), *pieces)
    assert "".join(passed) == "".join(whole)
    assert (ended, fault) == (ended_too, fault_too)
    assert text.startswith("".join(passed))


def test_an_input_that_can_be_read_in_too_many_ways_ends_soon():
    before = time.perf_counter()
    prefix = GrammarPrefix(lark(AMBIGUOUS))
    passed = "".join(prefix.feed("xxxx") for _ in range(250))
    assert prefix.fault == "is too long or too ambiguous to be checked against its grammar"
    assert 50 < len(passed) < 1000
    assert time.perf_counter() - before < 5


def test_an_input_has_a_bound(monkeypatch):
    monkeypatch.setattr(grammar, "MAX_INPUT_BYTES", 4)
    prefix = GrammarPrefix(regex("é*"))
    assert prefix.feed("éé") == "éé"
    assert prefix.feed("é") == ""
    assert prefix.fault == grammar.UNCHECKED
    assert not prefix.finish()


def test_a_grammar_that_cannot_be_compiled_here_lets_nothing_pass():
    assert fed(lark("start: gone"), "a") == ([""], False, grammar.UNCHECKED)


def test_calls_of_one_tool_do_not_share_what_they_have_read():
    first, second = GrammarPrefix(lark(SETTING)), GrammarPrefix(lark(SETTING))
    assert first.feed("SET a=1") == "SET a=1"
    assert second.feed("SET b") == "SET b"
    assert first.finish()
    assert not second.finish()
    assert GrammarPrefix(lark(SETTING)).feed("SET") == "SET"


def test_a_token_is_a_byte():
    tokenizer, _ = grammar.machinery()
    text = "a<|tool|>é😀\0\n".encode()
    assert tokenizer.tokenize_bytes(text) == list(text)


def test_the_bounds_are_told_in_the_documents():
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text()
    table = page.partition("| bound |")[2]
    numbers = [
        int(number.replace(",", ""))
        for number in re.findall(r"^\|[^|]+\| (\d[\d,]*)", table, re.MULTILINE)
    ]
    assert numbers == [
        grammar.MAX_GRAMMARS,
        grammar.MAX_DEFINITION_CHARS,
        grammar.MAX_INPUT_BYTES >> 20,
        grammar.MAX_ROW_ITEMS,
        grammar.MAX_LEXER_STATES,
        grammar.LEXER_FUEL,
        grammar.STEP_FUEL,
        grammar.CACHED,
    ]
