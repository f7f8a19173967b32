"""Calls of a chat upstream: rows of upstream-quirks.md section 4, one test a symptom."""

from typing import Any

import pytest

from tests.translator.chunks import arguments_of, calls, chat, chunk, fragment
from tests.translator.drive import FUNCTION


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


def test_blanks_behind_a_whole_call_fail_nothing() -> None:
    told = chat(
        calls(fragment(0, "a", "get_weather", "{}")),
        calls(fragment(1, "b", "get_weather", "{}")),
        calls(fragment(0, arguments="\n")),
        chunk("tool_calls"),
    )
    assert (told.response["status"], arguments_of(told)) == ("completed", ["{}", "{}"])


def test_one_call_that_is_no_list_and_an_index_that_is_a_word_are_taken() -> None:
    told = chat(chunk(tool_calls=fragment(0, "c", "get_weather", "{}")), chunk("stop"))
    assert arguments_of(told) == ["{}"]
    worded = chunk(content="x")
    worded["choices"][0]["index"] = "0"
    assert chat(worded, chunk("stop")).output[0]["content"][0]["text"] == "x"


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
