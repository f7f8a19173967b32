"""Text stays text, and images and files get Chat's shapes or are refused."""

import pytest

from tests.translator.bodies import (
    call,
    check,
    custom_call,
    custom_output,
    output,
    request,
    sent_chat,
    user,
)
from translator.chat_parts import joined, refuse_part
from translator.protocol.errors import RequestError

PNG = "data:image/png;base64,QUFBQQ=="
IMAGE = {"type": "input_image", "image_url": PNG}
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": PNG}}


def text(words, kind="input_text"):
    return {"type": kind, "text": words}


def heard(content):
    """The content of the one message of a user."""
    (message,) = sent_chat(input=[user(content)])["messages"]
    assert message["role"] == "user"
    return message["content"]


def given_back(parts, made=custom_call, gives=custom_output):
    """What follows the call whose output consists of these parts."""
    return sent_chat(input=[user(), made("k"), gives("k", parts)])["messages"][2:]


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("hi", "hi"),
        ("", ""),
        ([], ""),
        ([text("hi")], "hi"),
        ([text("a"), text("b", "text"), {"type": "refusal", "refusal": "c"}], "a\nb\nc"),
        ([text("a\n"), text(""), text("b")], "a\nb"),
        ([{"type": "note_of_some_server", "text": "a"}], "a"),
    ],
)
def test_text_alone_is_one_string(content, sent):
    assert heard(content) == sent


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (IMAGE, CHAT_IMAGE),
        (IMAGE | {"detail": None, "file_id": None}, CHAT_IMAGE),
        (
            {"type": "input_image", "image_url": "https://a.test/b.png", "detail": "low"},
            {"type": "image_url", "image_url": {"url": "https://a.test/b.png", "detail": "low"}},
        ),
        (
            {"type": "input_file", "file_data": "data:x", "filename": "a.pdf", "file_url": None},
            {"type": "file", "file": {"file_data": "data:x", "filename": "a.pdf"}},
        ),
        ({"type": "input_file", "file_id": "f"}, {"type": "file", "file": {"file_id": "f"}}),
        *(
            (part, part)
            for part in (
                {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "video_url", "video_url": {"url": "https://a.test/b.mp4"}},
                {"type": "file", "file": {"file_id": "f"}, "text": "not one"},
            )
        ),
    ],
)
def test_other_content_goes_up_in_chats_shape_beside_the_text(part, sent):
    assert heard([text("look"), part, text("")]) == [{"type": "text", "text": "look"}, sent]


def test_an_image_with_words_of_its_own_is_still_an_image():
    assert heard([IMAGE | {"text": "alt"}]) == [CHAT_IMAGE]


@pytest.mark.parametrize(("made", "gives"), [(call, output), (custom_call, custom_output)])
def test_the_text_of_an_output_is_text_and_its_images_follow_in_a_users_message(made, gives):
    assert given_back([text("done"), IMAGE, text("now")], made, gives) == [
        {"role": "tool", "tool_call_id": "k", "content": "done\nnow"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Output of the call k:"}, CHAT_IMAGE],
        },
    ]


def test_an_output_without_text_says_where_it_is():
    first, second = given_back([IMAGE, {"type": "input_file", "file_data": "x"}])
    assert first["content"] == "(The output is in the next message.)"
    assert [part["type"] for part in second["content"]] == ["text", "image_url", "file"]


@pytest.mark.parametrize("empty", ["", [], [text("")]])
def test_an_empty_output_is_an_output(empty):
    assert given_back(empty) == [{"role": "tool", "tool_call_id": "k", "content": ""}]


FAULTS = [
    {"type": "input_image", "file_id": "file_secret"},
    {"type": "input_image", "image_url": ""},
    {"type": "input_file", "file_url": "https://secret.test/a.pdf"},
    {"type": "input_file", "file_data": ""},
    {"type": "computer_screenshot", "image_url": "secret"},
    {"type": "thing", "text": 5},
]


@pytest.mark.parametrize("part", FAULTS)
def test_what_chat_cannot_say_is_refused_by_its_place(part):
    with pytest.raises(RequestError) as caught:
        check(request(input=[user(), user([text("a"), part])]), api="chat")
    assert caught.value.param == "input[1].content[1]"
    assert "secret" not in caught.value.message
    check(request(input=[user([part])]), api="responses")


def test_so_is_it_in_an_output_and_in_an_earlier_turn():
    items = [call("a"), output("a", [FAULTS[0]])]
    with pytest.raises(RequestError) as caught:
        check(request(input=items), api="chat")
    assert caught.value.param == "input[1].output[0]"
    with pytest.raises(RequestError) as caught:
        check(request(input=[user()]), items, api="chat")
    assert caught.value.param == "previous_response_id[1].output[0]"


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_only_users_show_images(role):
    with pytest.raises(RequestError) as caught:
        check(request(input=[{"role": role, "content": [text("a"), IMAGE]}]), api="chat")
    assert caught.value.param == "input[0].content[1]"
    assert "only hold text" in caught.value.message


def test_lines_are_joined_without_a_gap():
    assert joined([]) == ""
    assert joined(["", "a", "", "b\n", "c"]) == "a\nb\nc"


def test_a_part_without_what_it_is_named_after_is_refused():
    with pytest.raises(RequestError) as caught:
        refuse_part({"type": "input_audio", "data": 5}, "input[0].content[0]", only_text=False)
    assert caught.value.param == "input[0].content[0]"
