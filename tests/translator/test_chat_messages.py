"""Whatever the order of the items, a turn is one assistant message and the outputs of its calls."""

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.bodies import (
    call,
    custom_call,
    custom_output,
    function,
    namespace,
    output,
    sent_chat,
    user,
)
from tests.translator.strict_chat import check_messages
from translator.reasoning_seal import seal


def said(text, role="assistant"):
    return {"type": "message", "role": role, "content": text}


def thought(text=None, **more):
    content = None if text is None else [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "summary": [], "content": content, **more}


def up(*items, history=(), reasoning="none", **fields):
    """The messages of a conversation, which are fit for a strict server."""
    sent = sent_chat(history, thoughts_in=reasoning, input=list(items), **fields)["messages"]
    check_messages(sent)
    return sent


def brief(messages):
    """Who says what: calls by their ids, outputs by their text."""
    return [
        (one["role"], one["content"], *(made["id"] for made in one.get("tool_calls", ())))
        for one in messages
    ]


def test_a_custom_call_is_a_function_call_that_is_escaped_once():
    assert up(user("hi"), custom_call("k1", text='echo "a"\n'), custom_output("k1", "a")) == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "k1",
                    "type": "function",
                    "function": {"name": "exec", "arguments": '{"input":"echo \\"a\\"\\n"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "k1", "content": "a"},
    ]


@given(st.text())
def test_custom_input_is_wrapped_and_nothing_is_escaped_twice(text):
    (made, _) = up(custom_call("a", text=text), output("a"))
    assert json.loads(made["tool_calls"][0]["function"]["arguments"]) == {"input": text}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [('{"a": 1}', '{"a": 1}'), ("", "{}"), ('{"a": ', '{"raw":"{\\"a\\": "}'), ("[1]", None)],
)
def test_arguments_are_json_that_a_strict_server_parses(arguments, sent):
    made = up(call("a", arguments=arguments), output("a"))[0]["tool_calls"][0]["function"]
    assert made["arguments"] == (sent or '{"raw":"[1]"}')


def test_calls_of_a_namespace_have_the_visible_name():
    tools = [function("search"), namespace("docs", function("search"))]
    items = [call("a", "search", namespace="docs"), call("b", "search"), output("a"), output("b")]
    made = up(*items, tools=tools)[0]["tool_calls"]
    assert made[0]["function"]["name"].startswith("docs__search_")
    assert made[1]["function"]["name"] == "search"


# ---- turns


A, B, C = call("a"), call("b"), call("c")
TURN = [("assistant", "Let me see", "a", "b"), ("tool", "1"), ("tool", "2")]


@pytest.mark.parametrize(
    "items",
    [
        [said("Let me see"), A, B, output("a", "1"), output("b", "2")],
        [said("Let me see"), A, B, output("b", "2"), output("a", "1")],
        [A, said("Let me see"), B, output("a", "1"), output("b", "2")],
        [A, B, said("Let me see"), output("b", "2"), output("a", "1")],
        [A, B, output("b", "2"), said("Let me see"), output("a", "1")],
        [thought("hm"), said("Let me see"), A, thought("hm"), B, output("a", "1"), thought("so"),
         output("b", "2")],
    ],
)  # fmt: skip
def test_parallel_calls_are_one_message_with_the_words_before_and_the_outputs_after(items):
    assert brief(up(*items)) == TURN


def test_calls_that_waited_for_each_other_are_turns_of_their_own():
    items = [said("1"), A, output("a", "x"), said("2"), B, output("b", "y"), C, output("c", "z"), said("3")]  # fmt: skip
    assert brief(up(*items)) == [
        ("assistant", "1", "a"),
        ("tool", "x"),
        ("assistant", "2", "b"),
        ("tool", "y"),
        ("assistant", None, "c"),
        ("tool", "z"),
        ("assistant", "3"),
    ]


def test_what_others_say_between_calls_and_outputs_comes_after_them():
    items = [A, user("hurry"), B, output("b", "2"), user("now"), output("a", "1"), user("well")]
    assert brief(up(*items)) == [
        ("assistant", None, "a", "b"),
        ("tool", "1"),
        ("tool", "2"),
        ("user", "hurry"),
        ("user", "now"),
        ("user", "well"),
    ]


def test_a_detail_that_chat_does_not_know_is_the_most_that_it_does():
    urls = {"low": "low", "original": "high", None: None}
    for detail, sent in urls.items():
        image = {"type": "input_image", "image_url": "data:image/png;base64,QQ==", "detail": detail}
        (told,) = up(user([image]))
        assert told["content"][0]["image_url"].get("detail") == sent


def test_images_of_outputs_come_before_what_others_said_meanwhile():
    image = {"type": "input_image", "image_url": "data:image/png;base64,QQ=="}
    items = [A, B, user("hurry"), output("b", [image]), output("a", [image])]
    *_, images, hurry = up(*items)
    assert [part.get("text") for part in images["content"]] == [
        "Output of the call a:",
        None,
        "Output of the call b:",
        None,
    ]
    assert hurry["content"] == "hurry"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_outputs_changes_nothing(order):
    outputs = [output("a", "1"), custom_output("b", "2"), output("c", "3")]
    straight = up(A, custom_call("b"), C, *outputs)
    assert up(A, custom_call("b"), C, *(outputs[place] for place in order)) == straight


def test_several_messages_of_a_turn_are_paragraphs_of_one():
    assert brief(up(said("a"), said(""), said("b"), user(), said("c"))) == [
        ("assistant", "a\n\nb"),
        ("user", "go on"),
        ("assistant", "c"),
    ]


def test_parts_of_an_answer_are_one_text_and_a_refusal_is_what_the_model_said():
    parts = [
        {"type": "output_text", "text": "Hel", "annotations": [{}], "logprobs": [5]},
        {"type": "output_text", "text": "lo"},
        {"type": "refusal", "refusal": "!"},
    ]
    assert brief(up(said(parts) | {"id": "msg_1", "phase": "commentary"})) == [
        ("assistant", "Hello!")
    ]


@pytest.mark.parametrize("empty", [said(""), said([]), thought("hm"), thought()])
def test_a_turn_without_words_and_calls_is_no_message(empty):
    assert brief(up(user("a"), empty, user("b"))) == [("user", "a"), ("user", "b")]


def test_items_that_chat_has_no_place_for_are_left_out():
    items = [
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "additional_tools", "role": "developer", "tools": []},
    ]
    assert brief(up(user("a"), *items, history=[user("b") | {"id": "msg_1"}])) == [
        ("user", "b"),
        ("user", "a"),
    ]


# ---- system messages


def test_instructions_and_system_messages_are_one_message_and_the_first():
    items = [
        said("one", "system"),
        user("hi"),
        said([{"type": "input_text", "text": "two"}, {"type": "input_text", "text": "2"}], "developer"),
        said("hello"),
        said("", "developer"),
    ]  # fmt: skip
    assert brief(up(*items, instructions="zero")) == [
        ("system", "zero\n\none\n\ntwo\n2"),
        ("user", "hi"),
        ("assistant", "hello"),
    ]


@pytest.mark.parametrize("nothing", [None, ""])
def test_without_instructions_there_is_no_system_message(nothing):
    assert brief(up(user("hi"), instructions=nothing)) == [("user", "hi")]


def test_instructions_are_this_turns_and_earlier_system_messages_stay():
    history = [said("old", "system"), user("a"), said("b")]
    assert brief(up(user("c"), history=history, instructions="new"))[0] == ("system", "new\n\nold")


# ---- reasoning


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize(
    "item",
    [
        thought("hm"),
        thought("hm", encrypted_content=seal("other")),
        thought(None, encrypted_content=seal("hm")),
        thought(None, encrypted_content=seal("hm"), summary=[{"type": "summary_text", "text": "s"}]),
        thought(None, encrypted_content="opaque", summary=[{"type": "summary_text", "text": "hm"}]),
        {"type": "reasoning", "summary": None, "encrypted_content": seal("hm")},
    ],
)  # fmt: skip
def test_reasoning_goes_up_in_the_field_that_the_upstream_wants_and_in_no_other(key, item):
    items = [user(), item, A, output("a"), said("done")]
    sent = up(*items, reasoning=key)
    assert sent[1][key] == "hm"
    assert key not in sent[3]
    assert not {"reasoning", "reasoning_content", "encrypted_content"} & up(*items)[1].keys()


@pytest.mark.parametrize(
    "item", [thought(), thought(None, encrypted_content="opaque"), thought("")]
)
def test_reasoning_that_says_nothing_is_no_field(item):
    assert set(up(item, said("a"), reasoning="reasoning")[0]) == {"role", "content"}


def test_the_reasoning_of_a_turn_is_together_and_stays_with_its_turn():
    items = [thought("1"), A, thought("2"), B, output("b"), output("a"), thought("3"), said("x")]
    first, *_, last = up(*items, reasoning="reasoning")
    assert first["reasoning"] == "1\n\n2"
    assert last["reasoning"] == "3"


def test_reasoning_that_ended_in_nothing_is_left_out():
    assert brief(up(thought("hm"), user("go on"), reasoning="reasoning")) == [("user", "go on")]


# ---- call ids


def test_a_call_that_was_cut_off_is_left_out_unless_it_was_answered():
    cut = call("k", status="incomplete")
    assert brief(up(user(), history=[said("x"), cut])) == [("assistant", "x"), ("user", "go on")]
    assert brief(up(output("k", "1"), history=[cut])) == [("assistant", None, "k"), ("tool", "1")]


def test_a_second_output_of_a_call_is_left_out():
    assert brief(up(A, output("a", "1"), output("a", "2"))) == [
        ("assistant", None, "a"),
        ("tool", "1"),
    ]


def test_ids_are_unique_over_the_history_and_outputs_follow_their_calls():
    first = [call("c"), output("c", "1")]
    twins = [call("c"), call("c"), output("c", "2"), output("c", "3")]
    items = [*first, *twins, call("c_2"), output("c_2", "4")]
    sent = up(*items)
    assert brief(sent) == [
        ("assistant", None, "c"),
        ("tool", "1"),
        ("assistant", None, "c_3", "c_4"),
        ("tool", "2"),
        ("tool", "3"),
        ("assistant", None, "c_2"),
        ("tool", "4"),
    ]
    assert [one["tool_call_id"] for one in sent if one["role"] == "tool"] == [
        "c",
        "c_3",
        "c_4",
        "c_2",
    ]


# ---- any conversation


@st.composite
def conversations(draw):
    """Calls and outputs in any order in which an output has a call before it."""
    items, open_calls = [], []
    for number in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from("mrucco"))
        if kind == "o" and open_calls:
            made = open_calls.pop(draw(st.integers(0, len(open_calls) - 1)))
            items.append(output(made, f"of {made}"))
        elif kind == "c":
            made = draw(st.sampled_from(["x", "y", "z"]))
            if made not in open_calls:
                open_calls.append(made)
                items.append(call(made, arguments=json.dumps({"n": number})))
        elif kind == "m":
            items.append(said(f"m{number}"))
        elif kind == "r":
            items.append(thought(f"r{number}"))
        else:
            items.append(user(f"u{number}"))
    return items + [output(made, f"of {made}") for made in open_calls]


@given(conversations())
def test_any_conversation_is_fit_for_a_strict_server_and_loses_nothing(items):
    sent = up(*items, reasoning="reasoning")
    text = "\n".join(str(one["content"]) for one in sent)
    for item in items:
        if item["type"] == "message":
            assert item["content"] in text
    made = [one for message in sent for one in message.get("tool_calls", ())]
    calls = [item["arguments"] for item in items if item["type"] == "function_call"]
    assert [one["function"]["arguments"] for one in made] == calls, "all of them, in their order"
    outputs = {one["tool_call_id"]: one["content"] for one in sent if one["role"] == "tool"}
    for one in made:
        assert outputs[one["id"]] == f"of {one['id'].partition('_')[0]}"
