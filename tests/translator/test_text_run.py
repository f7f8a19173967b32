"""A run is folded like the blocks that it is made of: same frames, whatever comes in between (`play` compares both ways)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.drive import (
    CUSTOM,
    FUNCTION,
    RID,
    Log,
    PlainMachine,
    Told,
    added,
    args,
    args_done,
    block,
    call,
    done,
    ev,
    message,
    play,
    text,
)
from translator.items import Text
from translator.machine import Machine
from translator.output import Output
from translator.protocol.entries import Entry
from translator.text_run import MAX_MISSES, Form, Growing, Run

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "a", '"', "\\", '\\"', "\n", "😀", ",", '"delta":"', '","delta":"x', "0"]),
)


def raw(text: str, number: int | str = 5, **fields: Any) -> bytes:
    """A block as vLLM writes it, with the number behind the text."""
    said = {"content_index": 0, "delta": text, "item_id": "m", "logprobs": [], "output_index": 0}
    event = {**said, "sequence_number": number, "type": "response.output_text.delta", **fields}
    return block(json.dumps(event, separators=(",", ":")))


def text_of(form: Form, data: bytes) -> str | None:
    """What a run of this form reads in a block; None where it takes none of it."""
    text, out = Text(), Output()
    run = Run(form, Growing(text, lambda _: None))
    return text.joined() if run.take([Entry(1, "frame", 0, data)], 0, 1, out) else None


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("ascii_only", [True, False])
@given(first=TEXTS, second=TEXTS)
def test_the_text_of_a_block_of_the_same_form_is_read(order, ascii_only, first, second) -> None:
    def made(number: int, text: str) -> bytes:
        fields = {"type": "t", "sequence_number": number, "x": "y", "delta": text, "z": [1]}
        return json.dumps(dict(list(fields.items())[::order]), ensure_ascii=ascii_only).encode()

    form = Form.of(made(7, first), first)
    assert form is not None
    assert text_of(form, made(8, second)) == second
    assert text_of(form, made(10**12, second)) == second


@given(before=TEXTS, spoilt=st.data())
def test_a_block_that_differs_anywhere_else_is_of_another_form(before, spoilt) -> None:
    good = raw(before)
    form = Form.of(good, before)
    assert form is not None
    at = spoilt.draw(st.integers(0, len(good) - 1))
    other = good[:at] + spoilt.draw(st.binary(max_size=2)) + good[at + 1 :]
    text = text_of(form, other)
    if text is not None:
        event = json.loads(other.partition(b"data: ")[2])
        same = {"delta": text, "sequence_number": event["sequence_number"]}
        assert event == {**json.loads(good.partition(b"data: ")[2]), **same}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"delta":"a","content":"b"}', "a"),  # which of them grows?
        (b'{"delta":"a","inner":{"delta":"b"}}', "a"),
        (b'{"delta":{"x":"a"}}', "a"),
        (b'{"delta":"a","sequence_number":1,"x":{"sequence_number":2}}', "a"),
        (b'{"delta":"\\ud83d"}', "\ud83d"),
        (b'{"d\\u0065lta":"a"}', "a"),
        (b'{"delta":"a', "a"),
        (b"[1]", "a"),
    ],
)
def test_a_block_that_could_be_read_in_two_ways_begins_no_run(data: bytes, text: str) -> None:
    assert Form.of(data, text) is None


def test_a_number_inside_the_text_is_text() -> None:
    said = '{"sequence_number":1'
    form = Form.of(b'{"delta":%b}' % json.dumps(said).encode(), said)
    assert form is not None
    assert text_of(form, b'{"delta":"x"}') == "x"


@pytest.mark.parametrize("number", [b"05", b"-5", b"5.0", b"5e1", b'"5"', b"", b"5 "])
def test_a_number_of_another_kind_is_not_the_same_form(number: bytes) -> None:
    form = Form.of(b'{"sequence_number":4,"delta":"a"}', "a")
    assert form is not None
    assert text_of(form, b'{"sequence_number":%b,"delta":"a"}' % number) is None


@pytest.mark.parametrize("said", [b"5", b"null", b'["a"]', b'"a","x":"b"', b'"\\ud83d"', b'"a'])
def test_a_text_of_another_kind_is_not_the_same_form(said: bytes) -> None:
    form = Form.of(b'{"delta":"a"}', "a")
    assert form is not None
    assert text_of(form, b'{"delta":%b}' % said) is None
    assert text_of(form, b"{}") is None


BLOCKS = st.lists(
    st.one_of(
        st.builds(raw, TEXTS, st.integers(1, 999)),
        st.builds(lambda t: raw(t, item_id="other"), TEXTS),
        st.builds(lambda t: raw(t, type="response.reasoning_text.delta", item_id="r"), TEXTS),
        st.builds(lambda t: raw(t, logprobs=[{"token": t}]), TEXTS),
        st.builds(lambda t: raw(t, delta=[t]), TEXTS),
        st.sampled_from(
            [
                raw("\\ud83d").replace(b"\\\\u", b"\\u"),
                raw("\\ude00!").replace(b"\\\\u", b"\\u"),
                block("[DONE]"),
                block({"type": "response.content_part.done", "item_id": "m", "part": {}}),
                block(done(message("m", "ab"))),
                block({"type": "response.unheard_of"}),
            ]
        ),
    ),
    max_size=12,
)


@given(blocks=BLOCKS)
def test_runs_change_nothing_that_is_public(blocks: list[bytes]) -> None:
    play(*blocks)


@given(
    said=st.lists(
        st.tuples(st.sampled_from(["content", "reasoning_content", "refusal"]), TEXTS), max_size=12
    )
)
def test_nor_in_the_chat_dialect(said: list[tuple[str, str]]) -> None:
    chunks: list[str] = []
    for key, piece in said:
        choice = {"index": 0, "delta": {key: piece}, "finish_reason": None}
        chunks.append(json.dumps({"id": "c", "choices": [choice]}))
    play(*chunks, "[DONE]", end="ok", _api="chat")


ARGUMENTS = st.lists(
    st.one_of(TEXTS, st.sampled_from(['{"input":"', '"}', "{}", "\\u00", "e9"])), max_size=10
)


@given(
    pieces=ARGUMENTS,
    name=st.sampled_from(["exec", "get_weather", "nobody_declared", "web_search", None]),
    late=st.booleans(),
    between=st.sampled_from([None, "text", "other call", "done"]),
    at=st.integers(0, 10),
)
def test_nor_in_calls(pieces, name, late, between, at) -> None:
    def delta(piece: str, number: int) -> dict[str, Any]:
        return {**args(piece), "sequence_number": number}

    deltas = [delta(piece, number) for number, piece in enumerate(pieces, 2)]
    others = {
        "text": [text("x", 1)],
        "other call": [added(call("exec", ident="fc_2", call_id="call_2"), 1)],
        "done": [args_done("".join(pieces))],
    }
    deltas[at:at] = others.get(between or "", [])
    opening = [added(call(None if late else name))]
    closing = [done(call(name, "".join(pieces)))] if name else []
    play(*opening, *deltas, *closing, tools=[CUSTOM, FUNCTION])


@given(pieces=st.lists(TEXTS, max_size=8))
def test_nor_in_custom_calls_that_the_upstream_knows(pieces: list[str]) -> None:
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "exec", "input": ""}
    deltas = [
        ev("custom_tool_call_input.delta", delta=piece, item_id="ct", output_index=0)
        for piece in pieces
    ]
    play(added(item), *deltas, done({**item, "input": "".join(pieces)}), tools=[CUSTOM])


def fed(machine: Machine, blocks: list[bytes]) -> Told:
    log = Log().attempt().frames(*blocks)
    frames = [frame for entry in log.entries for frame in machine.feed(entry).frames]
    return Told(frames, machine, [], [])


@given(
    said=st.lists(
        st.tuples(st.sampled_from(["", " ", "\t", "\n"]), TEXTS, st.sampled_from(["", " "])),
        max_size=6,
    )
)
def test_blanks_of_an_upstream_are_not_shown(said: list[tuple[str, str, str]]) -> None:
    """`play` holds it against the machine that reads every block whole."""
    blocks = [raw("first")]
    for before, piece, behind in said:
        text_of_it = json.dumps(piece)
        whole = raw("first").replace(b'"first"', f"{before}{text_of_it}{behind}".encode())
        blocks.append(whole if b"\n\n" not in whole else raw(piece))
    play(*blocks)


def test_a_piece_with_a_blank_behind_it_is_written_without() -> None:
    told = play(raw("a"), raw("b").replace(b'"b"', b'"b" '), raw("c").replace(b'"c"', b' "c"'))
    assert told.deltas("output_text") == ["a", "b", "c"]
    assert not any(b'"delta":"b" ' in frame or b'"delta": ' in frame for frame in told.frames)


def test_most_of_a_stream_is_read_as_a_run() -> None:
    machine = Machine(RID)
    told = fed(machine, [raw(f"word {number}", number) for number in range(1, 100)])
    assert machine._run is not None
    assert machine._run.taken
    assert told.deltas("output_text") == [f"word {number}" for number in range(1, 100)]


def test_an_upstream_whose_blocks_always_differ_is_compared_no_more() -> None:
    padded = [raw("x", number, obfuscation="o" * number) for number in range(1, 50)]
    machine = fed(Machine(RID), padded).machine
    assert machine._run is None
    assert machine._misses == MAX_MISSES


def test_a_response_past_its_bytes_ends_in_the_middle_of_a_run() -> None:
    blocks = [raw("x" * 500, number) for number in range(1, 40)]
    told = play(*blocks, _max_response_bytes=9_000)
    assert told.types[-1] == "failed"
    assert len(told.of("output_text.delta")) < 20


def test_an_input_that_leaves_its_grammar_in_the_middle_of_a_run_ends_the_response_there() -> None:
    letters = {"type": "grammar", "syntax": "lark", "definition": "start: /[a-z]+/"}
    deltas = [
        {**args(piece), "sequence_number": number}
        for number, piece in enumerate(['{"input":"', *"abc", "4", *"def"], 2)
    ]
    told = play(
        added(call("exec")), *deltas, tools=[{**CUSTOM, "format": letters}], _api="responses"
    )
    assert told.types[-1] == "failed"
    assert told.deltas("custom_tool_call_input") == ["a", "b", "c"]


def test_a_plain_machine_makes_no_runs() -> None:
    """What `play` compares with must really be the other way."""
    machine = fed(PlainMachine(RID), [block(text("a")), block(text("b"))]).machine
    assert machine._run is None
