"""Inputs of custom calls of a chat upstream that have a grammar (contract.md section 6)."""

from tests.translator.chunks import Chunk, calls, chat, chunk, fragment
from tests.translator.drive import CUSTOM, Told


def grammar(definition: str) -> Chunk:
    return {**CUSTOM, "format": {"type": "grammar", "syntax": "lark", "definition": definition}}


LETTERS = 'start: "ab" /c+/'


def custom(
    *pieces: str, definition: str = LETTERS, finish: str = "tool_calls", name: str = "exec"
) -> Told:
    parts = [calls(fragment(0, arguments=piece)) for piece in pieces]
    return chat(calls(fragment(0, "c", name)), *parts, chunk(finish), tools=[grammar(definition)])


def test_an_input_in_its_grammar_passes_as_it_streams() -> None:
    told = custom('{"input":"a', "bc", 'c"}')
    assert told.deltas("custom_tool_call_input") == ["a", "bc", "c"]
    assert told.response["status"] == "completed"


def test_only_the_valid_part_is_shown_and_the_violation_ends_the_response() -> None:
    for later in ([], ["more", '"}']):
        told = custom('{"input":"ab', "cX", *later)
        assert told.deltas("custom_tool_call_input") == ["ab", "c"]
        assert told.response["error"]["code"] == "server_error"
        assert "'exec' does not match its grammar" in told.response["error"]["message"]
        assert (told.output[0]["status"], told.output[0]["input"]) == ("incomplete", "abc")


def test_an_input_that_ends_before_its_grammar_is_a_violation_however_the_call_ends() -> None:
    other = calls(fragment(1, "d", "exec", '{"input":"abc"}'))
    for more in ([], [other]):
        told = chat(
            calls(fragment(0, "c", "exec", '{"input":"ab"}')),
            *more,
            chunk("tool_calls"),
            tools=[grammar(LETTERS)],
        )
        assert told.response["status"] == "failed"
        assert told.output[0]["status"] == "incomplete"
        assert not told.of("custom_tool_call_input.done")


def test_a_raw_input_is_held_against_the_grammar_as_well() -> None:
    assert custom("abcc").output[0]["input"] == "abcc"
    told = custom('{"patch":"abc"}')
    assert (told.output[0]["status"], told.output[0]["input"]) == ("incomplete", "")
    braces = custom('{"patch":1}', definition='start: "{" /[a-z"]+/')
    assert (braces.output[0]["status"], braces.output[0]["input"]) == ("incomplete", '{"patch"')


def test_a_call_cut_by_the_limit_under_a_grammar_is_just_cut() -> None:
    told = custom('{"input":"ab', finish="length")
    assert told.response["status"] == "incomplete"
    assert told.output[0]["input"] == "ab"
