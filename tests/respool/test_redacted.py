"""Exports without content: nothing that was written stays, and what is left still folds."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respool.inspection import transfer
from respool.inspection.evidence import of_file
from respool.inspection.redacted import Blanking, JsonText, blank, changed, redacted
from respool.inspection.screen import Screen
from respool.settings import Settings
from respool.unusable import Unusable
from streams import transcript
from streams.scripts.outputs import Frame
from tests.translator.drive import CUSTOM, RID, START_MS, upstream, whole_call, whole_message
from translator.protocol.entries import Entry
from translator.refold import Identical, compare, refold

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.respool"))
TEXT = next(str(path) for path in CASES if path.name == "text.respool")

SAID = [
    *("sky", "blue", "scatters", "brief", "Count", "One, two", "Oslo", "Weather in", "overloaded"),
    *("Grüße", "Begin Patch", "hello.txt", "quarter", "numbers", "report", "Fact", "found.test"),
    *(
        "Simple",
        "Four",
        "Find out",
        "greeting",
        "Everything at once",
        "Thinking it over",
        "\U0001f44b",
    ),
]
"""What people, models and tools say in the cases."""


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_nothing_that_was_said_stays_and_it_still_folds(path):
    whole = of_file(str(path))
    bare = redacted(whole)
    file = b"".join(transcript.lines_of(bare, redacted=True)).decode()
    assert [word for word in SAID if word in file] == []
    assert any(word in path.read_text() for word in SAID)
    frames = [frame.data for frame in bare.frames]
    assert isinstance(compare(refold(bare.rid, bare.entries), frames), Identical)
    assert changed(whole, bare) is None
    assert [e[:3] for e in bare.entries] == [e[:3] for e in whole.entries]
    assert [f.terminal for f in bare.frames] == [f.terminal for f in whole.frames]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def shape(value):
    """A value with its texts and numbers as mere types."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value]
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else value


def texts(value):
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [text for one in inner for text in texts(one)]
    return [value] if isinstance(value, str) else []


@given(VALUES.filter(lambda value: isinstance(value, dict | list)), st.booleans(), st.data())
def test_json_in_pieces_stays_json_and_says_nothing(value, ascii_only, data):
    whole = json.dumps(value, ensure_ascii=ascii_only)
    bare = JsonText().feed(whole)
    assert len(bare) == len(whole)
    found = json.loads(bare)
    assert shape(found) == shape(value)
    for text in texts(found):
        assert blank(text) == text, "it says nothing"
    at = data.draw(st.integers(0, len(whole)))
    pieces = JsonText()
    assert pieces.feed(whole[:at]) + pieces.feed(whole[at:]) == bare


def test_what_is_no_json_says_nothing_either():
    assert JsonText().feed("Hello, world 42") == "Xxxxx, xxxxx 00"
    assert JsonText().feed('{"a": secret}') == '{"a": xxxxxx}'
    assert JsonText().feed('{} {"input": "Grüße"}') == '{} {"input": "Xxxxx"}'


def test_words_of_the_api_stay_and_texts_in_their_place_do_not():
    value = Blanking().value(
        {
            "type": "message",
            "reason": "because I say so",
            "code": "print(1)",
            "name": "get_weather",
            "metadata": {"name": "Ada", "n": 1},
            "format": {"type": "grammar", "definition": "start: A"},
            "parameters": {"properties": {"city": {"type": "string", "enum": ["Oslo"]}}},
            "logprobs": [{"token": "Oslo", "bytes": [79]}],
            "image_url": "data:image/png;base64,AAAA",
        }
    )
    assert value == {
        "type": "message",
        "reason": "xxxxxxx X xxx xx",
        "code": "xxxxx(0)",
        "name": "get_weather",
        "metadata": {"name": "Xxx", "n": 1},
        "format": {"type": "text"},
        "parameters": {"properties": {"city": {"type": "string", "enum": ["Xxxx"]}}},
        "logprobs": [],
        "image_url": "data:,",
    }


def test_blocks_of_any_form_are_blanked():
    log = upstream(
        *whole_message(["Hello"]),
        "no json at all",
        b': a comment\ndata: {"type":\ndata: "response.strange","said":"Hello"}',
        *whole_call("exec", '{"input":"Hello"}', index=1),
        b'data: {"type":"response.completed","response":{"status":"completed","output":[]}}',
        tools=[CUSTOM],
    )
    told = of_log(log.entries)
    assert b"ello" not in b"".join(e.data for e in redacted(told).entries)


def of_log(entries: list[Entry]):
    """A recording of a log that was written by hand."""
    frames = [f for turn in refold(RID, entries) for f in turn.frames]
    whole = of_file(TEXT)
    state = dataclasses.replace(whole.state, created=START_MS)
    shown = [Frame(seq, data, seq == len(frames) - 1) for seq, data in enumerate(frames)]
    return dataclasses.replace(whole, rid=RID, state=state, entries=entries, frames=shown)


async def test_the_command_says_what_it_made(tmp_path, capsys):
    into = tmp_path / "bare.respool"
    await transfer.export(Screen(), Settings(), TEXT, into=into, redact=True)
    assert transcript.read(into.read_bytes()).header["redacted"] is True
    assert capsys.readouterr().err == ""


def test_what_does_not_replay_is_not_redacted():
    whole = of_file(TEXT)
    spoilt = whole.frames[5]._replace(data=whole.frames[5].data.replace(b"blue", b"grey"))
    other = dataclasses.replace(whole, frames=[*whole.frames[:5], spoilt, *whole.frames[6:]])
    with pytest.raises(Unusable, match="does not replay identically"):
        redacted(other)
    assert changed(whole, dataclasses.replace(whole, frames=whole.frames[:-1])) == 11
