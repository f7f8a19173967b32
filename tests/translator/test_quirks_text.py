"""Messages and reasoning of a Responses upstream: parts, text and their details (upstream-quirks.md section 3).

One test a symptom.
"""

from typing import Any

import pytest

from tests.translator.drive import (
    MESSAGE_LIFE,
    added,
    call,
    completed,
    done,
    ev,
    message,
    play,
    text,
    whole_message,
)
from translator.reasoning_seal import seal

CITE = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 1}

PLACE = {"item_id": "msg_up", "output_index": 0, "content_index": 0}


def test_a_message_that_is_only_done_gets_its_whole_lifecycle() -> None:
    told = play(done(message("m", "Hi")), completed())
    assert told.item_types() == MESSAGE_LIFE


def test_missing_parts_and_dones_are_made_up() -> None:
    told = play(text("a", None, "m"), text("b", None, "m"), completed())
    assert told.deltas("output_text") == ["a", "b"]
    assert told.item_types()[-3:] == MESSAGE_LIFE[-3:]


def test_a_content_index_that_grows_with_each_delta_is_one_part() -> None:
    told = play(
        added(message(status="in_progress")), text("He", content_index=0), text("ll", content_index=1),
        text("o", content_index=2), ev("output_text.done", item_id="msg_up", output_index=0, content_index=3, text="Hello"),
        done(message("msg_up", "Hello")), completed(),
    )  # fmt: skip
    assert {e["content_index"] for e in told.events if "content_index" in e} == {0}


def test_parts_that_were_taken_for_one_with_a_growing_index_are_not_told_again_at_the_end() -> None:
    notes = [{"type": "url_citation", "url": f"https://{name}"} for name in "ab"]
    whole = [
        {"type": "output_text", "text": text, "annotations": [note]}
        for text, note in zip(("Hel", "lo"), notes, strict=True)
    ]
    told = play(
        added(message(status="in_progress")), text("Hel", content_index=0), text("lo", content_index=1),
        done({**message("msg_up"), "content": whole}), completed(),
    )  # fmt: skip
    (part,) = told.output[0]["content"]
    assert (part["text"], part["annotations"]) == ("Hello", notes)
    refused = [{"type": "output_text", "text": "Hel"}, {"type": "refusal", "refusal": "lo"}]
    told = play(
        added(message(status="in_progress")), text("Hello"),
        done({**message("msg_up"), "content": refused}), completed(),
    )  # fmt: skip
    assert [p["type"] for p in told.output[0]["content"]] == ["output_text", "refusal"]


def test_two_parts_and_a_refusal_are_three_parts() -> None:
    def part(index: int, kind: str) -> dict[str, Any]:
        return ev(
            "content_part.added",
            item_id="msg_up",
            output_index=0,
            content_index=index,
            part={"type": kind},
        )

    told = play(
        added(message(status="in_progress")), part(0, "output_text"), text("a"),
        ev("content_part.done", item_id="msg_up", output_index=0, content_index=0,
           part={"type": "output_text", "text": "a"}),
        part(1, "output_text"), text("b", content_index=1), part(2, "refusal"),
        ev("refusal.delta", item_id="msg_up", output_index=0, content_index=2, delta="no"), completed(),
    )  # fmt: skip
    assert [p.get("text", p.get("refusal")) for p in told.output[0]["content"]] == ["a", "b", "no"]


def test_text_that_only_came_with_added_counts_at_the_end() -> None:
    told = play(
        added(message(status="in_progress")),
        ev(
            "content_part.added",
            item_id="msg_up",
            output_index=0,
            content_index=0,
            part={"type": "output_text", "text": "all"},
        ),
        completed(),
    )
    assert told.deltas("output_text") == ["all"]


def test_a_done_text_that_extends_the_streamed_one_brings_the_rest() -> None:
    told = play(*whole_message(["Hel"])[:3], done(message("msg_up", "Hello")), completed())
    assert told.deltas("output_text") == ["Hel", "lo"]


def test_a_done_text_that_contradicts_the_streamed_one_is_counted_and_loses() -> None:
    told = play(*whole_message(["Hel"])[:3], done(message("msg_up", "Bye")), completed())
    assert told.output[0]["content"][0]["text"] == "Hel"
    assert [n.name for n in told.notes if n.kind == "tolerated"] == [
        "finished text differs from the streamed one"
    ]


def test_closing_events_of_an_item_that_was_never_opened() -> None:
    empty = [
        ev("output_text.done", output_index=1, item_id="x", content_index=0, text=""),
        ev(
            "content_part.done",
            output_index=1,
            item_id="x",
            content_index=0,
            part={"type": "output_text", "text": ""},
        ),
        ev("content_part.done", output_index=1, item_id="x", content_index=0, part=None),
        ev("content_part.added", output_index=1, item_id="x", content_index=0, part=None),
        done(message("x", ""), 1),
    ]
    assert len(play(*whole_message(["a"]), *empty, completed()).output) == 1
    said = ev("output_text.done", output_index=1, item_id="x", content_index=0, text="said")
    assert play(*whole_message(["a"]), said, completed()).output[1]["content"][0]["text"] == "said"


def test_text_for_an_item_that_ended_is_a_protocol_fault_and_a_late_done_is_none() -> None:
    events = whole_message(["a"])
    assert play(*events, text("b")).response["status"] == "failed"
    late = ev("output_text.done", item_id="msg_up", output_index=0, content_index=0, text="a")
    assert play(*events, late, completed()).response["status"] == "completed"


@pytest.mark.parametrize("delta", [5, ["a"], {"a": 1}])
def test_a_delta_that_is_no_text_is_a_protocol_fault(delta: Any) -> None:
    assert play(ev("output_text.delta", item_id="m", delta=delta)).response["status"] == "failed"
    assert (
        play(ev("function_call_arguments.delta", item_id="m", delta=delta)).response["status"]
        == "failed"
    )


def test_deltas_that_say_nothing_show_nothing() -> None:
    told = play(
        *whole_message(["a"])[:3],
        text(""),
        ev("output_text.delta", item_id="msg_up"),
        ev("function_call_arguments.delta"),
        completed(),
    )
    assert told.deltas("output_text") == ["a"]


def test_a_content_part_of_an_unknown_type_is_a_protocol_fault() -> None:
    part = ev(
        "content_part.added",
        item_id="m",
        output_index=0,
        content_index=0,
        part={"type": "hologram"},
    )
    assert play(part).response["status"] == "failed"


def test_logprobs_are_on_the_deltas_and_all_of_them_on_the_done() -> None:
    one, two = {"token": "a", "logprob": -1}, {"token": "b", "logprob": -2}
    told = play(
        added(message(status="in_progress")), text("x"), {**text("a"), "logprobs": [one]},
        {**text("b"), "logprobs": [two]}, completed(),
    )  # fmt: skip
    assert [e["logprobs"] for e in told.of("output_text.delta")] == [[], [one], [two]]
    assert told.of("output_text.done")[0]["logprobs"] == [one, two]
    assert told.output[0]["content"][0]["logprobs"] == [one, two]


def test_annotations_are_announced_once_whether_streamed_or_only_at_the_end() -> None:
    cite = {
        "type": "url_citation",
        "url": "https://a",
        "title": "A",
        "start_index": 0,
        "end_index": 1,
    }
    end = message("msg_up", "x")
    end["content"][0]["annotations"] = [cite, {**cite, "url": "https://b"}]
    streamed = ev(
        "output_text.annotation.added",
        item_id="msg_up",
        output_index=0,
        content_index=0,
        annotation=cite,
    )
    told = play(*whole_message(["x"])[:3], streamed, streamed, done(end), completed())
    assert [e["annotation_index"] for e in told.of("output_text.annotation.added")] == [0, 1]
    assert told.output[0]["content"][0]["annotations"] == end["content"][0]["annotations"]


@pytest.mark.parametrize("before", [4, 5, 6], ids=["text.done", "part.done", "item.done"])
def test_an_annotation_behind_the_end_of_its_text_doubles_nothing(before: int) -> None:
    late = ev("output_text.annotation.added", annotation=CITE, **PLACE)
    events = whole_message(["see u"])
    told = play(*events[:before], late, *events[before:], completed())
    (part,) = told.output[0]["content"]
    assert part["text"] == "see u"
    shown = [CITE] if before == 4 else []  # behind the part's end it cannot be shown any more
    assert part["annotations"] == shown
    assert [e["annotation"] for e in told.of("output_text.annotation.added")] == shown


@pytest.mark.parametrize("teller", ["content_part.done", "output_item.done"])
def test_annotations_and_logprobs_that_only_the_part_or_the_item_tells_behind_its_text_are_kept(
    teller: str,
) -> None:
    detail = {"annotations": [CITE], "logprobs": [{"token": "x"}]}
    told_whole = {"type": "output_text", "text": "x", **detail}
    end = message("msg_up", "x")
    if teller == "output_item.done":
        end["content"] = [told_whole]
    life = [*whole_message(["x"])[:3], ev("output_text.done", text="x", **PLACE)]
    if teller == "content_part.done":
        life.append(ev(teller, part=told_whole, **PLACE))
    told = play(*life, done(end), completed())
    (part,) = told.output[0]["content"]
    assert {name: part[name] for name in detail} == detail
    assert [e["annotation"] for e in told.of("output_text.annotation.added")] == [CITE]
    assert told.of("output_text.done")[0]["logprobs"] == detail["logprobs"]


def test_a_part_whose_end_is_not_told_closes_before_the_next_one_opens() -> None:
    first, second = PLACE, {**PLACE, "content_index": 1}
    told = play(
        added(message()),
        text("a"),
        ev("output_text.done", text="a", **first),
        text("b", content_index=1),
        ev("output_text.done", text="b", **second),
        done(message("msg_up", None)),
        completed(),
    )
    assert [part["text"] for part in told.output[0]["content"]] == ["a", "b"]
    kinds = [e["type"].removeprefix("response.") for e in told.events if "part" in e["type"]]
    assert kinds == ["content_part.added", "content_part.done"] * 2


@pytest.mark.parametrize("nothing", [{}, {"annotation": None}])
def test_an_annotation_event_without_an_annotation_announces_nothing(
    nothing: dict[str, None],
) -> None:
    empty = ev("output_text.annotation.added", item_id="msg_up", output_index=0, **nothing)
    told = play(added(message()), text("a"), empty, completed())
    assert told.of("output_text.annotation.added") == []
    assert told.output[0]["content"][0]["annotations"] == []


def test_a_phase_is_kept() -> None:
    said = {**message("msg_up", "x"), "phase": "commentary"}
    told = play(
        added({**said, "content": [], "status": "in_progress"}), text("x"), done(said), completed()
    )
    assert told.output[0]["phase"] == "commentary"


def test_vllms_reasoning_parts_become_content_parts() -> None:
    place = {"item_id": "rs_up", "output_index": 0, "content_index": 0}
    item = {
        "type": "reasoning",
        "id": "rs_up",
        "summary": None,
        "content": None,
        "encrypted_content": None,
    }
    told = play(
        added({**item, "status": "in_progress"}),
        ev("reasoning_part.added", part={"type": "reasoning_text", "text": ""}, **place),
        ev("reasoning_text.delta", delta="hm", **place), ev("reasoning_text.done", text="hm", **place),
        ev("reasoning_part.done", part={"type": "reasoning_text", "text": "hm"}, **place),
        done({**item, "content": [{"type": "reasoning_text", "text": "hm"}]}), completed(),
    )  # fmt: skip
    assert told.item_types() == [
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done",
        "content_part.done", "output_item.done",
    ]  # fmt: skip
    assert told.output[0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert told.output[0]["summary"] == []
    assert "encrypted_content" not in told.output[0]


def test_summaries_have_indexes_of_their_own_and_encrypted_content_is_kept() -> None:
    place = {"item_id": "rs_up", "output_index": 0}
    item = {"type": "reasoning", "id": "rs_up", "encrypted_content": "opaque"}
    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    told = play(
        added(item),
        ev("reasoning_summary_part.added", summary_index=0, part={"type": "summary_text", "text": ""}, **place),
        ev("reasoning_summary_text.delta", summary_index=0, delta="a", **place),
        ev("reasoning_summary_text.done", summary_index=0, text="a", **place),
        ev("reasoning_summary_part.done", summary_index=0, part=summary[0], **place),
        ev("reasoning.delta", delta="raw", **place),
        ev("reasoning_summary_text.delta", summary_index=1, delta="b", **place),
        done({**item, "summary": summary}), completed(),
    )  # fmt: skip
    assert [e["summary_index"] for e in told.of("reasoning_summary_part.added")] == [0, 1]
    assert told.output[0]["summary"] == summary
    assert told.output[0]["content"] == [{"type": "reasoning_text", "text": "raw"}]
    assert told.output[0]["encrypted_content"] == "opaque"


def test_reasoning_text_in_a_message_is_a_protocol_fault() -> None:
    told = play(
        added(message(status="in_progress")),
        ev("reasoning_text.delta", item_id="msg_up", output_index=0, delta="x"),
    )
    assert told.response["status"] == "failed"


def test_a_reasoning_item_with_only_opaque_content_is_kept_and_an_empty_one_is_dropped() -> None:
    opaque = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
    assert len(play(done(opaque), completed()).output) == 1
    assert play(done({**opaque, "encrypted_content": None}), completed()).output == []


def test_a_late_part_added_is_the_part_that_its_delta_opened() -> None:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    part = ev("content_part.added", part={"type": "output_text", "text": ""}, **place)
    told = play(text("a", 0, "m"), part, text("b", 0, "m"), completed())
    assert len(told.output[0]["content"]) == 1


def test_null_parts_and_details_of_other_types_say_nothing() -> None:
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    said = {
        **message("msg_up", "a"),
        "content": [None, {"type": "output_text", "text": "a", "logprobs": None}],
    }
    told = play(
        *whole_message(["a"])[:3], ev("output_text.done", part=None, **place),
        {**text("b", content_index=1), "logprobs": "none"}, done(said), completed(),
    )  # fmt: skip
    assert [part["text"] for part in told.output[0]["content"]] == ["a", "b"]


def test_a_text_done_whose_part_is_no_object_says_nothing_new() -> None:
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    told = play(text("ab"), ev("output_text.done", part="none", **place), completed())
    assert told.output[0]["content"][0]["text"] == "ab"


def test_logprobs_of_a_text_that_turns_out_to_be_reasoning_are_not_shown() -> None:
    thought = ev("reasoning_text.delta", delta="a", item_id="r", output_index=0)
    told = play(thought, {**text("b", 0, "m"), "logprobs": [{"token": "b"}]}, completed())
    assert told.deltas("reasoning_text") == ["a", "b"]
    assert told.of("output_text.delta") == []


def test_details_of_an_output_text_in_a_reasoning_item_are_not_shown() -> None:
    detail = {"annotations": [{"type": "url_citation", "url": "u"}], "logprobs": [{"token": "a"}]}
    whole = {"type": "output_text", "text": "ab", **detail}
    item = {"type": "reasoning", "id": "r", "content": [whole], "summary": []}
    thought = ev("reasoning_text.delta", delta="a", item_id="r", output_index=0)
    told = play(thought, done(item), completed())
    assert told.deltas("reasoning_text") == ["a", "b"]
    assert told.of("output_text.annotation.added") == told.of("output_text.delta") == []


def test_logprobs_that_only_the_done_item_tells_are_kept() -> None:
    said = message("msg_up", "a")
    said["content"][0]["logprobs"] = [{"token": "a", "logprob": -1}]
    told = play(done(said), completed())
    assert told.output[0]["content"][0]["logprobs"] == [{"token": "a", "logprob": -1}]


def test_text_without_ids_skips_open_items_of_other_kinds() -> None:
    told = play(
        added(message("m", status="in_progress")), added(call("f", ident="c"), 1), ev("output_text.delta", delta="a"),
        ev("function_call_arguments.delta", delta="{}"),
        ev("output_item.done", item={"type": "reasoning", "content": []}), completed(),
    )  # fmt: skip
    assert [i["type"] for i in told.output] == ["message", "function_call"]


def test_a_part_that_ended_before_its_message_was_cut_ends_once() -> None:
    told = play(*whole_message(["a"])[:5], ev("incomplete", response={}))
    assert told.types.count("content_part.done") == 1
    assert told.output[0]["status"] == "incomplete"


def test_a_text_that_only_the_part_or_the_item_tells_after_an_empty_done_is_streamed() -> None:
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "hello", "annotations": []}
    for told_text in ({"text": ""}, {}):
        empty = ev("output_text.done", **told_text, **place)
        by_part = [empty, ev("content_part.done", part=part, **place)]
        by_item = [empty, ev("content_part.done", part={**part, "text": ""}, **place)]
        for closing in (by_part, by_item):
            opened = whole_message(["x"])[:2]
            told = play(*opened, *closing, done(message("msg_up", "hello")), completed())
            assert told.deltas("output_text") == ["hello"]


@pytest.mark.parametrize("blank", ["", "\n"])
def test_blanks_behind_the_end_of_a_message_fail_nothing(blank: str) -> None:
    told = play(*whole_message(["a"]), text(blank), completed())
    assert told.response["status"] == "completed"
    assert told.output[0]["content"][0]["text"] == "a"


def limit() -> dict[str, Any]:
    """vLLM's end of a response that ran into its limit: every item was ended as completed before."""
    return ev("completed", response={
        "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
    })  # fmt: skip


@pytest.mark.parametrize("kind", ["message", "reasoning"])
def test_the_last_item_of_a_response_that_ran_into_its_limit_is_incomplete(kind: str) -> None:
    key = {"message": "output_text", "reasoning": "reasoning_text"}[kind]
    first, last = (
        {"type": kind, "id": name, "content": [{"type": key, "text": name}], "status": "completed"}
        for name in ("a", "b")
    )
    told = play(done(first, 0), done(last, 1), limit())
    assert told.response["status"] == "incomplete"
    assert [item["status"] for item in told.output] == ["completed", "incomplete"]
    assert [e["item"]["status"] for e in told.of("output_item.done")] == ["completed", "incomplete"]


def test_a_message_that_ended_before_its_response_broke_off_is_whole() -> None:
    told = play(*whole_message(["a"]), end="reset")
    assert (told.response["status"], told.output[0]["status"]) == ("failed", "completed")


def test_a_message_that_ends_behind_another_item_does_not_wait_for_the_end() -> None:
    told = play(
        added(message("m0", status="in_progress"), 0), text("a", 0, "m0"),
        added(message("m1", status="in_progress"), 1), text("b", 1, "m1"),
        done(message("m0", "a"), 0), text("c", 1, "m1"), done(message("m1", "bc"), 1), limit(),
    )  # fmt: skip
    assert [item["status"] for item in told.output] == ["completed", "incomplete"]
    ends = [at for at, kind in enumerate(told.types) if kind == "output_item.done"]
    assert ends[0] < max(at for at, kind in enumerate(told.types) if kind == "output_text.delta")


def test_a_message_that_is_only_done_is_not_taken_for_the_end_of_another_open_one() -> None:
    told = play(
        added(message("m0", status="in_progress"), None), text("one", None, "m0"),
        done(message("m1", "two"), None), done(message("m0", "one"), None), completed(),
    )  # fmt: skip
    assert [item["content"][0]["text"] for item in told.output] == ["one", "two"]


def test_an_item_whose_content_is_a_mere_text_has_one_part() -> None:
    told = play(done({"type": "message", "id": "m", "content": "hi"}), completed())
    assert [part["text"] for part in told.output[0]["content"]] == ["hi"]


@pytest.mark.parametrize("pieces", [("llo",), ("He", "llo"), ("Hello",), ("H", "ello"), ()])
def test_text_that_comes_with_a_part_is_its_beginning_unless_the_deltas_say_it_again(
    pieces: tuple[str, ...],
) -> None:
    begun = "Hello" if not pieces else "He"
    told = play(
        added(message(status="in_progress")),
        ev("content_part.added", item_id="msg_up", output_index=0, content_index=0,
           part={"type": "output_text", "text": begun}),
        *map(text, pieces), done(message("msg_up", "Hello")), completed(),
    )  # fmt: skip
    assert "".join(told.deltas("output_text")) == "Hello"
    assert told.output[0]["content"][0]["text"] == "Hello"


def test_a_part_that_is_opened_again_behind_its_end_is_no_second_one() -> None:
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    opened = ev("content_part.added", **place, part={"type": "output_text", "text": ""})
    told = play(
        added(message(status="in_progress")), opened, text("a"),
        ev("content_part.done", **place, part={"type": "output_text", "text": "a"}), opened,
        done(message("msg_up", "a")), completed(),
    )  # fmt: skip
    assert [part["text"] for part in told.output[0]["content"]] == ["a"]


TWO = {"type": "output_text", "text": "two"}
EMPTY = ("content_part.added", {"part": {**TWO, "text": ""}})


@pytest.mark.parametrize(
    "second",
    [
        [EMPTY, ("output_text.done", {"text": "two"}), ("content_part.done", {"part": TWO})],
        [("content_part.added", {"part": TWO})],
        [EMPTY, ("output_text.delta", {"delta": "two"})],
    ],
    ids=["told at its end", "told as it opens", "streamed"],
)  # fmt: skip
def test_another_part_under_the_index_of_one_that_has_ended_is_shown(second: list[Any]) -> None:
    place = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "one"}
    told = play(
        added(message(status="in_progress")), text("one"),
        ev("content_part.done", **place, part=part),
        *(ev(kind, **place, **fields) for kind, fields in second), completed(),
    )  # fmt: skip
    assert [part["text"] for part in told.output[0]["content"]] == ["one", "two"]


@pytest.mark.parametrize("end", ["broken", completed(), "failed"], ids=str)
def test_an_announced_part_that_nobody_knows_spoils_no_end(end: Any) -> None:
    odd = {"type": "message", "id": "m", "content": [{"type": "input_text", "text": "x"}]}
    failed = ev("failed", response={"error": {"code": "server_error", "message": "mine"}})
    told = play(added(odd), failed if end == "failed" else end)
    assert told.response["status"] == ("failed" if isinstance(end, str) else "completed")
    if end == "failed":
        assert told.response["error"]["message"] == "mine"


def test_annotations_of_a_part_that_another_has_followed_come_too_late() -> None:
    cite = {"type": "url_citation", "url": "https://a"}
    parts = [{"type": "output_text", "text": name} for name in ("ab", "c", "")]
    told = play(
        added(message(status="in_progress")), text("ab"),
        ev("output_text.done", item_id="msg_up", output_index=0, content_index=0, text="ab"),
        ev("content_part.added", item_id="msg_up", output_index=0, content_index=1, part=parts[2]),
        text("c", content_index=1),
        done({**message("msg_up"), "content": [{**parts[0], "annotations": [cite]}, *parts[1:]]}), completed(),
    )  # fmt: skip
    assert [part["text"] for part in told.output[0]["content"]] == ["ab", "c", ""]
    assert not told.of("output_text.annotation.added")


def test_summaries_without_a_type_are_summaries() -> None:
    told = play(
        ev("reasoning_summary_text.delta", delta="a", item_id="r", output_index=0, summary_index=0),
        done({"type": "reasoning", "id": "r", "summary": [{"text": "a"}, {"text": "b"}]}), completed(),
    )  # fmt: skip
    assert [part["text"] for part in told.output[0]["summary"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("streamed", "ended"),
    [
        ([("output_text", "Hello\n")], message("new", "Hello")),
        ([("output_text", " Hello")], message("new", "Hello")),
        (
            [("reasoning_text", "think"), ("reasoning_summary_text", "sum")],
            {
                "type": "reasoning", "id": "new", "summary": [{"type": "summary_text", "text": "sum"}],
                "content": [{"type": "reasoning_text", "text": "think"}],
            },
        ),
    ],
    ids=["end", "begin", "families"],
)  # fmt: skip
def test_a_done_under_a_new_id_and_no_index_is_the_end_of_the_text_that_it_repeats(
    streamed: list[tuple[str, str]], ended: dict[str, Any]
) -> None:
    told = play(
        added({"type": ended["type"], "id": "old"}, None),
        *(ev(f"{kind}.delta", delta=piece, item_id="old") for kind, piece in streamed),
        done(ended, None), completed(),
    )  # fmt: skip
    assert [item["type"] for item in told.output] == [ended["type"]]


def test_an_item_that_is_whole_when_it_is_announced_is_shown() -> None:
    thought = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "so"}]}
    told = play(added(thought, 0), added(message("m", "all"), 1), completed())
    assert told.output[0]["summary"][0]["text"] == "so"
    assert told.output[1]["content"][0]["text"] == "all"


@pytest.mark.parametrize("opaque", [None, "", "theirs"])
def test_reasoning_carries_its_text_for_a_client_that_keeps_nothing_here(
    opaque: str | None,
) -> None:
    """A Responses server without opaque values of its own (vLLM): else the client hands back nothing."""
    content = [{"type": "reasoning_text", "text": "because"}]
    item = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": opaque}
    events = (done({**item, "content": content}), completed())
    (shown,) = play(*events, include=["reasoning.encrypted_content"]).output
    assert shown["encrypted_content"] == (opaque or seal("because"))
    assert play(*events).output[0].get("encrypted_content") == (opaque or None)
