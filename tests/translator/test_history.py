"""Calls and outputs belong together, and the upstream gets them in a form that it takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.bodies import (
    additional,
    call,
    check,
    custom,
    custom_call,
    custom_output,
    function,
    namespace,
    output,
    request,
    sent_up,
    user,
)
from translator.protocol.errors import RequestError
from translator.reasoning_seal import seal


def refusal(items, history=()):
    with pytest.raises(RequestError) as caught:
        check(request(input=items), history)
    return caught.value


def up(*items, history=(), **fields):
    """The items that go up, without the ids that we derived."""
    return [
        {key: value for key, value in item.items() if key != "id" or len(value) < 20}
        for item in sent_up(history, input=list(items), **fields)["input"]
    ]


def test_a_custom_call_and_its_output_go_up_as_a_function_call_and_its_output():
    assert up(
        custom_call("k1", text='echo "a"\n', id="ctc_1", status="completed"),
        custom_output("k1", "a"),
    ) == [
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "k1",
            "name": "exec",
            "status": "completed",
            "arguments": '{"input":"echo \\"a\\"\\n"}',
        },
        {"type": "function_call_output", "call_id": "k1", "output": "a"},
    ]


def test_a_call_of_an_earlier_turn_is_answered_in_this_one():
    history = [user(), custom_call("k1", id="ctc_1", status="completed")]
    assert [item["type"] for item in up(custom_output("k1"), history=history)] == [
        "message",
        "function_call",
        "function_call_output",
    ]


@pytest.mark.parametrize("made", [call, custom_call])
def test_an_output_without_a_call_is_refused(made):
    for items in ([output("nope")], [custom_output("nope")], [custom_output("nope"), made("nope")]):
        error = refusal(items)
        assert error.param == "input"
        assert "nope" in error.message


@pytest.mark.parametrize("made", [call, custom_call])
def test_a_call_without_an_output_is_refused(made):
    assert "k7" in refusal([made("k7"), user()]).message
    error = refusal([user()], [made("k7", status="completed")])
    assert error.param == "input"
    assert "k7" in error.message


@pytest.mark.parametrize("made", [call, custom_call])
def test_a_call_that_was_cut_off_does_not_spoil_the_chain(made):
    history = [user(), call("k1"), made("k2", status="incomplete")]
    kept = up(output("k1"), user("next"), history=history)
    assert [item.get("call_id") for item in kept] == [None, "k1", "k1", None]


def test_a_call_that_was_cut_off_is_kept_if_the_client_answered_it():
    assert len(up(output("k2"), history=[call("k2", status="incomplete")])) == 2


def test_a_call_id_may_come_again_in_a_later_turn():
    turn = [call("c:0"), output("c:0")]
    assert "c:0" in refusal([*turn, call("c:0")]).message
    custom = [custom_call("c:0"), custom_output("c:0")]
    for sent in (up(*turn, *custom), up(*custom, history=turn)):
        assert [item["call_id"] for item in sent] == ["c:0", "c:0", "c:0_2", "c:0_2"]


@pytest.mark.parametrize(("made", "gave"), [(call, output), (custom_call, custom_output)])
def test_a_call_that_a_client_brings_with_its_output_although_the_chain_has_it_is_one(made, gave):
    history = [user(), made("k", status="completed")]
    sent = up(user("go on"), made("k"), gave("k", "42"), history=history)
    assert [item["type"] for item in sent] == [
        *("message", "message", "function_call", "function_call_output"),
    ]
    assert sent[-1]["output"] == "42"
    other = made("k", "other") if made is call else made("k", text="other")
    assert "'k'" in refusal([other, gave("k")], history).message
    assert "'k'" in refusal([made("k")], history).message


def test_calls_that_are_brought_again_each_keep_their_output_though_their_ids_restart():
    rome, oslo = (call("call_0", arguments=f'{{"city":"{city}"}}') for city in ("Rome", "Oslo"))
    turn = [rome, rome, output("call_0", "20"), oslo]
    sent = up(oslo, output("call_0", "-5"), history=turn)
    assert [one.get("arguments") or one["output"] for one in sent] == [
        *('{"city":"Rome"}', "20", '{"city":"Oslo"}', "-5"),
    ]
    answered = [output("call_0"), output("call_0")]
    assert "call_0" in refusal([rome, rome, *answered, oslo, user()]).message


def test_equal_calls_that_each_have_an_output_are_two():
    sent = up(call("k"), call("k"), output("k", "1"), output("k", "2"))
    assert [item["call_id"] for item in sent] == ["k", "k_2", "k", "k_2"]


def test_a_second_output_of_one_call_changes_nothing():
    sent = up(call("a"), output("a", "first"), output("a", "again"), call("b"), output("b"))
    assert [item["call_id"] for item in sent] == ["a", "a", "b", "b"]
    assert sent[1]["output"] == "first"


def test_an_item_may_be_meant_by_its_id_if_the_chain_brings_it_in():
    reference = {"type": "item_reference", "id": "msg_1"}
    assert up(reference, history=[user() | {"id": "msg_1"}]) == [user() | {"id": "msg_1"}]
    history = [user()]
    assert refusal([user(), reference], history).param == "input[1].id"


def test_foreign_ids_stay_and_empty_ones_are_ours():
    first, second, third = sent_up(
        input=[
            user() | {"id": "m-1"},
            custom_call("k", id=""),
            custom_output("k") | {"id": "ctco_1"},
        ]
    )["input"]
    assert first["id"] == "m-1"
    assert second["id"].startswith("fc_")
    assert third["id"] == "ctco_1"


def test_empty_ids_of_the_history_are_left_out():
    history = [call("k", id="", status=None), output("k") | {"id": None}]
    assert all("id" not in item and "status" not in item for item in up(history=history))


def test_outputs_may_be_texts_images_and_files():
    parts = [
        {"type": "input_text", "text": "done"},
        {"type": "input_image", "image_url": "data:image/png;base64,QQ=="},
        {"type": "input_image", "file_id": "f", "detail": "low"},
        {"type": "input_file", "file_data": "x", "filename": "a.txt"},
    ]
    sent = up(custom_call("k"), custom_output("k", parts))[1]["output"]
    assert sent == [parts[0], parts[1] | {"detail": "auto"}, *parts[2:]]


def test_an_output_of_texts_alone_is_one_text():
    parts = [{"type": "input_text", "text": text} for text in ("done\n", "", "in 1 s")]
    for made, gave in ((custom_call("k"), custom_output), (call("k"), output)):
        assert up(made, gave("k", parts))[1]["output"] == "done\nin 1 s"
    assert up(call("k"), output("k", []))[1]["output"] == ""


def test_neighbouring_outputs_go_up_in_the_order_of_their_calls():
    sent = up(
        *(call("a"), call("b"), call("c")),
        *(output("c", "3"), output("a", "1"), user("wait"), output("b", "2")),
    )
    assert [one.get("output") for one in sent[3:]] == ["1", "3", None, "2"]


def test_images_of_messages_get_a_detail():
    image = {"type": "input_image", "image_url": "https://example.test/a.png", "detail": None}
    assert up(user([image]))[0]["content"] == [image | {"detail": "auto"}]


def test_an_assistants_message_goes_up_in_the_form_that_is_read_whole():
    parts = [
        {"type": "output_text", "text": "Hel", "annotations": [{}], "logprobs": [5]},
        {"type": "output_text", "text": "lo"},
        {"type": "refusal", "refusal": "!"},
    ]
    message = {"type": "message", "role": "assistant", "id": "msg_1", "phase": "commentary"}
    part = {"type": "output_text", "text": "Hello!", "annotations": []}
    whole = message | {"status": "completed", "content": [part]}
    assert up(message | {"content": parts}) == [whole]
    assert up(message | {"content": "Hello!"}) == [whole]
    assert up(history=[message | {"content": "Hello!", "status": "incomplete"}]) == [
        whole | {"status": "incomplete"}
    ]
    odd = message | {"content": [{"type": "output_audio", "data": "x"}]}
    assert up(odd) == [odd]


def test_reasoning_goes_up_without_what_is_opaque():
    thought = [{"type": "reasoning_text", "text": "hm"}]
    opaque = {"type": "reasoning", "id": "rs_1", "encrypted_content": "blob", "content": None}
    assert up(
        opaque | {"content": thought, "status": "completed"},
        opaque | {"summary": [{"type": "summary_text", "text": "in short"}]},
        opaque | {"summary": []},
        opaque | {"content": [{"type": "reasoning_text", "text": ""}]},
    ) == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": thought},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "in short"}],
            "content": [{"type": "reasoning_text", "text": "in short"}],
        },
    ]
    several = [{"type": "reasoning_text", "text": text} for text in "ab"]
    (sent,) = up(opaque | {"content": several})
    assert sent["content"] == [{"type": "reasoning_text", "text": "a\nb"}]


def test_reasoning_that_comes_back_sealed_goes_up_as_its_text():
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": None}
    (sent,) = up(item | {"encrypted_content": seal("because")})
    assert sent["content"] == [{"type": "reasoning_text", "text": "because"}]
    assert "encrypted_content" not in sent
    assert up(item | {"encrypted_content": "theirs"}) == []


@pytest.mark.parametrize(
    "item",
    [
        {"type": "compaction"},
        {"type": "mcp_list_tools", "server_label": "a", "tools": []},
        {"type": "mcp_approval_request", "server_label": "a", "name": "t", "arguments": "{}"},
        {"type": "web_search_call"},
        {"type": "code_interpreter_call"},
    ],
)
def test_items_that_an_upstream_refuses_are_left_out(item):
    assert up({**item, "id": "x"}, user()) == [user([{"type": "input_text", "text": "go on"}])]


def test_calls_that_a_client_runs_are_forwarded():
    shell = {"type": "shell_call", "call_id": "s", "action": {"commands": []}}
    assert up(shell | {"id": None, "status": None}) == [shell]


def test_calls_of_a_namespace_go_up_under_the_visible_name():
    tools = [function("search"), namespace("docs", function("search"))]
    items = [call("a", "search", namespace="docs"), output("a"), call("b", "search"), output("b")]
    first, _, second, _ = up(*items, tools=tools)
    assert first["name"].startswith("docs__search_")
    assert second["name"] == "search"
    assert "namespace" not in first


def test_a_call_of_a_tool_that_is_gone_keeps_its_name():
    assert up(call("a", "search", namespace="docs"), output("a"))[0]["name"] == "search"


def test_declarations_are_no_item_of_the_upstreams():
    assert up(additional(custom("exec"))) == []


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        (" \n", "{}"),
        ('{"a": ', '{"raw":"{\\"a\\": "}'),
        ("[1]", '{"raw":"[1]"}'),
        ("5", '{"raw":"5"}'),
    ],
)
def test_arguments_go_up_as_an_object_that_a_template_can_parse(arguments, sent):
    assert up(call("a", arguments=arguments), output("a"))[0]["arguments"] == sent


@given(st.text())
def test_custom_input_is_wrapped_and_nothing_is_escaped_twice(text):
    sent = up(custom_call("a", text=text), output("a"))[0]["arguments"]
    assert json.loads(sent) == {"input": text}
