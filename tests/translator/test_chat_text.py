"""Text, reasoning and refusals of a chat upstream: rows of upstream-quirks.md section 4, one test a symptom."""

import json
from typing import Any

import pytest

from tests.translator.chunks import Chunk, arguments_of, calls, chat, chunk, fragment
from translator.reasoning_seal import unseal


def test_text_streams_as_one_message() -> None:
    told = chat(
        chunk(role="assistant", content=""),
        chunk(content="Hel"),
        chunk(content="lo"),
        chunk("stop"),
    )
    assert told.deltas("output_text") == ["Hel", "lo"]
    assert told.item_types()[-3:] == ["output_text.done", "content_part.done", "output_item.done"]
    assert told.response["status"] == "completed"


@pytest.mark.parametrize("delta", [{"role": "assistant"}, {"content": None}, {"content": ""}, {}])
def test_chunks_that_say_nothing_open_nothing(delta: Chunk) -> None:
    assert chat(chunk(**delta), chunk("stop")).output == []
    empty = [
        {"choices": []},
        {"choices": None},
        {},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [5]},
    ]
    assert chat(*empty, chunk("stop")).output == []


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_content": "hm", "reasoning": "hm"},
    ],
)
def test_reasoning_in_either_spelling_is_taken_once_and_closed_before_the_text(
    delta: Chunk,
) -> None:
    told = chat(chunk(**delta), chunk(content="x"), chunk("stop"))
    assert told.deltas("reasoning_text") == ["hm"]
    assert [i["type"] for i in told.output] == ["reasoning", "message"]
    types = told.item_types()
    assert (
        types.index("output_item.done")
        < [n for n, t in enumerate(types) if t == "output_item.added"][1]
    )


def test_reasoning_directly_before_a_call_makes_no_phantom_message() -> None:
    told = chat(
        chunk(reasoning="hm"),
        calls(fragment(0, "c", "get_weather", "{}"), content=""),
        chunk("tool_calls"),
    )
    assert [i["type"] for i in told.output] == ["reasoning", "function_call"]


def test_reasoning_text_and_a_call_in_one_delta_come_in_that_order() -> None:
    told = chat(
        calls(fragment(0, "c", "get_weather", "{}"), content="x", reasoning="hm"),
        chunk("tool_calls"),
    )
    assert [i["type"] for i in told.output] == ["reasoning", "message", "function_call"]


def test_text_and_reasoning_again_after_other_items_are_new_items() -> None:
    told = chat(
        chunk(content="a"), calls(fragment(0, "c", "get_weather", "{}")), chunk(content="b"), chunk(reasoning="r"),
        chunk(content="c"), chunk("stop"),
    )  # fmt: skip
    assert [i["type"] for i in told.output] == [
        "message",
        "function_call",
        "message",
        "reasoning",
        "message",
    ]


def test_think_tags_are_text() -> None:
    assert chat(chunk(content="<thi"), chunk(content="nk>x"), chunk("stop")).deltas(
        "output_text"
    ) == ["<thi", "nk>x"]


def test_a_refusal_after_text_is_a_part_of_the_same_message() -> None:
    told = chat(chunk(content="a"), chunk(refusal="no"), chunk(refusal=" way"), chunk("stop"))
    (item,) = told.output
    assert [p.get("text", p.get("refusal")) for p in item["content"]] == ["a", "no way"]


def test_logprobs_are_on_the_deltas_and_all_of_them_on_the_done() -> None:
    one, two = {"token": "a", "logprob": -1}, {"token": "b", "logprob": -2}
    first, second = chunk(content="a"), chunk(content="b")
    first["choices"][0]["logprobs"] = {"content": [one]}
    second["choices"][0]["logprobs"] = {"content": [two]}
    told = chat(first, second, chunk("stop"))
    assert [e["logprobs"] for e in told.of("output_text.delta")] == [[one], [two]]
    assert told.output[0]["content"][0]["logprobs"] == [one, two]


def test_logprobs_of_a_token_without_text_are_on_the_next_delta() -> None:
    """A token that is part of a character: its text comes with the token that ends it."""
    tokens = [{"token": name, "logprob": -0.1} for name in "abcd"]
    chunks = [chunk(content=text) for text in ("x", "", "\N{GRINNING FACE}", "")]
    for made, token in zip(chunks, tokens, strict=True):
        made["choices"][0]["logprobs"] = {"content": [token]}
    told = chat(*chunks, chunk("stop"))
    first, half, other, _ = tokens
    assert [e["logprobs"] for e in told.of("output_text.delta")] == [[first], [half, other]]
    assert told.output[0]["content"][0]["logprobs"] == [first, half, other]


def test_annotations_are_flattened_and_announced_once() -> None:
    cite = {"type": "url_citation", "url_citation": {"url": "https://a", "title": "A"}}
    told = chat(
        chunk(annotations=[cite]),
        chunk(content="x"),
        chunk(annotations=[cite]),
        chunk(annotations=[cite, 5]),
        chunk("stop"),
    )
    assert told.output[0]["content"][0]["annotations"] == [
        {"type": "url_citation", "url": "https://a", "title": "A"}
    ]
    flat = {"type": "file_citation", "file_id": "f"}
    assert chat(chunk(content="x"), chunk(annotations=[flat])).output[0]["content"][0][
        "annotations"
    ] == [flat]


@pytest.mark.parametrize("between", [[], [chunk(reasoning="hm")], [chunk(content="")]])
def test_an_annotation_before_the_text_is_told_with_its_first_characters(
    between: list[Any],
) -> None:
    cite = {"type": "url_citation", "url": "https://a", "title": "A"}
    told = chat(chunk(annotations=[cite]), *between, chunk(content="x"), chunk("stop"))
    assert told.output[-1]["content"][0]["annotations"] == [cite]
    kinds = [event["type"] for event in told.events]
    text, annotated = (f"response.output_text.{what}" for what in ("delta", "annotation.added"))
    assert kinds.index(text) < kinds.index(annotated)
    assert chat(chunk(annotations=[cite]), chunk("stop")).output == []


def test_a_content_list_gives_its_reasoning_and_its_text() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "thinking", "thinking": "!"},
        {"type": "text", "text": "x"}, {"type": "image_url"}, 5,
    ]  # fmt: skip
    told = chat(chunk(content=content), chunk("stop"))
    assert told.deltas("reasoning_text") == ["hm!"]
    assert told.deltas("output_text") == ["x"]


def test_text_that_is_no_text_is_a_protocol_fault() -> None:
    assert chat(chunk(content=5)).response["status"] == "failed"


def test_reasoning_that_is_a_list_of_parts_is_their_text() -> None:
    for part in ({"type": "text", "text": "hm"}, {"type": "thinking", "thinking": "hm"}):
        told = chat(chunk(reasoning_content=[part]), chunk("stop"))
        assert told.output[0]["content"][0]["text"] == "hm"


def test_an_annotation_behind_its_text_is_not_the_next_ones() -> None:
    cite = {"type": "url_citation", "url": "https://a", "title": "A"}
    call = calls(fragment(0, "c", "get_weather", "{}"))
    told = chat(
        chunk(content="one"), call, chunk(annotations=[cite]), chunk(content="two"), chunk("stop")
    )
    assert told.output[-1]["content"][0]["annotations"] == []


def test_log_probabilities_beside_a_refusal_open_no_text() -> None:
    token = chunk(content="")
    token["choices"][0]["logprobs"] = {"content": [{"token": "x", "logprob": -1}]}
    told = chat(chunk(refusal="no"), token, chunk("stop"))
    assert [part["type"] for part in told.output[0]["content"]] == ["refusal"]


def test_an_annotation_of_a_refusal_opens_no_text() -> None:
    cite = {"type": "url_citation", "url": "https://a", "title": "A"}
    told = chat(chunk(refusal="no"), chunk(annotations=[cite]), chunk("stop"))
    assert [part["type"] for part in told.output[0]["content"]] == ["refusal"]


def test_halves_of_a_surrogate_pair_join_over_chunks_and_lone_ones_anywhere_are_mended() -> None:
    halves = [
        '{"choices":[{"delta":{"content":"a\\ud83d"}}]}',
        '{"choices":[{"delta":{"content":"\\ude00b"}}]}',
    ]
    assert chat(*halves, chunk("stop")).output[0]["content"][0]["text"] == "a😀b"
    call = '{"id":"c\\ud800","function":{"name":"n\\ud800","arguments":"{\\"a\\":\\"\\ud800\\"}"}}'
    odd = '{"choices":[{"delta":{"content":"x","annotations":[{"type":"t","u":"\\ud800"}],"tool_calls":[%s]}}]}'
    told = chat(odd % call, chunk("tool_calls"))
    assert (told.output[1]["call_id"], told.output[1]["name"]) == ("c\ufffd", "n\ufffd")
    as_object = call.replace('"{\\"a\\":\\"\\ud800\\"}"', '{"a":"\\ud800"}')
    assert arguments_of(chat(odd % as_object, chunk("tool_calls")))[1:] == ['{"a":"\ufffd"}']


def test_a_deeply_nested_annotation_fails_the_response_and_braces_in_a_text_do_not() -> None:
    deep: Any = 1
    for _ in range(230):
        deep = [deep]
    assert (
        chat(chunk(content="x", annotations=[{"type": "t", "x": deep}])).response["status"]
        == "failed"
    )
    text = "{[" * 500
    half = json.dumps(chunk(content=text + "@")).replace("@", "\\ud83d")
    assert chat(half, chunk("stop")).response["status"] == "completed"


def test_reasoning_is_sealed_for_a_client_that_asks_and_for_no_other() -> None:
    told = chat(
        chunk(reasoning="because"),
        chunk(content="x"),
        chunk("stop"),
        include=["reasoning.encrypted_content"],
    )
    assert unseal(told.output[0]["encrypted_content"]) == "because"
    assert "encrypted_content" not in chat(chunk(reasoning="because"), chunk("stop")).output[0]
