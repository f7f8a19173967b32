"""The entries of an input log: all that happened to one response, in the order in which it became true.

An entry's place is its number `n` (Redis id `n-1`, from 1). `t` is the server's time in ms, stamped by the script
that appended it; `data` is one JSON object, but for `round` (the exact body sent upstream) and `frame` (the raw bytes
of one upstream SSE block without its closing blank line, or the whole of a body that was JSON instead of a stream).

| kind        | written by            | round, attempt | data                                                       |
|-------------|-----------------------|----------------|------------------------------------------------------------|
| request     | api, at create        |                | RequestEntry: all that the fold depends on                 |
| round       | api (1), commit (2…)  | round          | the exact upstream body                                    |
| attempt     | ingest, claim_round   | round, attempt | `{}`                                                       |
| opened      | ingest                |                | `{"status": 200}`: the upstream accepted                   |
| frame       | ingest                |                | raw bytes                                                  |
| round_end   | ingest, or sweeper    |                | RoundEnd                                                   |
| tools_listed| tool worker           |                | the tools of one MCP server                                |
| tool_result | tool worker           |                | the result of one call                                     |
| cancel      | api, or sweeper       |                | `{"reason": "client" | "abandoned" | "deadline"}`          |
"""

from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict


class Kind(StrEnum):
    """What happened."""

    REQUEST = "request"
    ROUND = "round"
    ATTEMPT = "attempt"
    OPENED = "opened"
    FRAME = "frame"
    ROUND_END = "round_end"
    TOOLS_LISTED = "tools_listed"
    TOOL_RESULT = "tool_result"
    CANCEL = "cancel"


FRAME: Final = str(Kind.FRAME)
"""The kind that nearly every entry is of, as a plain string: that is compared at once."""


class Entry(NamedTuple):
    """One entry of an input log. A tuple, for one is made of every upstream frame."""

    n: int
    kind: str
    t: int
    data: bytes
    round: int = 0
    attempt: int = 0


class RequestEntry(TypedDict):
    """The data of the first entry: every input and every setting that the fold depends on.

    `request` is the public request as validated (unknown fields included, secrets left out), `input` its input as a
    list of items that all have ids, `history` what `previous_response_id` stands for (earlier input and output items).
    """

    version: int
    id: str
    tenant: str
    request: dict[str, Any]
    input: list[dict[str, Any]]
    history: list[dict[str, Any]]
    upstream: dict[str, Any]
    """`{"id", "api": "responses" | "chat", "custom_formats": "reject" | "validate",
    "reasoning_history": "none" | "reasoning_content" | "reasoning"}`"""
    limits: dict[str, int]
    """`{"max_rounds", "max_attempts", "max_response_bytes"}`"""
    trace: NotRequired[dict[str, str]]
    """Where the response stands in a trace, where there is one (`streams.tracing`). Nothing public depends on it."""


How = Literal["ok", "eof", "reset", "refused", "http", "timeout", "too_large", "lost"]


class RoundEnd(TypedDict, total=False):
    """How the upstream's part of a round ended.

    ok: an end marker came (`[DONE]` or a terminal event); eof: a clean end of the body without one; reset: the
    connection broke; refused: it could not be made; http: a status other than 200; timeout: connect, idle or total;
    too_large: a bound was passed; lost: the ingest process died. `error` is what the client may see
    (`{"status", "message", "type", "code", "param"}`), cleaned of hosts and keys; `retry_after` is copied from a 429.
    """

    how: How
    error: dict[str, Any]
    retry_after: str
