import json
from typing import Any

import pytest

from ingest.redaction import Redaction
from ingest.refusal import refused, timed_out
from translator.protocol.upstream import Upstream


def error(status: int, body: Any) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refused(status, raw)["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "m"}}, "m"),
        ({"error": "m"}, "m"),
        ({"message": "m", "object": "error", "code": 400}, "m"),
        ({"detail": "m"}, "m"),
        ({"error": None, "message": "m"}, "m"),
        ({"error": {"detail": "m"}}, "m"),
        ([{"error": {"message": "m"}}], "m"),
        ({"errors": [{"message": "m"}, {"message": "n"}]}, "m"),
        ({"detail": {"message": "m", "code": "x"}}, "m"),
        (
            {"object": "error", "message": {"detail": [{"loc": ["body", "x"], "msg": "m"}]}},
            "x: m",
        ),
        ({"message": {"detail": "m"}}, "m"),
        ({"errors": [], "message": "m"}, "m"),
        ({"errors": [{"field": "x"}], "message": "m"}, "m"),
        ({"errors": {"x": ["required"]}, "detail": "m"}, "m"),
        ({"errors": [{"path": "x"}], "error": {"message": "m"}}, "m"),
        ({"errors": {"a": 1}, "error": "m"}, "m"),
        ({"error": {"message": 7}}, None),
        ({"error": 7}, None),
        ({"error": {"message": "  "}}, None),
        ([1], None),
        (b"<html>", None),
        (b"", None),
        (b"\xff", None),
    ],
)
def test_the_message_is_found_in_every_shape_in_use_or_is_plain(
    body: Any, message: str | None
) -> None:
    plain = "The upstream refused the request with status 400."
    assert error(400, body)["message"] == (message or plain)


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (404, "invalid_request_error", None),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (500, "server_error", "upstream_error"),
        (503, "server_error", "upstream_error"),
    ],
)
def test_a_refusal_without_words_gets_the_usual_ones(status: int, kind: str, code: str) -> None:
    found = error(status, {})
    assert (found["status"], found["type"], found["code"]) == (status, kind, code)


def test_type_code_and_param_are_kept_where_they_are_words() -> None:
    said = {"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded"}
    found = error(400, {"error": {**said, "param": "input[0].content"}})
    assert found == {**said, "param": "input[0].content", "status": 400}
    odd = error(
        400, {"error": {"message": "m", "type": "Bad Request", "code": 400, "param": "a b"}}
    )
    assert odd["type"] == "invalid_request_error"
    assert odd["code"] is None
    assert odd["param"] is None
    assert error(400, {"error": {"message": "m", "code": "400"}})["code"] is None


@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_key_that_was_refused_was_ours(status: int) -> None:
    found = error(status, {"error": {"message": "bad key sk-1", "code": "invalid_api_key"}})
    assert found["status"] == 502
    assert found["type"] == "server_error"
    assert found["code"] == "upstream_error"
    assert "sk-1" not in found["message"]


@pytest.mark.parametrize("status", [101, 201, 204, 301, 399, 600, 999])
def test_a_status_that_is_no_refusal_is_a_broken_protocol(status: int) -> None:
    found = error(status, b"")
    assert (found["status"], found["code"]) == (502, "upstream_protocol_error")


def test_retry_after_is_kept_if_it_can_be_a_header() -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    assert refused(429, b"", retry_after=date)["retry_after"] == date
    assert "retry_after" not in refused(429, b"", retry_after="1\r\nx: y")
    assert "retry_after" not in refused(429, b"")


def test_secrets_are_taken_out_literally() -> None:
    raw = json.dumps({"error": {"message": "gpu-7 says: hunter2 is wrong"}}).encode()
    end = refused(400, raw, redaction=Redaction("gpu-7", "hunter2"))
    assert end["error"]["message"] == "[removed] says: [removed] is wrong"


def test_a_time_out_is_a_gateway_time_out() -> None:
    assert timed_out("slow")["error"]["status"] == 504


UP = Redaction.of(Upstream("u", "http://127.0.0.1:9651/v1", "responses", "upstreamkeyhunter22x"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("at http://127.0.0.1:9651/v1 now", "at [removed] now"),
        ("at 127.0.0.1:9651, or 127.0.0.1", "at [removed], or [removed]"),
        ("key upstreamkeyhunter22x is", "key [removed] is"),
        ("x" * 1990 + " upstreamkeyhunter22x", "x" * 1990 + " [removed]"),
    ],
)
def test_an_address_is_removed_as_a_whole(said: str, told: str) -> None:
    raw = json.dumps({"error": {"message": said}}).encode()
    assert refused(400, raw, redaction=UP)["error"]["message"] == told


def test_a_key_is_not_told_as_a_code_either() -> None:
    key = "upstreamkeyhunter22x"
    raw = json.dumps({"error": {"message": "m", "type": key, "code": key, "param": key}}).encode()
    assert key not in json.dumps(refused(400, raw, retry_after=key, redaction=UP))


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ([{"loc": ["body", "x", 0], "msg": "field required"}], "x.0: field required"),
        ([{"msg": "a"}, {"loc": ["body", "b"], "msg": "c"}, 7, {"msg": 8}], "a; b: c"),
        ([], "The upstream refused the request with status 422."),
    ],
)
def test_the_list_that_fastapi_makes_of_a_422_is_told(detail: list, told: str) -> None:
    assert error(422, {"detail": detail})["message"] == told
