"""Calls of a Responses upstream: names, arguments and their ends (upstream-quirks.md section 3).

One test a symptom.
"""

import json
from typing import Any

import pytest

from tests.translator.drive import (
    CUSTOM,
    FUNCTION,
    added,
    args,
    args_done,
    call,
    completed,
    done,
    ev,
    fold_once,
    message,
    play,
    text,
    whole_call,
)


def test_arguments_before_added_are_held_and_released_with_the_announcement() -> None:
    told = play(
        args('{"a":'),
        added(call("f")),
        args("1}"),
        args_done('{"a":1}'),
        done(call("f", '{"a":1}')),
        completed(),
    )
    assert told.deltas("function_call_arguments") == ['{"a":', "1}"]


def test_arguments_done_is_the_only_carrier() -> None:
    told = play(added(call("f")), args_done('{"a":1}'), done(call("f", '{"a":1}')), completed())
    assert told.deltas("function_call_arguments") == ['{"a":1}']


def test_full_arguments_in_added_and_again_at_done_count_once() -> None:
    told = play(added(call("f", '{"a":1}')), done(call("f", '{"a":1}')), completed())
    assert told.of("output_item.added")[0]["item"]["arguments"] == ""
    assert told.output[0]["arguments"] == '{"a":1}'
    assert play(added(call("f", '{"a":1}')), completed()).output[0]["arguments"] == '{"a":1}'


def test_a_done_with_empty_arguments_leaves_the_deltas_standing() -> None:
    told = play(added(call("f")), args('{"a":1}'), args_done(""), done(call("f", "")), completed())
    assert told.output[0]["arguments"] == '{"a":1}'


def test_other_arguments_at_done_lose_against_whole_streamed_ones_and_are_a_fault_against_half() -> (
    None
):
    assert (
        play(added(call("f")), args('{"a":1}'), args_done('{"a":2}'), completed()).output[0][
            "arguments"
        ]
        == '{"a":1}'
    )
    assert (
        play(added(call("f")), args('{"a":'), args_done('{"b":2}')).response["status"] == "failed"
    )


def test_a_call_without_arguments_has_an_empty_object_and_a_custom_one_an_empty_input() -> None:
    told = play(
        *[e for e in whole_call("f", "") if e["type"] != "response.function_call_arguments.delta"],
        completed(),
    )
    assert told.deltas("function_call_arguments") == ["{}"]
    assert told.output[0]["arguments"] == "{}"
    told = play(*whole_call("exec", ""), completed(), tools=[CUSTOM])
    assert told.output[0]["input"] == ""


def test_arguments_that_are_an_object_are_taken_as_their_json() -> None:
    told = play(added(call("f")), done({**call("f"), "arguments": {"a": 1}}), completed())
    assert told.output[0]["arguments"] == '{"a":1}'


def test_an_empty_object_before_the_arguments_is_a_false_start_and_alone_it_is_the_arguments() -> (
    None
):
    told = play(
        added(call("f")),
        args("{}"),
        args('{"a":1}'),
        args_done('{"a":1}'),
        done(call("f", '{"a":1}')),
        completed(),
    )
    assert told.deltas("function_call_arguments") == ['{"a":1}']
    for end in ([args_done("{}"), done(call("f", "{}"))], [args_done("")], []):
        told = play(added(call("f")), args("{}"), *end, completed())
        assert told.deltas("function_call_arguments") == ["{}"]
    assert (
        play(added(call("f")), args("{}"), args(" "), completed()).output[0]["arguments"] == "{} "
    )
    assert (
        play(
            added(call("exec")), args("{}"), args('{"input":"x"}'), completed(), tools=[CUSTOM]
        ).output[0]["input"]
        == "x"
    )


def test_the_tail_of_an_open_call_after_the_next_item_was_opened() -> None:
    told = play(
        added(call("f", ident="f1")), args('{"a":', 0, "f1"), added(message("m", status="in_progress"), 1),
        text("x", 1, "m"),
        args("1}", 0, "f1"), args_done('{"a":1}', 0, "f1"), done(call("f", '{"a":1}', "f1")),
        done(message("m", "x"), 1), completed(),
    )  # fmt: skip
    assert [i["type"] for i in told.output] == ["function_call", "message"]
    assert told.output[0]["arguments"] == '{"a":1}'


def test_arguments_for_a_finished_call_or_a_message() -> None:
    events = whole_call("f", "{}")
    assert play(*events, args("{}")).response["status"] == "failed"
    assert play(*events, args_done("{}"), completed()).response["status"] == "completed"
    assert (
        play(added(message("fc_up", status="in_progress")), args("{}")).response["status"]
        == "failed"
    )


def test_an_upstreams_own_namespace_stays() -> None:
    told = play(added({**call("f"), "namespace": "ns"}), args("{}"), completed())
    assert told.output[0]["namespace"] == "ns"


def test_fifty_thousand_small_deltas_are_linear() -> None:
    told = fold_once(
        [added(call("exec")), args('{"input":"'), *[args("x")] * 50_000, args('"}'), completed()]
    )
    assert len(told.output[0]["input"]) == 50_000


@pytest.mark.parametrize("late", ["\n", '{"a":1}', "x"])
def test_whole_arguments_do_not_change_after_their_done(late: str) -> None:
    head = [added(call("f")), args('{"a":1}'), args_done('{"a":1}')]
    by_delta = play(*head, args(late), done(call("f", '{"a":1}')), completed())
    by_item = play(*head, done(call("f", '{"a":1}' + late)), completed())
    for told in (by_delta, by_item):
        assert told.deltas("function_call_arguments") == ['{"a":1}']
        assert told.output[0]["arguments"] == '{"a":1}'


def test_arguments_that_were_not_whole_at_their_done_may_still_grow() -> None:
    told = play(
        added(call("f")),
        args('{"a"'),
        args_done('{"a"'),
        args(":1}"),
        done(call("f", '{"a":1}')),
        completed(),
    )
    assert told.output[0]["arguments"] == '{"a":1}'


def test_a_call_outside_allowed_tools_never_shows_and_is_counted() -> None:
    choice = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "get_weather"}],
    }
    told = play(
        *whole_call("exec", '{"input":"x"}'),
        *whole_call("get_weather", "{}", 1, "f2", "c2"),
        *whole_call("nobody_declared", "{}", 2, "f3", "c3"),
        completed(),
        tools=[CUSTOM, FUNCTION],
        tool_choice=choice,
    )
    assert [i["name"] for i in told.output] == ["get_weather"]
    assert len([n for n in told.notes if n.kind == "call of a tool that is not allowed"]) == 2


def test_a_large_input_of_escapes_is_decoded_quickly_and_right() -> None:
    text = "line\n" * 200_000
    arguments = json.dumps({"input": text})
    told = fold_once(
        [
            added(call("exec")),
            args(arguments),
            args_done(arguments),
            done(call("exec", arguments)),
            completed(),
        ]
    )
    assert told.output[0]["input"] == text


@pytest.mark.parametrize("carrier", ["item_id", "call_id"])
@pytest.mark.parametrize("ids", [True, False])
def test_a_call_that_is_told_by_its_call_id_is_that_call(carrier: str, ids: bool) -> None:
    """llama.cpp#20607: deltas name the call by its call id; by order alone two calls would swap their arguments."""
    calls = {"fc_a": ("get_weather", '{"x":1}'), "fc_b": ("get_time", '{"y":2}')}
    items = {
        ident: {**call(name, call_id=ident), "id": f"id_{ident}" if ids else None}
        for ident, (name, _) in calls.items()
    }
    tell = {"function_call_arguments.delta": "delta", "function_call_arguments.done": "arguments"}
    told = play(
        *(added(item, None) for item in items.values()),
        *(
            ev(kind, **{field: calls[ident][1], carrier: ident})
            for kind, field in tell.items()
            for ident in items
        ),
        *(done({**item, "arguments": calls[ident][1]}, None) for ident, item in items.items()),
        completed(),
        tools=[FUNCTION, {**FUNCTION, "name": "get_time"}],
    )
    assert told.response["status"] == "completed"
    assert [(i["name"], i["arguments"]) for i in told.output] == list(calls.values())


@pytest.mark.parametrize("ident", [None, ""])
def test_a_done_that_is_told_again_without_id_and_index_is_no_second_call(
    ident: str | None,
) -> None:
    first, second = (
        {**call("get_weather", '{"x":1}', call_id=c, status="completed"), "id": ident} for c in "cd"
    )
    told = play(
        added({**first, "arguments": "", "status": "in_progress"}, None),
        done(first, None),
        done(first, None),
        added({**second, "arguments": "", "status": "in_progress"}, None),
        done(first, None),
        done(second, None),
        completed(),
    )
    assert told.response["status"] == "completed"
    assert [item["call_id"] for item in told.output] == ["c", "d"]


@pytest.mark.parametrize("status", ["incomplete", "failed"])
@pytest.mark.parametrize(
    "cut",
    [
        call("exec", '{"input":"rm -rf /tmp'),
        call("get_weather", '{"city":"Par'),
        {"type": "custom_tool_call", "id": "c", "call_id": "c", "name": "exec", "input": "rm -rf"},
    ],
    ids=lambda item: item["name"] + item["type"],
)
def test_a_call_that_the_upstream_ends_as_cut_off_is_never_done_whatever_the_response_says(
    cut: dict[str, Any], status: str
) -> None:
    told = play(done({**cut, "status": status}), completed(), tools=[CUSTOM, FUNCTION])
    assert told.response["status"] == "incomplete"
    assert told.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert told.output[0]["status"] == "incomplete"
    assert not told.of("output_item.done")
    assert not [kind for kind in told.types if kind.endswith(("input.done", "arguments.done"))]


def test_whole_arguments_are_whole_although_their_call_is_said_to_be_incomplete() -> None:
    told = play(done(call("get_weather", "{}", status="incomplete")), completed(), tools=[FUNCTION])
    assert told.response["status"] == "completed"
    assert told.output[0]["status"] == "completed"


def test_a_call_that_is_only_done_is_not_taken_for_the_end_of_another_open_one() -> None:
    first, second = call("exec", call_id="c0"), call("get_weather", "{}", call_id="c1")
    told = play(
        added({**first, "id": "f0", "arguments": ""}, None),
        args('{"input":"q"}', None, "f0"),
        done({**second, "id": "f1"}, None),
        done({**first, "id": "f0", "arguments": '{"input":"q"}'}, None),
        completed(),
        tools=[CUSTOM, FUNCTION],
    )
    assert [item["name"] for item in told.output] == ["exec", "get_weather"]


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_done_that_is_told_again_without_its_id_is_an_equal_one(nothing: Any) -> None:
    item = call("get_weather", "{}", status="completed")
    told = play(
        done(item, 0), done({**item, "id": nothing, "namespace": nothing}, 0), completed(),
        tools=[FUNCTION],
    )  # fmt: skip
    assert told.response["status"] == "completed"


def test_arguments_that_begin_in_the_announcement_go_on_in_the_deltas() -> None:
    told = play(
        added(call("exec", '{"inp')), args('ut":"a'), args('b"}'),
        done(call("exec", '{"input":"ab"}')), completed(), tools=[CUSTOM],
    )  # fmt: skip
    assert told.deltas("custom_tool_call_input") == ["a", "b"]
    assert told.output[0]["input"] == "ab"


def test_a_function_is_a_function_whatever_the_upstream_calls_its_call() -> None:
    native = {"type": "custom_tool_call", "id": "c", "call_id": "c", "name": "get_weather"}
    told = play(done({**native, "input": '{"city":"x"}'}), completed(), tools=[FUNCTION])
    (item,) = told.output
    assert (item["type"], item["arguments"]) == ("function_call", '{"city":"x"}')


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"call_id": 123}, {"call_id": 123}),
        ({"id": "a", "call_id": "c1"}, {"id": "b", "call_id": "c2"}),
        ({"id": "a", "call_id": "c1", "name": ""}, {"id": "b", "call_id": "c1"}),
    ],
    ids=["numbers", "another id", "name last"],
)
def test_a_done_without_index_is_the_end_of_the_call_whose_arguments_it_repeats(
    first: dict[str, Any], last: dict[str, Any]
) -> None:
    item = {"type": "function_call", "name": "get_weather", "arguments": ""}
    told = play(
        added({**item, **first}, None),
        ev("function_call_arguments.delta", delta='{"a":1}', item_id=first.get("id")),
        done({**item, **last, "arguments": '{"a":1}'}, None), completed(), tools=[FUNCTION],
    )  # fmt: skip
    (shown,) = told.output
    assert shown["call_id"] == str(first["call_id"])


def test_blanks_behind_the_end_of_a_call_fail_nothing() -> None:
    item = call("get_weather", "{}", status="completed")
    told = play(done(item), args("\n"), completed(), tools=[FUNCTION])
    assert [one["arguments"] for one in told.output] == ["{}"]


@pytest.mark.parametrize("ids", [("c1", "c2"), (1, 2)], ids=["texts", "numbers"])
def test_arguments_that_only_name_their_call_id_find_their_call(ids: tuple[Any, Any]) -> None:
    first, second = (
        {"type": "function_call", "call_id": one, "name": "get_weather"} for one in ids
    )
    told = play(
        added(first, None), added(second, None),
        ev("function_call_arguments.delta", delta='{"a":', call_id=ids[0]),
        ev("function_call_arguments.delta", delta='{"b":', call_id=ids[1]),
        ev("function_call_arguments.done", arguments='{"a":1}', call_id=ids[0]),
        ev("function_call_arguments.done", arguments='{"b":2}', call_id=ids[1]),
        *(done({**one, "arguments": whole}, None)
          for one, whole in ((first, '{"a":1}'), (second, '{"b":2}'), (second, '{"b":2}'))),
        completed(), tools=[FUNCTION],
    )  # fmt: skip
    assert [(one["call_id"], one["arguments"]) for one in told.output] == [
        (str(ids[0]), '{"a":1}'), (str(ids[1]), '{"b":2}'),
    ]  # fmt: skip


def test_calls_that_only_the_end_tells_are_taken_behind_what_was_streamed() -> None:
    thought = {"type": "reasoning", "id": "r", "summary": [], "content": []}
    calls = [call("get_weather", "{}", ident=f"f{n}", call_id=f"c{n}") for n in (1, 2)]
    told = play(
        added(thought, 0), ev("reasoning_text.delta", delta="hm", item_id="r", output_index=0),
        completed(output=[thought, *calls]), tools=[FUNCTION],
    )  # fmt: skip
    assert [one.get("call_id") for one in told.output] == [None, "c1", "c2"]
    streamed = play(done(calls[0], 0), completed(output=[{**calls[0], "call_id": "x"}]))
    assert [one["call_id"] for one in streamed.output] == ["c1"]
    one_id = {**calls[0], "id": "r"}
    spoken = play(done(message("r", "hi"), 0), completed(output=[message("r", "hi"), one_id]))
    assert [one["type"] for one in spoken.output] == ["message", "function_call"]
    failed = {"output": [calls[0]], "error": {"code": "server_error", "message": "m"}}
    broken = play(done(message("r", "hi"), 0), ev("failed", response=failed))
    assert [one["type"] for one in broken.output] == ["message"]


def test_calls_that_are_counted_apart_from_the_open_text_before_them_are_items_of_their_own() -> (
    None
):
    """Ollama gives its first call the output index of the message, which it closes at the end or never."""
    first, second = (call("get_weather", "", ident=f"f{n}", call_id=f"c{n}") for n in (1, 2))
    told = play(
        added(message(), 0), text("Let me look.", 0),
        added(first, 0), args('{"a":1}', 0, "f1"), done({**first, "arguments": '{"a":1}'}, 0),
        added(second, 1), args('{"a":2}', 1, "f2"), done({**second, "arguments": '{"a":2}'}, 1),
        text(" Now.", 0), done(message(text="Let me look. Now."), 0), completed(), tools=[FUNCTION],
    )  # fmt: skip
    said, *calls = told.output
    early = play(
        added(message(), 0), text("Let me look.", 0), added(first, 0), added(second, 1),
        args('{"a":1}', 0, "f1"), args('{"a":2}', 1, "f2"),
        done({**first, "arguments": '{"a":1}'}, 0), done({**second, "arguments": '{"a":2}'}, 1),
        completed(), tools=[FUNCTION],
    )  # fmt: skip
    assert [one["arguments"] for one in early.output[1:]] == ['{"a":1}', '{"a":2}']
    assert said["content"][0]["text"] == "Let me look. Now."
    assert [one["arguments"] for one in calls] == ['{"a":1}', '{"a":2}']
    assert [one["call_id"] for one in calls] == ["c1", "c2"]
