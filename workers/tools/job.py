"""One job of a tool worker, as its data says, and what it came to, as the input log takes it.

In: the data of a job (written by `create` and `commit`). Out: a `Job`; and from an `Outcome` or a
`Listing` the data of a `tool_result` or `tools_listed` entry. Pure; called by `workers.tools.role`
and the tools.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from translator.protocol.json import ESCAPE, dumps, loads, replace_lone

MAX_OUTPUT_BYTES: Final = 2**20
"""What one call may bring (contract.md section 7): several times what fits into a model's context."""

MAX_MESSAGE_CHARS: Final = 2_000
"""An error that a server words itself; more is not a sentence any more."""

LONG_INTEGER: Final = re.compile(r"\d{19}")
"""Where an integer may be past 64 bits."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done."""

    key: str
    kind: str
    """`list` or `call`."""
    tool: str
    """`web_search` or `mcp`."""
    server: int | None
    name: str
    arguments: str
    """The model's JSON text, whatever that is."""
    idempotent: bool
    options: dict[str, Any]
    trace: dict[str, str] | None = None
    """Where its response stands in a trace (`streams.tracing`)."""

    @classmethod
    def of(cls, data: bytes) -> "Job":
        """Read a job's data."""
        j = loads(data)
        return cls(
            key=j["key"],
            kind=j["kind"],
            tool=j["tool"],
            server=j.get("server"),
            name=j.get("name") or "",
            arguments=j.get("arguments") or "",
            idempotent=bool(j.get("idempotent")),
            options=j.get("options") or {},
            trace=j.get("trace"),
        )

    @property
    def again(self) -> bool:
        """Whether running it twice does no harm."""
        return self.kind == "list" or self.idempotent


class Failed(Exception):
    """A tool could not do it: the call's failed result, never more. `error` is what the client sees."""

    def __init__(self, message: str, error: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.error = error

    @classmethod
    def http(cls, code: int, message: str) -> "Failed":
        """The way to the server failed, or the server said so."""
        return cls(message, {"type": "http_error", "code": code, "message": message})

    @classmethod
    def protocol(cls, code: int, message: str) -> "Failed":
        """The server refused the call, or spoke badly."""
        return cls(message, {"type": "mcp_protocol_error", "code": code, "message": message})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to."""

    ok: bool
    content: str
    output: str | None = None
    error: dict[str, Any] | None = None
    sources: list[str] = field(default_factory=list)
    results: list[dict[str, Any]] | None = None
    """web_search: `{"title", "url"}` of each result, for annotations."""
    images: list[str] | None = None
    """mcp: data URLs, in order; the content names each where it stood."""

    @classmethod
    def of(cls, failure: Failed) -> "Outcome":
        """The result of a failed call."""
        return cls(False, dumps({"error": failure.message}).decode(), error=failure.error)


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of one server, or why there are none."""

    tools: list[dict[str, Any]]
    error: str | None = None


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments; nothing at all means none. Raises Failed where they are no JSON object.

    Integers are as the model wrote them, however large; halves of surrogate pairs are U+FFFD.
    """
    if not text.strip():
        return {}
    try:
        found = loads(text.encode("utf-8", "surrogatepass"))
        if LONG_INTEGER.search(text):  # our parser, which says what may be, makes floats of those
            found = json.loads(ESCAPE.sub(replace_lone, text.encode()))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Failed.protocol(-32602, "The arguments of the call are not a JSON object.")
    return found


def result_data(key: str, outcome: Outcome, *, started: int, ended: int) -> bytes:
    """The data of a `tool_result` entry. Times are ms of the server's clock.

    `output` is null where the client is shown what the model is told: a large result is stored once.
    """
    data: dict[str, Any] = {
        "key": key,
        "ok": outcome.ok,
        "content": outcome.content,
        "output": None if outcome.output == outcome.content else outcome.output,
        "error": outcome.error,
        "sources": outcome.sources,
        "started": started,
        "ended": ended,
    }
    for name in ("results", "images"):
        if (found := getattr(outcome, name)) is not None:
            data[name] = found
    return dumps(data)


def list_data(key: str, listing: Listing) -> bytes:
    """The data of a `tools_listed` entry."""
    return dumps({"key": key, "tools": listing.tools, "error": listing.error})
