"""What an upstream was asked and what it sent, with its timing: the exchanges of a recording, or of an export.

In: a file of `respool record`, or of `respool export`. Out: `Exchange`s, ready to be played again. Pure. The records of a
recording (`streams.transcript`), all with `"exchange"`, its number, and `"at"`, ms since the recording began:

| record                        | what happened                                                                      |
|-------------------------------|------------------------------------------------------------------------------------|
| `{"path", "method", "body"}`  | a request came                                                                     |
| `{"status", "headers"}`       | the upstream answered                                                              |
| `{"data"}`                    | bytes of its body came, as they came                                               |
| `{"end"}`                     | `eof`: the body ended; `reset`: the connection broke; `left`: the client went away; |
|                               | `refused`: no connection could be made                                             |

No header of a request is kept, and of an answer only those of KEPT: neither holds a key.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from respool.unusable import Unusable
from streams.recording import Recording
from streams.transcript import Transcript, data_of, recording_of
from translator.protocol.entries import Entry, Kind
from translator.protocol.json import dumps, loads

KEPT: Final = ("content-type", "retry-after", "retry-after-ms")
"""Headers of an answer that the gateway looks at."""

PATHS: Final = {"responses": "/responses", "chat": "/chat/completions"}
STREAM: Final = {"content-type": "text/event-stream"}
JSON: Final = {"content-type": "application/json"}


@dataclass(slots=True)
class Exchange:
    """One request and its answer. `chunks` are what came when, in ms after the request."""

    path: str
    body: bytes
    method: str = "POST"
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    answered_ms: int = 0
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    end: str = "reset"
    """A recording that was stopped in the middle knows no end of its last exchanges."""
    ended_ms: int = 0

    @property
    def asked(self) -> Any:
        """The request's body as JSON; None for what is none."""
        try:
            return loads(self.body)
        except ValueError:
            return None

    @property
    def model(self) -> str:
        """The model that was asked for."""
        asked = self.asked
        return str(asked.get("model") or "") if isinstance(asked, dict) else ""


def exchanges_of(transcript: Transcript) -> list[Exchange]:
    """The exchanges of a file. Raises Unusable, and Damaged."""
    if transcript.kind == "upstream":
        return _recorded(transcript)
    return list(_exported(recording_of(transcript)))


def _recorded(transcript: Transcript) -> list[Exchange]:
    found: dict[int, Exchange] = {}
    began: dict[int, int] = {}
    try:
        for row in transcript.records:
            number = row["exchange"]
            if "path" in row:
                found[number] = Exchange(row["path"], data_of(row["body"]), row["method"])
                began[number] = row["at"]
                continue
            exchange, at = found[number], row["at"] - began[number]
            if "status" in row:
                exchange.status, exchange.headers = row["status"], row["headers"]
                exchange.answered_ms = at
            elif "data" in row:
                exchange.chunks.append((at, data_of(row["data"])))
            else:
                exchange.end, exchange.ended_ms = row["end"], at
    except (LookupError, TypeError, ValueError):
        raise Unusable("the file does not hold a recording as Respool writes one") from None
    return [found[number] for number in sorted(found)]


def _exported(recording: Recording) -> Iterator[Exchange]:
    """The upstream's part of a response: an exchange for each attempt at a round."""
    path = PATHS[recording.request["upstream"]["api"]]
    bodies: dict[int, bytes] = {}
    exchange: Exchange | None = None
    began = 0
    for entry in recording.entries:
        if entry.kind == Kind.ROUND:
            bodies[entry.round] = entry.data
        elif entry.kind == Kind.ATTEMPT:
            if (
                exchange is not None
            ):  # its end is missing: the log lost it, or the response ended first
                yield exchange
            exchange, began = Exchange(path, bodies.get(entry.round, b"{}")), entry.t
        elif exchange is not None and entry.kind in (Kind.OPENED, Kind.FRAME, Kind.ROUND_END):
            _heard(exchange, entry, entry.t - began)
            if entry.kind == Kind.ROUND_END:
                yield exchange
                exchange = None
    if exchange is not None:
        yield exchange


def _heard(exchange: Exchange, entry: Entry, at: int) -> None:
    if entry.kind == Kind.OPENED:
        exchange.status, exchange.headers, exchange.answered_ms = 200, dict(STREAM), at
    elif entry.kind == Kind.FRAME:
        whole = entry.data.lstrip()[:1] == b"{"
        if whole:
            exchange.headers = dict(JSON)
        exchange.chunks.append((at, entry.data if whole else entry.data + b"\n\n"))
    else:
        _ended(exchange, loads(entry.data), at)


def _ended(exchange: Exchange, end: dict[str, Any], at: int) -> None:
    how = end["how"]
    exchange.ended_ms = at
    exchange.end = ENDS.get(how, "reset")
    if how != "http":
        return
    error = end.get("error") or {}
    exchange.status, exchange.answered_ms = error.get("status") or 500, at
    exchange.headers = dict(JSON)
    if end.get("retry_after"):
        exchange.headers["retry-after"] = str(end["retry_after"])
    exchange.chunks = [(at, dumps({"error": {k: v for k, v in error.items() if k != "status"}}))]


ENDS: Final = {"ok": "eof", "eof": "eof", "http": "eof", "timeout": "left", "refused": "refused"}
"""How a round's end is played; what is not here breaks the connection."""
