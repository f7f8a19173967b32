"""What leaves the process of an error."""

import pytest

from translator.protocol.errors import (
    AuthenticationError,
    NotFound,
    Overloaded,
    ProtocolFault,
    RequestError,
    RespoolError,
    TooLarge,
    retry_after,
)


@pytest.mark.parametrize(
    ("error", "status", "type_", "code"),
    [
        (RequestError("no", param="input"), 400, "invalid_request_error", None),
        (AuthenticationError("no"), 401, "authentication_error", "invalid_api_key"),
        (NotFound.response("resp_x"), 404, "invalid_request_error", None),
        (TooLarge("no"), 413, "invalid_request_error", "body_too_large"),
        (
            Overloaded("no", status=429, type="rate_limit_error"),
            429,
            "rate_limit_error",
            "overloaded",
        ),
        (ProtocolFault("no"), 502, "server_error", "upstream_protocol_error"),
        (RespoolError("no", code="odd"), 500, "server_error", "odd"),
    ],
)
def test_each_kind_knows_its_status_type_and_code(
    error: RespoolError, status: int, type_: str, code: str | None
) -> None:
    assert (error.status, error.type, error.code) == (status, type_, code)
    assert set(error.body()["error"]) == {"message", "type", "param", "code"}


def test_not_found_names_the_id_alone() -> None:
    assert NotFound.response("resp_x").message == "Response with id 'resp_x' not found."


@pytest.mark.parametrize(("ms", "seconds"), [(1, "1"), (1000, "1"), (1001, "2"), (2500, "3")])
def test_when_to_come_again_is_whole_seconds_rounded_up_and_exact_beside_that(
    ms: int, seconds: str
) -> None:
    assert retry_after(ms) == {"retry-after": seconds, "retry-after-ms": str(ms)}
