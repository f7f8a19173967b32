"""Reasoning survives its way through a client that only hands back what it cannot read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.reasoning_seal import PREFIX, seal, unseal


@given(st.text())
def test_what_is_sealed_comes_back(text):
    assert unseal(seal(text)) == text


def test_a_value_is_opaque_and_always_the_same():
    value = seal("the user wants a list")
    assert value == "respool1.dGhlIHVzZXIgd2FudHMgYSBsaXN0"
    assert "user" not in value


@pytest.mark.parametrize(
    "value",
    [
        "",
        "opaque-blob",
        "gAAAAABk",
        "respool2.YQ==",
        PREFIX + "YQ",
        PREFIX + "!!!!",
        PREFIX + "_w==",
        PREFIX + "ä",
    ],
)
def test_a_value_of_somebody_else_says_nothing(value):
    assert unseal(value) is None


@given(st.text(max_size=30))
def test_no_value_of_a_client_raises(text):
    unseal(text)
    unseal(PREFIX + text)
