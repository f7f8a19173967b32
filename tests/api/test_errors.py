import time

import pytest
from starlette.exceptions import HTTPException

from api.errors import MESSAGE_CHARS, public, refusal
from streams.faults import Gone, LogLost, StoreAway
from streams.scripts.refused import Reason, Refused
from translator.protocol.errors import RequestError, StoreError, UpstreamError

RID = "resp_" + "0" * 32


@pytest.mark.parametrize("error", [Gone(RID), Refused(Reason.MISSING, RID)])
def test_what_is_gone_is_not_found(error):
    shown = public(error)
    assert (shown.status, shown.type, shown.code) == (404, "invalid_request_error", None)
    assert shown.message == f"Response with id '{RID}' not found."


def test_a_hole_in_a_log_is_said():
    shown = public(LogLost(RID, 3))
    assert (shown.status, shown.code) == (410, "events_lost")


@pytest.mark.parametrize(
    "error", [StoreAway("redis at 10.0.0.1"), StoreError("x"), Refused(Reason.FENCED, RID)]
)
def test_trouble_with_the_store_is_a_503_that_tells_nothing_of_it(error):
    shown = public(error)
    assert (shown.status, shown.code) == (503, "store_unavailable")
    assert shown.headers["retry-after-ms"]
    assert "10.0.0.1" not in shown.message
    assert "FENCED" not in shown.message


def test_other_errors_of_ours_are_shown_as_they_are():
    error = RequestError("m", param="p")
    assert public(error) is error


def test_what_nobody_expected_is_no_refusal():
    scope = {"type": "http", "headers": []}
    assert refusal(KeyError(), scope) is None
    assert refusal(error := RequestError("m"), scope) is error
    assert refusal(HTTPException(405), scope).status == 405


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_message_repeats_no_more_of_a_value_than_tells_which_it_is(quote):
    value = "x" * 3_000_000
    shown = public(RequestError(f"No call {quote}{value}{quote} was found.", param="input"))
    assert shown.message == f"No call {quote}{'x' * 100}…{quote} was found."


@pytest.mark.parametrize(
    "value",
    ["'" * 3_000_000, "'a" * 1_500_000, "x'" + "y" * 3_000_000, "\"'" * 10**6, "\n" * 10**6],
)
def test_no_value_makes_a_message_long_or_slow(value):
    began = time.monotonic()
    assert len(public(RequestError(f"No call {value!r} was found.")).message) <= MESSAGE_CHARS + 1
    assert len(public(RequestError(value)).message) <= MESSAGE_CHARS + 1
    assert len(public(RequestError("m", param=value)).param or "") <= MESSAGE_CHARS
    assert time.monotonic() - began < 3


def test_messages_with_several_short_values_stay_as_they_are():
    text = "Invalid value for 'input[0].type': expected 'a', 'b' or 'c'. " * 5
    assert public(RequestError(text)).message == text


def test_an_upstreams_message_is_not_taken_for_a_quoted_value():
    text = (
        "This model's maximum context length is 4096 tokens. " + "However, you asked for more. " * 9
    )
    assert public(UpstreamError(text)).message == text
    assert len(public(UpstreamError("x" * 10**6)).message) == MESSAGE_CHARS + 1
