"""How a round failed, in words that a client may read.

In: an upstream's HTTP error, or the way in which the connection failed. Out: a RoundEnd, cleaned of
hosts and keys (contract.md section 2, "Errors before the stream starts"). Called by
`ingest.upstream` and `ingest.run`; pure.
"""

import re
from typing import Any, Final

from ingest.redaction import Redaction
from translator.protocol.entries import How, RoundEnd
from translator.protocol.errors import INVALID_REQUEST, RATE_LIMIT, SERVER, UpstreamError
from translator.protocol.json import loads

OURS_REFUSED: Final = frozenset({401, 403, 407})
"""The key that was refused is the gateway's: the client must not think that its own was."""

_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CODE: Final = re.compile(r"(?!\d+$)[A-Za-z0-9_.-]{1,64}")
_PARAM: Final = re.compile(r"[\w.\[\]-]{1,128}")
_LIST: Final = 8
"""Faults of FastAPI's `detail` that a message names; a longer list says nothing more."""
_RETRY_AFTER: Final = re.compile(r"[\w ,:.+-]{1,64}")


_NOTHING: Final = Redaction()


class RoundError(UpstreamError):
    """The round is over; `end` is what the input log shall say."""

    def __init__(self, end: RoundEnd) -> None:
        super().__init__(str(end.get("error", {}).get("message", "")))
        self.end = end


def failed(how: How, message: str, *, status: int = 502, code: str = "upstream_error") -> RoundEnd:
    """A round that failed by the fault of the upstream or of the way to it."""
    return {"how": how, "error": _error(status, message, SERVER, code, None)}


def timed_out(message: str) -> RoundEnd:
    """A round that took too long."""
    return failed("timeout", message, status=504, code="upstream_timeout")


def misspoken(how: How, message: str) -> RoundEnd:
    """A round whose upstream broke the protocol."""
    return failed(how, message, code="upstream_protocol_error")


def refused(
    status: int,
    body: bytes,
    *,
    retry_after: str | None = None,
    redaction: Redaction = _NOTHING,
) -> RoundEnd:
    """An answer whose status is not 200. What `redaction` knows is taken out of its words."""
    if status in OURS_REFUSED:
        return failed("http", "The upstream refused the credentials of the gateway.")
    if not 400 <= status <= 599:
        return misspoken("http", f"The upstream answered with the unexpected status {status}.")
    said = _said(body)
    message = said.get("message")
    text = redaction.message(message) if isinstance(message, str) else ""

    def word(name: str, grammar: re.Pattern[str]) -> str | None:
        value = _sane(said.get(name), grammar)
        return None if value is None or redaction.has(value) else value

    end: RoundEnd = {
        "how": "http",
        "error": _error(
            status,
            text or f"The upstream refused the request with status {status}.",
            word("type", _TYPE) or _type_of(status),
            word("code", _CODE) or _code_of(status),
            word("param", _PARAM),
        ),
    }
    if (
        retry_after is not None
        and _RETRY_AFTER.fullmatch(retry_after)
        and not redaction.has(retry_after)
    ):
        end["retry_after"] = retry_after
    return end


def _said(body: bytes) -> dict[str, Any]:
    """The error object of a body, in the shapes in use.

    OpenAI's; a flat one; FastAPI's `detail`, bare or as the message (Mistral); a list of errors, or one in a list (Gemini).
    """
    try:
        answer = loads(body)
    except ValueError:
        return {}
    answer = _first(answer)
    error = answer.get("error") or answer
    if error is answer and not {"message", "detail"} & answer.keys():
        error = _first(answer.get("errors")) or answer
    if isinstance(error, str):
        return {"message": error}
    if not isinstance(error, dict):
        return {}
    said = error.get("message", error.get("detail"))
    inner = said if isinstance(said, dict) else {}
    return {**error, **inner, "message": _detail(inner.get("detail", inner.get("message", said)))}


def _first(value: object) -> dict[str, Any]:
    """An object, or the first of a list of some; anything else says nothing."""
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) else {}


def _detail(detail: object) -> object:
    """A sentence, or a list of what is wrong where (`loc`, `msg`), as FastAPI tells it."""
    if not isinstance(detail, list):
        return detail
    faults = [fault for fault in detail if isinstance(fault, dict)][:_LIST]
    return "; ".join(filter(None, map(_fault, faults)))


def _fault(fault: dict[str, Any]) -> str:
    said, place = fault.get("msg"), fault.get("loc")
    if not isinstance(said, str):
        return ""
    names = place if isinstance(place, list) else []
    where = ".".join(str(name) for name in names if isinstance(name, str | int))
    where = where.removeprefix("body.")
    return f"{where}: {said}" if where else said


def _sane(value: object, grammar: re.Pattern[str]) -> str | None:
    return value if isinstance(value, str) and grammar.fullmatch(value) else None


def _type_of(status: int) -> str:
    if status == 429:
        return RATE_LIMIT
    return SERVER if status >= 500 else INVALID_REQUEST


def _code_of(status: int) -> str | None:
    if status == 429:
        return "rate_limit_exceeded"
    return "upstream_error" if status >= 500 else None


def _error(
    status: int, message: str, kind: str, code: str | None, param: str | None
) -> dict[str, Any]:
    return {"status": status, "message": message, "type": kind, "code": code, "param": param}
