import json
from typing import Any

import pytest

from ingest.redaction import Redaction
from translator.protocol.cleaned import cleaned
from translator.protocol.sse import fields
from translator.protocol.upstream import Upstream

KEY = "upstreamkeyhunter22x"
SAID = f"key {KEY} at gpu-7.example.com via http://GPU-7.example.com:8000/v1"
TOLD = "key [removed] at [removed] via [removed]"
UP = Upstream("u", "http://gpu-7.example.com:8000/v1", "responses", KEY)


def block(event: str | None, body: Any) -> bytes:
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {json.dumps(body)}".encode()


@pytest.mark.parametrize(
    ("event", "body"),
    [
        ("error", {"type": "error", "code": "x", "message": SAID}),
        (None, {"type": "error", "message": SAID}),
        ("error", {"message": SAID}),
        (None, {"object": "error", "message": SAID}),
        (None, {"error": {"message": SAID, "code": 429}}),
        (None, {"error": SAID}),
        (
            "response.failed",
            {"type": "response.failed", "response": {"error": {"message": SAID}}},
        ),
        (
            "response.incomplete",
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": SAID}}},
        ),
        (None, {"choices": [], "error": {"metadata": [{"raw": SAID}]}}),
    ],
)
def test_an_error_in_a_stream_is_logged_without_key_and_address(event: str, body: Any) -> None:
    mended = Redaction.of(UP).block(block(event, body))
    assert fields(mended)[0] == event
    told = json.dumps(body).replace(json.dumps(SAID), json.dumps(TOLD))
    assert json.loads(fields(mended)[1]) == json.loads(told)
    whole = Redaction.of(UP).block(json.dumps(body, indent=1).encode())
    assert KEY.encode() not in whole or event == "error" != body.get("type")


def test_an_error_in_plain_words_is_cleaned_too() -> None:
    mended = Redaction.of(UP).block(f"event: error\ndata: a {SAID}\ndata: b".encode())
    assert mended == f"event: error\ndata: a {TOLD}\ndata: b".encode()


@pytest.mark.parametrize(
    "same",
    [
        block("response.output_text.delta", {"type": "response.output_text.delta", "delta": SAID}),
        block(None, {"response": {"error": None, "output": [SAID]}}),
        block(None, {"response": {"error": {"message": "m"}, "output": [SAID]}}),
        b'id: 7\nevent:error\ndata:{"type" : "error","message":"m"}',
        b"event: error\ndata: \xff",
        b'data: {"error": [',
        b"data: [DONE]",
    ],
)
def test_everything_else_is_logged_byte_for_byte(same: bytes) -> None:
    assert Redaction.of(UP).block(same) == same


@pytest.mark.parametrize("url", ["http://[", "http://h:x/v1", ""])
def test_an_address_that_is_none_hides_only_the_key(url: str) -> None:
    redaction = Redaction.of(Upstream("u", url, "chat", KEY))
    assert redaction.message(f"the {KEY}") == "the [removed]"


def test_a_key_of_few_letters_is_not_looked_for() -> None:
    up = Upstream("u", "http://model:8000/v1", "responses", "e")
    assert Redaction.of(up).message("the model failed at model:8000") == (
        "the model failed at [removed]"
    )


def test_what_is_cleaned_twice_holds_no_loose_bracket() -> None:
    redaction = Redaction.of(UP)
    mended = redaction.block(block("error", {"message": SAID}))
    assert cleaned(json.loads(fields(mended)[1])["message"]) == TOLD
    assert redaction.message(SAID) == TOLD
