"""The chat dialect: each row of upstream-quirks.md section 4, one test a symptom; then the laws over generated streams."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.drive import CUSTOM, FUNCTION, Told, fold, play, upstream
from translator.reasoning_seal import unseal

Chunk = dict[str, Any]


def chunk(finish: str | None = None, **delta: Any) -> Chunk:
    return {
        "id": "cc",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def fragment(
    index: int | None = 0, call_id: Any = None, name: Any = None, arguments: Any = None, **more: Any
) -> Chunk:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    found: Chunk = {"function": function, **more}
    if index is not None:
        found["index"] = index
    if call_id is not None:
        found["id"] = call_id
    return found


def calls(*fragments: Chunk, finish: str | None = None, **delta: Any) -> Chunk:
    return chunk(finish, tool_calls=list(fragments), **delta)


def chat(*chunks: Any, end: str = "ok", **body: Any) -> Told:
    """Play a chat upstream; it ends with `[DONE]` unless another end is asked for."""
    blocks = [c if isinstance(c, (str, bytes)) else json.dumps(c) for c in chunks]
    marker = ["[DONE]"] if end == "ok" else []
    return play(
        *blocks, *marker, end=end, _api="chat", tools=body.pop("tools", [FUNCTION, CUSTOM]), **body
    )


def arguments_of(told: Told) -> list[str]:
    return [item.get("arguments", item.get("input")) for item in told.output]


# ---- text, reasoning, refusals ------------------------------------------------------------------


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


# ---- calls --------------------------------------------------------------------------------------


def test_a_call_streams_its_arguments() -> None:
    told = chat(
        calls(fragment(0, "c", "get_weather", "")),
        calls(fragment(0, arguments='{"a":')),
        calls(fragment(0, arguments="1}")),
        chunk("tool_calls"),
    )
    assert told.deltas("function_call_arguments") == ['{"a":', "1}"]
    assert told.output[0]["call_id"] == "c"


def test_a_custom_call_is_a_custom_call_without_its_envelope() -> None:
    told = chat(
        calls(fragment(0, "c", "exec", '{"inp')),
        calls(fragment(0, arguments='ut":"ls')),
        calls(fragment(0, arguments='"}')),
        chunk("tool_calls"),
    )
    assert told.deltas("custom_tool_call_input") == ["ls"]
    assert told.output[0]["type"] == "custom_tool_call"
    assert b"function_call" not in b"".join(told.frames)


@pytest.mark.parametrize("empty", [[], None])
def test_empty_tool_calls_do_not_close_the_text(empty: Any) -> None:
    told = chat(
        chunk(content="a", tool_calls=empty), chunk(content="b", tool_calls=empty), chunk("stop")
    )
    assert len(told.output) == 1


@pytest.mark.parametrize("call_id", ["", "null", None])
@pytest.mark.parametrize("name", ["", None])
def test_a_continuation_without_id_or_name_is_the_same_call(call_id: Any, name: Any) -> None:
    told = chat(
        calls(fragment(0, "c", "get_weather", '{"a":')),
        calls(fragment(0, call_id, name, "1}")),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"a":1}']


def test_a_name_that_is_repeated_whole_is_not_joined() -> None:
    told = chat(
        *[calls(fragment(0, "c", "get_weather", piece)) for piece in ('{"a"', ":", "1}")],
        chunk("tool_calls"),
    )
    assert (told.output[0]["name"], arguments_of(told)) == ("get_weather", ['{"a":1}'])


def test_a_name_in_fragments_is_joined_and_never_shown_half() -> None:
    told = chat(
        calls(fragment(0, "c", "get_")),
        calls(fragment(0, name="weather")),
        calls(fragment(0, arguments="{}")),
        chunk("tool_calls"),
    )
    assert told.output[0]["name"] == "get_weather"
    assert b'"get_"' not in b"".join(told.frames)


def test_a_name_in_fragments_is_never_shown_half_although_arguments_come_with_them() -> None:
    told = chat(
        calls(fragment(0, "c", "ex", '{"in')),
        calls(fragment(0, name="ec", arguments='put":"ls"}')),
        chunk("tool_calls"),
    )
    (item,) = told.output
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "exec", "ls")
    assert b'"ex"' not in b"".join(told.frames)


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_name_that_is_repeated_behind_whole_arguments_is_no_second_call(nothing: Any) -> None:
    told = chat(
        calls(fragment(0, "c", "get_weather", '{"x":1}')),
        calls(fragment(0, nothing, "get_weather", nothing)),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"x":1}']


def test_a_name_that_another_one_begins_with_waits_for_what_follows() -> None:
    tools = [FUNCTION, {**FUNCTION, "name": "get"}]
    told = chat(
        calls(fragment(0, "c", "get")),
        calls(fragment(0, name="_weather")),
        calls(fragment(0, arguments="{}")),
        chunk("tool_calls"),
        tools=tools,
    )
    assert told.output[0]["name"] == "get_weather"
    told = chat(
        calls(fragment(0, "c", "get")),
        calls(fragment(0, arguments="{}")),
        chunk("tool_calls"),
        tools=tools,
    )
    assert told.output[0]["name"] == "get"


def test_undeclared_names_are_joined_or_taken_as_they_grow() -> None:
    for first, second, whole in (("my_", "tool", "my_tool"), ("my_", "my_tool", "my_tool")):
        told = chat(
            calls(fragment(0, "c", first)),
            calls(fragment(0, None, second)),
            calls(fragment(0, arguments="{}")),
            chunk("tool_calls"),
        )
        assert told.output[0]["name"] == whole


def test_a_declared_name_stands_whatever_follows_it() -> None:
    told = chat(
        calls(fragment(0, None, "get_weather")),
        calls(fragment(0, None, "zzz")),
        calls(fragment(0, "c", None, "{}")),
        chunk("tool_calls"),
    )
    assert told.output[0]["name"] == "get_weather"


def test_id_name_and_arguments_in_three_deltas_and_arguments_first() -> None:
    pieces = [
        fragment(0, "c"),
        fragment(0, None, "exec"),
        fragment(0, None, None, '{"input":"ls"}'),
    ]
    for order in (pieces, pieces[::-1]):
        told = chat(*map(calls, order), chunk("tool_calls"))
        assert told.item_types()[0] == "output_item.added"
        assert told.output[0] | {"id": ""} == {
            "id": "", "type": "custom_tool_call", "status": "completed", "call_id": "c", "name": "exec", "input": "ls",
        }  # fmt: skip


def test_a_call_whose_id_never_comes_is_announced_at_its_end() -> None:
    told = chat(calls(fragment(0, None, "get_weather", "{}")), chunk("tool_calls"))
    assert told.output[0]["call_id"].startswith("call_")


def test_a_numeric_id_becomes_text() -> None:
    assert (
        chat(calls(fragment(0, 7, "get_weather", "{}")), chunk("tool_calls")).output[0]["call_id"]
        == "7"
    )


def test_the_index_is_missing_on_every_delta_of_one_call() -> None:
    told = chat(
        calls(fragment(None, "c", "get_weather", "")),
        calls(fragment(None, arguments='{"a":1}')),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"a":1}']
    told = chat(
        calls(fragment(None, "c", "get_weather", '{"a"')),
        calls(fragment(None, "c", None, ":1}")),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"a":1}']


@pytest.mark.parametrize("ids", [("a", "b"), (None, None)])
def test_two_whole_calls_in_one_delta_without_index(ids: Any) -> None:
    told = chat(
        calls(
            fragment(None, ids[0], "get_weather", '{"a":1}'),
            fragment(None, ids[1], "exec", '{"input":"x"}'),
        ),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"a":1}', "x"]


def test_one_index_for_parallel_calls_with_different_ids() -> None:
    told = chat(
        calls(fragment(0, "a", "get_weather", '{"a":1}')),
        calls(fragment(0, "b", "get_weather", '{"a":2}')),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"a":1}', '{"a":2}']


@pytest.mark.parametrize("index", [0, None])
def test_whole_objects_one_after_the_other_without_ids_are_never_glued(index: int | None) -> None:
    told = chat(
        *[calls(fragment(index, None, "get_weather", f'{{"a":{n}}}')) for n in (1, 2)],
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"a":1}', '{"a":2}']


def test_fragments_of_two_calls_alternate() -> None:
    told = chat(
        calls(fragment(0, "a", "get_weather", '{"a":')), calls(fragment(1, "b", "get_weather", '{"b":')),
        calls(fragment(0, arguments="1}")), calls(fragment(1, arguments="2}")), chunk("tool_calls"),
    )  # fmt: skip
    assert arguments_of(told) == ['{"a":1}', '{"b":2}']


def test_two_calls_that_share_an_id_get_different_ones() -> None:
    told = chat(
        calls(fragment(0, "c", "get_weather", "{}")),
        calls(fragment(1, "c", "get_weather", "{}")),
        chunk("tool_calls"),
    )
    assert len({i["call_id"] for i in told.output}) == 2


@pytest.mark.parametrize("index", [0, None])
def test_two_whole_calls_that_share_an_id_and_a_place_are_never_glued(index: int | None) -> None:
    told = chat(
        calls(fragment(index, "a", "get_weather", '{"x":1}')),
        calls(fragment(index, "a", "get_time", '{"y":2}')),
        chunk("tool_calls"),
        tools=[FUNCTION, {**FUNCTION, "name": "get_time"}],
    )
    assert [(i["name"], i["arguments"]) for i in told.output] == [
        ("get_weather", '{"x":1}'),
        ("get_time", '{"y":2}'),
    ]
    assert len({i["call_id"] for i in told.output}) == 2


@pytest.mark.parametrize("nothing", [None, "", 5])
def test_arguments_that_are_missing_or_null_add_nothing(nothing: Any) -> None:
    odd = {"index": 0, "function": {"arguments": nothing}}
    told = chat(
        calls(fragment(0, "c", "get_weather", '{"a":1')),
        calls(odd),
        calls({"index": 0}),
        calls({"index": 0, "function": None}),
        calls(fragment(0, arguments="}")),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"a":1}']


def test_arguments_that_are_an_object_are_their_json() -> None:
    assert arguments_of(
        chat(calls(fragment(0, "c", "get_weather", {"a": 1})), chunk("tool_calls"))
    ) == ['{"a":1}']


def test_wholly_empty_arguments() -> None:
    assert arguments_of(chat(calls(fragment(0, "c", "get_weather", "")), chunk("tool_calls"))) == [
        "{}"
    ]
    assert arguments_of(chat(calls(fragment(0, "c", "exec", "")), chunk("tool_calls"))) == [""]


def test_a_last_chunk_that_repeats_the_whole_arguments_is_ignored() -> None:
    whole = '{"a":1}'
    told = chat(
        calls(fragment(0, "c", "get_weather", '{"a":')),
        calls(fragment(0, arguments="1}")),
        calls(fragment(0, arguments=whole)),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == [whole]


@pytest.mark.parametrize(
    "again", ['{"a": 1, "b": [2]}', '{ "a":1,"b":[2] }\n', {"a": 1, "b": [2]}, '{"a":1}']
)
def test_an_object_behind_whole_arguments_adds_nothing_however_it_is_written(again: Any) -> None:
    told = chat(
        calls(fragment(0, "c", "get_weather", '{"a":1,"b":[2]}')),
        calls(fragment(0, arguments=again)),
        chunk("tool_calls"),
    )
    assert arguments_of(told) == ['{"a":1,"b":[2]}']


OSLO, ROME = '{"city":"Oslo"}', '{"city":"Rome"}'
W = "get_weather"
NAMED = ("ping", "get_time", "get", W)
REPEATS = {
    "the whole again with other blanks": ([(0, "c", W, ""), (0, "", "", OSLO), (0, "c", W, '{"city": "Oslo"}')], [OSLO]),
    "the whole again, with the name alone": ([(0, "c", W, OSLO), (0, None, W, OSLO)], [OSLO]),
    "nothing again": ([(0, "c", W, OSLO), (0, "c", W, {})], [OSLO]),
    "blanks behind the end": ([(0, "c", W, OSLO), (0, None, W, "\n")], [OSLO]),
    "another object under one id": ([(0, "c", W, OSLO), (0, "c", W, ROME)], [OSLO, ROME]),
    "the same without an index": ([(None, "c", W, OSLO), (None, "c", W, ROME)], [OSLO, ROME]),
    "another object of nobody": ([(0, "c", W, OSLO), (0, None, None, ROME)], [OSLO]),
    "equal calls without ids": ([(0, None, W, OSLO), (0, None, W, OSLO)], [OSLO, OSLO]),
    "names in deltas of their own": (
        [(0, None, W, ""), (0, None, None, OSLO), (0, None, W, ""), (0, None, None, ROME)],
        [OSLO, ROME],
    ),
    "a name on each delta": (
        [(0, None, W, '{"city'), (0, None, W, '":"Oslo"}'), (0, None, W, "")],
        [OSLO],
    ),
    "an empty object before the arguments": ([(0, "c", W, "{}"), (0, None, W, OSLO)], [OSLO]),
    "another id on each delta": (
        [(0, "a", W, '{"ci'), (0, "b", W, 'ty":'), (0, "d", W, '"Oslo"}')],
        [OSLO],
    ),
    "a new id where a call has just begun": (
        [(0, "a", W, '{"city":"Os'), (0, "b", W, ""), (0, None, None, ROME)],
        ['{"city":"Os', ROME],
    ),
    "an id behind its name": ([(None, None, W, ""), (None, "c", None, ""), (None, None, None, OSLO)], [OSLO]),
    "an id behind its arguments": ([(None, None, None, OSLO), (None, "c", W, "")], [OSLO]),
    "an id behind both": ([(None, None, W, OSLO), (None, "c", None, "")], [OSLO]),
    "a call that says nothing": ([(0, "c", W, OSLO), (1, "", "", "")], [OSLO]),
    "another tool's name where nothing came": ([(0, None, "ping", ""), (0, None, "get_time", OSLO)], ["{}", OSLO]),
    "another object in pieces": ([(0, None, W, OSLO), (0, None, W, '{"city":"Ro'), (0, None, None, 'me"}')], [OSLO, ROME]),
    "a name that grows": ([(0, "c", "get", ""), (0, None, W, OSLO)], [OSLO]),
}  # fmt: skip


@pytest.mark.parametrize(("fragments", "arguments"), REPEATS.values(), ids=REPEATS)
def test_what_comes_behind_a_call_is_that_call_again_or_another_one(
    fragments: list[Any], arguments: list[str]
) -> None:
    tools = [{**FUNCTION, "name": name} for name in NAMED]
    told = chat(*(calls(fragment(*one)) for one in fragments), chunk("tool_calls"), tools=tools)
    assert told.response["status"] == "completed"
    assert arguments_of(told) == arguments
    assert len({item["call_id"] for item in told.output}) == len(arguments)
    names = [item["name"] for item in told.output]
    assert names == (["ping", "get_time"] if "{}" in arguments else [W] * len(arguments))


def test_a_call_that_says_nothing_leaves_the_text_open() -> None:
    nothing = [{"index": 0, "id": "", "function": {"name": "", "arguments": ""}}]
    told = chat(chunk(content="a", tool_calls=nothing), chunk(content="b", tool_calls=[{}]))
    (item,) = told.output
    assert item["content"][0]["text"] == "ab"


def test_fragments_without_index_and_id_go_on_with_the_calls_at_their_places_in_the_list() -> None:
    told = chat(
        calls(fragment(None, "a", "get_weather"), fragment(None, "b", "get_weather")),
        calls(fragment(None, arguments='{"n"'), fragment(None, arguments='{"m"')),
        calls(fragment(None, arguments=":1}"), fragment(None, arguments=":2}")),
        chunk("tool_calls"),
    )
    assert [(item["call_id"], item["arguments"]) for item in told.output] == [
        ("a", '{"n":1}'),
        ("b", '{"m":2}'),
    ]


def test_a_stray_custom_object_beside_the_function_is_ignored() -> None:
    told = chat(calls(fragment(0, "c", "get_weather", "{}", custom={})), chunk("tool_calls"))
    assert told.output[0]["type"] == "function_call"


def test_the_old_function_call_form_is_a_call() -> None:
    told = chat(
        chunk(function_call={"name": "get_weather", "arguments": '{"a"'}),
        chunk(function_call={"arguments": ":1}"}),
        chunk("function_call"),
    )
    assert arguments_of(told) == ['{"a":1}']


def test_a_call_without_a_name_fails_a_completed_round() -> None:
    assert (
        chat(calls(fragment(0, "c", None, "{}")), chunk("tool_calls")).response["status"]
        == "failed"
    )
    assert chat(calls(5, "x"), chunk("stop")).output == []


# ---- endings ------------------------------------------------------------------------------------


USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "total_tokens": 7,
    "completion_tokens_details": {"reasoning_tokens": 2},
}


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "eos", None])
def test_every_finish_of_no_known_meaning_is_a_completion_and_done_alone_is_one(
    finish: str | None,
) -> None:
    assert chat(chunk(content="x"), chunk(finish)).response["status"] == "completed"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        *((word, "max_output_tokens") for word in ("length", "model_length", "repetition")),
        *((word, "content_filter") for word in ("content_filter", "sensitive")),
        ("MAX_TOKENS", "max_output_tokens"),
    ],
)
def test_a_cut_is_incomplete_and_so_is_the_last_item(finish: str, reason: str) -> None:
    told = chat(chunk(reasoning="r"), chunk(content="x"), chunk(finish))
    assert told.response["incomplete_details"] == {"reason": reason}
    assert [i["status"] for i in told.output] == ["completed", "incomplete"]


@pytest.mark.parametrize("finish", ["abort", "error", "insufficient_system_resource"])
def test_half_a_call_of_a_server_that_gave_up_is_not_handed_out_as_whole(finish: str) -> None:
    half = calls(fragment(0, "c", "get_weather", '{"city":"O'))
    told = chat(chunk(content="x"), half, chunk(finish), {"choices": [], "usage": USAGE})
    assert told.response["status"] == "failed"
    assert told.response["error"]["code"] == "server_error"
    assert told.response["usage"]["total_tokens"] == 7
    assert [i["status"] for i in told.output] == ["completed", "incomplete"]
    assert not told.of("function_call_arguments.done")


def test_a_budget_spent_in_reasoning_leaves_the_reasoning_alone() -> None:
    assert [i["type"] for i in chat(chunk(reasoning="r"), chunk("length")).output] == ["reasoning"]


def test_a_call_cut_by_the_limit_gets_no_done_and_one_that_another_follows_does() -> None:
    told = chat(
        calls(fragment(0, "a", "get_weather", '{"a":1}')),
        calls(fragment(1, "b", "exec", '{"input":"rm')),
        chunk("length"),
    )
    assert [i["status"] for i in told.output] == ["completed", "incomplete"]
    assert len(told.of("output_item.done")) == 1


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk("stop"), {"choices": [], "usage": USAGE}],
        [{**chunk("stop"), "usage": USAGE}],
        [
            {**chunk(content=""), "usage": {**USAGE, "total_tokens": 1}},
            chunk("stop"),
            {"choices": [], "usage": USAGE},
            {"usage": None},
        ],
        [chunk("stop"), chunk("stop"), {"choices": [], "usage": USAGE}],
    ],
)
def test_the_last_usage_counts_wherever_it_comes_and_there_is_one_end(chunks: list[Chunk]) -> None:
    told = chat(chunk(content="x"), *chunks)
    usage = told.response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 4, 7)
    assert usage["output_tokens_details"]["reasoning_tokens"] == 2


def test_a_finish_without_done_is_an_end_and_neither_is_a_failure() -> None:
    assert chat(chunk(content="x"), chunk("stop"), end="eof").response["status"] == "completed"
    assert chat(chunk(content="x"), end="eof").response["status"] == "failed"
    assert chat(chunk(content="x"), chunk(""), end="eof").response["status"] == "failed"
    for end in ("reset", "timeout"):
        assert chat(chunk(content="x"), chunk("stop"), end=end).response["status"] == "completed"
        assert chat(chunk(content="x"), chunk("length"), end=end).response["status"] == "incomplete"
        assert chat(chunk(content="x"), end=end).response["status"] == "failed"


@pytest.mark.parametrize(
    "block",
    [
        b'event: error\ndata: {"message":"boom","code":"rate_limit_exceeded"}',
        b'data: {"object":"error","message":"boom","code":"rate_limit_exceeded"}',
    ],
)
def test_an_error_that_only_its_event_line_or_its_object_tells_is_a_failure(block: bytes) -> None:
    told = chat(chunk(content="a"), block)
    assert told.response["status"] == "failed"
    assert told.response["error"] == {"code": "rate_limit_exceeded", "message": "boom"}


def test_blanks_behind_a_whole_call_fail_nothing() -> None:
    told = chat(
        calls(fragment(0, "a", "get_weather", "{}")),
        calls(fragment(1, "b", "get_weather", "{}")),
        calls(fragment(0, arguments="\n")),
        chunk("tool_calls"),
    )
    assert (told.response["status"], arguments_of(told)) == ("completed", ["{}", "{}"])


def test_an_error_chunk_is_a_failure_whatever_follows() -> None:
    error = {"error": {"message": "Slow down at http://10.1.1.1/x", "code": "rate_limit_exceeded"}}
    told = chat(chunk(content="x"), error, chunk(content="y"), chunk("stop"))
    assert told.response["error"] == {
        "code": "rate_limit_exceeded",
        "message": "Slow down at [removed]",
    }


@pytest.mark.parametrize("block", ["oops", '{"choices":[', "null", "5", "[1]"])
def test_broken_json_is_a_failure_and_other_values_are_ignored(block: str) -> None:
    status = chat(chunk(content="x"), block, chunk("stop")).response["status"]
    assert status == ("completed" if block in ("null", "5", "[1]") else "failed")


def test_a_stream_that_repeats_the_message_so_far_beside_each_delta_goes_on_to_its_end() -> None:
    def both(delta: Any, so_far: str, finish: str | None = None) -> Chunk:
        one = chunk(finish, **delta)
        one["choices"][0]["message"] = {"role": "assistant", "content": so_far}
        return one

    told = chat(
        both({"content": "I"}, "I"), both({"content": " am"}, "I am"), both({}, "I am", "stop")
    )
    assert told.deltas("output_text") == ["I", " am"]
    assert told.output[0]["content"][0]["text"] == "I am"


def test_a_whole_body_is_taken_as_a_stream_of_one() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "reasoning_content": "hm",
        "tool_calls": [fragment(None, "c", "exec", '{"input":"ls"}', type="function")],
    }
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": USAGE,
    }
    told = play(json.dumps(body, indent=1).encode(), end="ok", _api="chat", tools=[CUSTOM])
    assert [i["type"] for i in told.output] == ["reasoning", "message", "custom_tool_call"]
    assert told.response["usage"]["total_tokens"] == 7
    body["choices"][0]["finish_reason"] = "length"  # type: ignore[index]
    assert play(json.dumps(body).encode(), end="ok", _api="chat").response["status"] == "incomplete"


BODIES = (
    {"detail": "Internal error"},
    {"status": "ok"},
    {},
    {"id": "x", "choices": []},
    chunk(content="x"),
)


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_a_whole_body_that_is_no_completion_is_none(body: Chunk) -> None:
    """The upstream's answer is JSON, and its end is an end: `ok`, without `[DONE]`."""
    log = upstream(json.dumps(body).encode(), end="ok", _api="chat")
    assert fold(log.entries).response["status"] == "failed"


@pytest.mark.parametrize("finish", [None, "stop"])
def test_a_whole_message_behind_deltas_says_nothing_new(finish: str | None) -> None:
    said = {"content": "ab", "reasoning_content": "hm"}
    message = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **said}}
    last = {"object": "chat.completion", "choices": [message], "usage": USAGE}
    told = chat(chunk(reasoning="hm"), chunk(content="a"), chunk(content="b"), last)
    assert [item["type"] for item in told.output] == ["reasoning", "message"]
    assert told.output[1]["content"][0]["text"] == "ab"
    assert told.response["usage"]["total_tokens"] == 7
    role = {"index": 0, "delta": None, "message": {"role": "assistant", "content": ""}}
    told = chat({"choices": [role]}, chunk(content="a"), chunk("stop"))
    assert told.output[0]["content"][0]["text"] == "a"


def test_usage_counts_wherever_a_provider_puts_it_and_an_empty_one_says_nothing() -> None:
    beside = {"choices": [], "usage": USAGE}
    for last in (
        {"choices": [{"index": 0, "delta": {}, "usage": USAGE}]},
        {"choices": [], "x_groq": {"usage": USAGE}},
        beside,
    ):
        told = chat(chunk(content="x"), chunk("stop"), last, {"choices": [], "usage": {}})
        assert told.response["usage"]["total_tokens"] == 7
    failures = ([chunk(content="x"), beside], [beside, {"error": {"message": "boom"}}])
    for chunks in failures:
        told = chat(*chunks, end="eof")
        assert (told.response["status"], told.response["usage"]["total_tokens"]) == ("failed", 7)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": 429, "message": "slow"}, "rate_limit_exceeded"),
        ({"code": "429", "message": "slow"}, "rate_limit_exceeded"),
        ({"type": "insufficient_quota", "code": None}, "insufficient_quota"),
        ({"code": "context_length_exceeded", "type": "server_error"}, "context_length_exceeded"),
        ({"code": ["odd"], "type": {}}, "server_error"),
    ],
)
def test_an_error_in_the_stream_or_in_its_choice_keeps_a_code_that_clients_know(
    error: dict[str, Any], code: str
) -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": "error", "error": error}
    for last in ({"error": error}, {"choices": [choice]}):
        told = chat(chunk(content="x"), last)
        assert (told.response["status"], told.response["error"]["code"]) == ("failed", code)


def test_an_error_in_a_list_or_in_groqs_extension_fails_the_response() -> None:
    error = {"code": 429, "message": "Quota is used up.", "status": "RESOURCE_EXHAUSTED"}
    told = chat(chunk(content="x"), [{"error": error}])
    assert told.response["error"] == {
        "code": "rate_limit_exceeded",
        "message": "Quota is used up.",
    }
    groq = {**chunk("stop"), "x_groq": {"id": "req", "error": "over capacity"}}
    told = chat(chunk(content="x"), groq)
    assert told.response["status"] == "failed"
    assert told.response["error"]["message"] == "over capacity"
    assert chat(chunk(content="x"), ["odd"], chunk("stop")).response["status"] == "completed"


def test_reasoning_that_is_a_list_of_parts_is_their_text() -> None:
    for part in ({"type": "text", "text": "hm"}, {"type": "thinking", "thinking": "hm"}):
        told = chat(chunk(reasoning_content=[part]), chunk("stop"))
        assert told.output[0]["content"][0]["text"] == "hm"


def test_one_call_that_is_no_list_and_an_index_that_is_a_word_are_taken() -> None:
    told = chat(chunk(tool_calls=fragment(0, "c", "get_weather", "{}")), chunk("stop"))
    assert arguments_of(told) == ["{}"]
    worded = chunk(content="x")
    worded["choices"][0]["index"] = "0"
    assert chat(worded, chunk("stop")).output[0]["content"][0]["text"] == "x"


def test_two_whole_messages_in_one_body_are_one_end() -> None:
    bodies = [{"finish_reason": "stop", "message": {"content": text}} for text in "ab"]
    told = chat({"choices": bodies})
    assert told.output[0]["content"][0]["text"] == "a"


def test_an_annotation_behind_its_text_is_not_the_next_ones() -> None:
    cite = {"type": "url_citation", "url": "https://a", "title": "A"}
    call = calls(fragment(0, "c", "get_weather", "{}"))
    told = chat(
        chunk(content="one"), call, chunk(annotations=[cite]), chunk(content="two"), chunk("stop")
    )
    assert told.output[-1]["content"][0]["annotations"] == []


def test_a_whole_message_behind_text_brings_the_calls_that_did_not_stream() -> None:
    last = {"content": "ab", "tool_calls": [fragment(0, "c", "get_weather", "{}")]}
    message = {"index": 0, "finish_reason": "tool_calls", "message": last}
    told = chat(chunk(content="ab"), {"choices": [message]})
    assert [item["type"] for item in told.output] == ["message", "function_call"]
    told = chat(
        chunk(content="ab"), calls(fragment(0, "c", "get_weather", "{}")), {"choices": [message]}
    )
    assert [item["type"] for item in told.output] == ["message", "function_call"]
    unfinished = {"choices": [{"index": 0, "message": {"content": "a"}}]}
    told = chat(chunk(content="a"), unfinished, chunk(content="b"), chunk("length"))
    assert told.response["status"] == "incomplete"
    assert told.output[0]["content"][0]["text"] == "ab"


def test_log_probabilities_beside_a_refusal_open_no_text() -> None:
    token = chunk(content="")
    token["choices"][0]["logprobs"] = {"content": [{"token": "x", "logprob": -1}]}
    told = chat(chunk(refusal="no"), token, chunk("stop"))
    assert [part["type"] for part in told.output[0]["content"]] == ["refusal"]


def test_an_annotation_of_a_refusal_opens_no_text() -> None:
    cite = {"type": "url_citation", "url": "https://a", "title": "A"}
    told = chat(chunk(refusal="no"), chunk(annotations=[cite]), chunk("stop"))
    assert [part["type"] for part in told.output[0]["content"]] == ["refusal"]


def test_other_choices_than_the_first_are_not_taken() -> None:
    other = chunk(content="other")
    other["choices"][0]["index"] = 1
    assert chat(chunk(content="x"), other, chunk("stop")).deltas("output_text") == ["x"]


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


# ---- grammars and sealed reasoning --------------------------------------------------------------


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


def test_reasoning_is_sealed_for_a_client_that_asks_and_for_no_other() -> None:
    told = chat(
        chunk(reasoning="because"),
        chunk(content="x"),
        chunk("stop"),
        include=["reasoning.encrypted_content"],
    )
    assert unseal(told.output[0]["encrypted_content"]) == "because"
    assert "encrypted_content" not in chat(chunk(reasoning="because"), chunk("stop")).output[0]


# ---- laws ---------------------------------------------------------------------------------------


WORDS = st.sampled_from(["a", "bc ", "😀", "\n", '"', "\\"])


@st.composite
def a_call(draw: st.DrawFn, slot: int) -> tuple[tuple[str, str, Any], list[Chunk]]:
    """What a call means, and its fragments in order: split name, late id, cut arguments."""
    name = draw(st.sampled_from(["get_weather", "exec"]))
    value = "".join(draw(st.lists(WORDS, max_size=4)))
    arguments = json.dumps({"input": value}, ensure_ascii=draw(st.booleans()))
    cuts = sorted(draw(st.lists(st.integers(1, len(arguments)), max_size=3)))
    pieces = [
        arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True) if a < b
    ]
    cut = draw(st.integers(0, len(name)))
    heads = [fragment(slot, f"call_{slot}", name)]
    if 0 < cut < len(name):
        heads = [fragment(slot, f"call_{slot}", name[:cut]), fragment(slot, None, name[cut:])]
    meaning = (
        ("custom_tool_call", name, value) if name == "exec" else ("function_call", name, arguments)
    )
    return meaning, [*heads, *(fragment(slot, None, None, piece) for piece in pieces)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[dict[str, str], list[tuple[str, str, Any]], list[Chunk]]:
    """A whole answer: reasoning, text, refusal, then calls whose fragments may interleave."""
    said: dict[str, str] = {}
    chunks: list[Chunk] = []
    for kind, key in (("reasoning", "reasoning"), ("text", "content"), ("refusal", "refusal")):
        words = draw(st.lists(WORDS, max_size=3))
        said[kind] = "".join(words)
        chunks += [chunk(**{key: word}) for word in words]
    made = [draw(a_call(slot)) for slot in range(draw(st.integers(0, 3)))]
    waiting = [list(fragments) for _, fragments in made]
    if draw(st.booleans()):
        chunks += [calls(one) for fragments in waiting for one in fragments]
    else:
        order = [fragments.pop(0) for fragments in waiting]  # appearance in order of slots
        while any(waiting):
            order.append(draw(st.sampled_from([one for one in waiting if one])).pop(0))
        chunks += [calls(one) for one in order]
    return said, [meaning for meaning, _ in made], chunks


@given(streams(), st.sampled_from(["stop", "tool_calls", None]), st.booleans())
def test_any_chat_stream_obeys_the_laws_and_says_what_was_generated(
    stream: Any, finish: Any, usage: bool
) -> None:
    said, meant, chunks = stream
    last = [{"choices": [], "usage": USAGE}] if usage else []
    told = chat(*chunks, chunk(finish), *last)
    assert told.response["status"] == "completed"
    texts = {"reasoning": "", "text": "", "refusal": ""}
    for item in told.output:
        for part in item.get("content", []):
            kind = {"reasoning_text": "reasoning", "output_text": "text"}.get(
                part["type"], "refusal"
            )
            texts[kind] += part.get("text", part.get("refusal"))
    assert texts == said
    found = [
        (i["type"], i["name"], i.get("arguments", i.get("input")))
        for i in told.output
        if "call_id" in i
    ]
    assert found == meant


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": WORDS | st.sampled_from([None, "", 5, [], [{"type": "text", "text": "x"}]]),
        "reasoning": WORDS | st.sampled_from([None, {}, 5]),
        "refusal": WORDS | st.sampled_from([None, 5]),
        "annotations": st.sampled_from([None, [], [5], [{"type": "x"}]]),
        "tool_calls": st.lists(
            st.builds(
                fragment, st.sampled_from([None, 0, 1, "0", -1]), st.sampled_from([None, "", "a", "b", 3]),
                st.sampled_from([None, "", "exec", "get_", "weather", 5]),
                st.sampled_from([None, "", "{", "}", '{"input":"x"}', {}, 5]),
            )
            | st.sampled_from([None, 5, {}]),
            max_size=3,
        ),
    },
)  # fmt: skip


@given(
    st.lists(
        st.builds(
            lambda delta, finish: chunk(finish, **delta),
            FIELDS,
            st.sampled_from([None, "", "stop", "length", 5]),
        ),
        max_size=6,
    ),
    st.sampled_from(["ok", "eof", "reset"]),
)
def test_any_chunks_in_any_order_end_in_one_lawful_stream(chunks: list[Chunk], end: str) -> None:
    chat(*chunks, end=end)
