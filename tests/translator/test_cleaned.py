"""What leaves the gateway of an upstream's own words."""

import pytest

from translator.protocol.cleaned import MAX_MESSAGE_CHARS, cleaned


@pytest.mark.parametrize(
    "secret",
    [
        "http://10.0.0.7:8000/v1",
        "https://user:pw@host/x",
        "10.1.2.3:80",
        "[fe80::1]:8000",
        "localhost:8000",
        "gpu-7.example.com",
        "vllm.models.svc",
        "sk-abcdef1234567890",
        "Bearer abcdefgh12345",
    ],
)
def test_addresses_and_keys_are_removed(secret: str) -> None:
    assert cleaned(f"Could not reach {secret} today.") == "Could not reach [removed] today."


@pytest.mark.parametrize(
    "text",
    ["max_tokens is too large: 5.", "body.messages.0.content: field required", "", "e.g. this"],
)
def test_other_words_stay(text: str) -> None:
    assert cleaned(text) == text


def test_a_long_message_is_cut_after_its_secrets_are_out() -> None:
    text = "x" * (MAX_MESSAGE_CHARS - 8) + " sk-abcdef1234567890"
    assert "sk-" not in cleaned(text)
    assert len(cleaned("y" * 10_000)) == MAX_MESSAGE_CHARS
