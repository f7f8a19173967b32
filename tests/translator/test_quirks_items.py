"""Which item an event of a Responses upstream belongs to: ids, indexes, types and repeats (upstream-quirks.md section 3).

One test a symptom.
"""

from typing import Any

import pytest

from tests.translator.drive import (
    FUNCTION,
    MESSAGE_LIFE,
    added,
    args,
    call,
    completed,
    done,
    ev,
    fold_once,
    message,
    play,
    text,
    whole_call,
    whole_message,
)


def test_ids_and_indexes_that_are_missing_everywhere() -> None:
    told = play(
        ev("output_item.added", item={"type": "message", "role": "assistant", "content": []}),
        ev("output_text.delta", delta="a"),
        ev(
            "output_item.done",
            item={"type": "message", "content": [{"type": "output_text", "text": "a"}]},
        ),
        ev("output_item.added", item={"type": "function_call", "name": "f", "arguments": ""}),
        ev("function_call_arguments.delta", delta="{}"),
        ev("output_item.done", item={"type": "function_call", "name": "f", "arguments": "{}"}),
        completed(),
    )
    assert told.output[1]["call_id"].startswith("call_")
    assert [i["type"] for i in told.output] == ["message", "function_call"]


def test_ids_that_only_the_deltas_name_and_calls_that_only_their_call_id_tells_apart() -> None:
    def bare(call_id: str, arguments: str = "") -> dict[str, Any]:
        return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}

    told = play(
        added(bare("c1"), None), args('{"a":1}', None, "x1"), added(bare("c2"), None), args('{"a":2}', None, "x2"),
        done(bare("c1", '{"a":1}'), None), done(bare("c2", '{"a":2}'), None), completed(),
    )  # fmt: skip
    assert [(i["call_id"], i["arguments"]) for i in told.output] == [
        ("c1", '{"a":1}'),
        ("c2", '{"a":2}'),
    ]


def test_an_id_that_changes_between_added_and_done_is_found_by_its_index() -> None:
    told = play(
        added(message("a", status="in_progress")),
        text("x", 0, "b"),
        done(message("c", "x")),
        completed(),
    )
    assert len(told.output) == 1


def test_the_announced_call_id_stands() -> None:
    told = play(
        added(call("get_weather", call_id="first")), args("{}"),
        done(call("other", "{}", call_id="second")), completed(tools=[FUNCTION]),
    )  # fmt: skip
    assert (told.output[0]["call_id"], told.output[0]["name"]) == ("first", "get_weather")


def test_two_calls_with_one_call_id_get_different_ones_and_a_number_becomes_text() -> None:
    told = play(
        *whole_call("f", "{}", 0, "a", "same"), *whole_call("f", "{}", 1, "b", "same"), completed()
    )
    first, second = (i["call_id"] for i in told.output)
    assert first == "same"
    assert second.startswith("call_")
    numeric = play(added({**call("f"), "call_id": 7}), args("{}"), completed())
    assert numeric.output[0]["call_id"] == "7"


@pytest.mark.parametrize("index", [-1, 1.5, "0", True])
def test_an_output_index_that_is_no_index_is_a_protocol_fault(index: Any) -> None:
    told = play(ev("output_item.added", item=message(), output_index=index))
    assert told.response["status"] == "failed"


def test_a_second_live_item_on_one_index_is_a_protocol_fault_and_an_equal_repeat_is_none() -> None:
    first = added(message("a", status="in_progress"))
    assert play(first, added(message("b", status="in_progress"))).response["status"] == "failed"
    assert play(first, first, text("x", 0, "a"), completed()).response["status"] == "completed"


def test_an_index_that_is_used_again_after_its_item_ended_is_a_new_item() -> None:
    told = play(*whole_message(["a"], 0, "m1"), *whole_message(["b"], 0, "m2"), completed())
    assert [i["content"][0]["text"] for i in told.output] == ["a", "b"]


def test_a_differing_second_done_is_a_protocol_fault_and_an_equal_one_is_none() -> None:
    events = whole_message(["a"])
    assert play(*events, events[-1], completed()).response["status"] == "completed"
    assert play(*events, done(None), completed()).response["status"] == "completed"
    assert play(*events, done(message("msg_up", "b")), completed()).response["status"] == "failed"


@pytest.mark.parametrize("item", [None, 5, [], {}])
def test_items_that_are_no_items(item: Any) -> None:
    told = play(
        ev("output_item.added", item=item, output_index=0), *whole_message(["a"]), completed()
    )
    assert told.response["status"] == ("completed" if item is None else "failed")
    told = play(ev("output_item.done", item=item, output_index=0), completed())
    assert told.response["status"] == ("completed" if item in (None, {}) else "failed")


def test_an_item_without_a_type_is_known_by_its_keys() -> None:
    assert (
        play(done({"id": "m", "content": [{"type": "text", "text": "a"}]}), completed()).output[0][
            "type"
        ]
        == "message"
    )
    assert (
        play(done({"id": "c", "name": "f", "arguments": "{}"}), completed()).output[0]["type"]
        == "function_call"
    )


def test_an_item_that_changes_its_type_is_a_protocol_fault() -> None:
    assert play(added(message("a")), done(call("f", "{}", "a"))).response["status"] == "failed"
    assert play(text("x", 0, "a"), added(call("f", ident="a"))).response["status"] == "failed"


def test_an_item_that_was_never_closed_is_closed_before_the_end() -> None:
    told = play(added(message(status="in_progress")), text("a"), completed())
    assert told.item_types() == MESSAGE_LIFE


def test_a_second_live_item_on_one_index_under_another_id_from_a_delta() -> None:
    told = play(
        added(message("a", status="in_progress")),
        added(call("f", ident="b"), 1),
        added(call("g", ident="a"), 1),
    )
    assert told.response["status"] == "failed"


def test_a_done_without_its_item_closes_what_was_streamed() -> None:
    told = play(added(message(status="in_progress")), text("a"), done(None), completed())
    assert told.output[0]["content"][0]["text"] == "a"


def test_an_id_that_is_used_again_on_anothers_index_is_a_protocol_fault() -> None:
    told = play(
        *whole_message(["a"], 0, "a"),
        added(message("b", status="in_progress"), 1),
        added(message("a"), 1),
    )
    assert told.response["status"] == "failed"


@pytest.mark.parametrize("item_type", ["banana", "line\nbreak"])
def test_an_item_of_a_type_that_nobody_knows_is_a_protocol_fault(item_type: str) -> None:
    assert play(added({"type": item_type, "id": "x"})).response["status"] == "failed"
    assert play(done({"type": item_type, "id": "x"})).response["status"] == "failed"


def test_thousands_of_parts_items_and_annotations_are_linear() -> None:
    place = {"item_id": "m", "output_index": 1}
    parts = [
        ev("content_part.added", content_index=n, part={"type": "output_text", "text": ""}, **place)
        for n in range(1000)
    ]
    notes = [
        ev(
            "output_text.annotation.added",
            content_index=0,
            annotation={"type": "t", "n": n},
            **place,
        )
        for n in range(1000)
    ]
    behind = [done(message(f"x{n}", "y"), n + 2) for n in range(1000)]
    first = added(call(None, ident="f"), 0)
    named = done(call("f", "{}", "f"), 0)
    told = fold_once([first, *parts, *notes, *behind, named, completed()])
    assert len(told.output) == 1002


@pytest.mark.parametrize("said", [{"type": None}, {}])
def test_an_item_whose_end_does_not_say_its_type_is_the_one_that_is_known(
    said: dict[str, None],
) -> None:
    end = {k: v for k, v in message("msg_up", "a").items() if k != "type"} | said
    told = play(added(message()), text("a"), done(end), completed())
    assert told.response["status"] == "completed"
    assert told.output[0]["content"][0]["text"] == "a"
