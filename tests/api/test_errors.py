import pytest
from starlette.requests import Request

from api.errors import public, respool_error, router_error
from streams.faults import Gone, LogLost, StoreAway
from streams.scripts.refused import Reason, Refused
from translator.protocol.errors import RequestError, StoreError

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


def test_errors_of_others_are_not_for_these_handlers():
    request = Request({"type": "http", "headers": []})
    for handler in (respool_error, router_error):
        with pytest.raises(KeyError):
            handler(request, KeyError())
