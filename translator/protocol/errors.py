"""Every error that Respool raises, and whose fault it is.

    RespoolError
    ├── RequestError            the client's request is wrong                    400
    │   ├── AuthenticationError the key is missing or wrong                      401
    │   ├── NotFound            no such response, or another tenant's            404
    │   └── TooLarge            the body is over its limit                       413
    ├── Overloaded              no room in this gateway now                      503
    │   └── TooManyOpen         this tenant has as much open as it may           429
    ├── UpstreamError           the upstream refused, broke off or spoke badly   4xx, 502, 504
    │   └── ProtocolFault       what it sent cannot be understood                502
    ├── LimitPassed             a response passed one of its own bounds          (ends that response)
    └── StoreError              the log refused or is away
        └── Refused             a script said no: see `streams.scripts`

A status, a type, a code and a parameter are all that leaves the process (contract.md section 2, "Errors before the
stream starts"). Messages name the parameter and the kind of fault, never the rejected value, a host or a key.
"""

from typing import Any, Final

INVALID_REQUEST = "invalid_request_error"
AUTHENTICATION = "authentication_error"
SERVER = "server_error"
RATE_LIMIT = "rate_limit_error"

ERROR_CODES: Final = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "context_length_exceeded",
        "insufficient_quota",
    }
)
"""Codes that clients know (contract.md section 3, "Failures in the stream"); everything else is a server_error."""

TOO_MANY_REQUESTS: Final = 429

OWN_CODE = "\0"
"""In place of a code: the one of the error's kind. None means none: an upstream's error may have no code."""


class RespoolError(Exception):
    """The root. `status` is an HTTP status; `code` and `param` may be None.

    `headers` go out with the HTTP answer (`retry-after`, `x-should-retry`).
    """

    status = 500
    type = SERVER
    code: str | None = None

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        type: str | None = None,
        code: str | None = OWN_CODE,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = self.status if status is None else status
        self.type = self.type if type is None else type
        self.code = self.code if code is OWN_CODE else code
        self.param = param
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The error body of OpenAI's API: all four keys, null where not applicable."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }


class RequestError(RespoolError):
    """The request cannot be served as it is; the message names the parameter."""

    status = 400
    type = INVALID_REQUEST


class AuthenticationError(RequestError):
    """No key, or one that belongs to no tenant."""

    status = 401
    type = AUTHENTICATION
    code = "invalid_api_key"


class NotFound(RequestError):
    """No such response, or another tenant's: the answer is the same (contract.md section 2)."""

    status = 404

    @classmethod
    def response(cls, response_id: str) -> "NotFound":
        """The answer for a response id that this tenant does not have."""
        return cls(f"Response with id '{response_id}' not found.")


class TooLarge(RequestError):
    """The request body is over MAX_BODY_BYTES."""

    status = 413
    code = "body_too_large"


def retry_after(milliseconds: int) -> dict[str, str]:
    """When to come again, as headers: OpenAI's SDKs read the exact one, everybody else whole seconds, rounded up."""
    return {"retry-after": str(-(-milliseconds // 1000)), "retry-after-ms": str(milliseconds)}


class Overloaded(RespoolError):
    """No room now; its headers say when to try again (`retry_after`)."""

    status = 503
    code = "overloaded"


class TooManyOpen(Overloaded):
    """This tenant has as much open as it may; others are served."""

    status = 429
    type = RATE_LIMIT
    code = "too_many_open"


class UpstreamError(RespoolError):
    """The upstream refused, could not be reached, broke off or was too slow: never the client's fault."""

    status = 502
    code = "upstream_error"


class ProtocolFault(UpstreamError):
    """What the upstream sent cannot be understood (contract.md D10)."""

    code = "upstream_protocol_error"


class LimitPassed(RespoolError):
    """One of the response's own bounds was passed (log bytes, a frame's size); it ends, alone."""


class StoreError(RespoolError):
    """The store is away or answered with something that no script of ours says."""

    status = 503
    code = "store_unavailable"
