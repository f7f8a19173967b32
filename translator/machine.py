"""One response as a fold: entries of its input log in, public frames and commands out.

The only entry for workers (`feed`), and step 3 of the data's way. Everything public is a function of the entries:
whoever feeds them again gets the same bytes (design invariant 2). What the client sees of a response's life:

    queued (background only) ─► in_progress ─► completed | failed | incomplete | cancelled

| entry     | what it does                                                                                        |
|-----------|-----------------------------------------------------------------------------------------------------|
| request   | response.created; in the background response.queued, else response.in_progress                       |
| attempt   | the round begins, or begins anew after a loss; in the background response.in_progress, once          |
| frame     | the round's next event(s): item frames, and the response's end where the upstream ends               |
| round_end | the end where the upstream gave none: failed, or another attempt while nothing of the round is public |
| cancel    | the end: cancelled, or failed past the deadline                                                      |

After the terminal frame every entry is ignored. Upstream garbage ends the response as failed (contract.md D9, D10); the
only error that `feed` raises is ForeignLog, for a log that no Respool wrote.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from translator.dialect import Dialect, dialect_of
from translator.output import Output
from translator.protocol.cleaned import cleaned
from translator.protocol.entries import Entry, Kind, RequestEntry, RoundEnd
from translator.protocol.errors import LimitPassed, ProtocolFault, StoreError
from translator.protocol.response import add_usage, template, usage
from translator.round import Round, Shown
from translator.tool_choice import upstream_choice
from translator.toolmap import ToolMap
from translator.upstream_event import Event

ENTRY_VERSION: Final = 1
FRAME: Final = str(Kind.FRAME)
SEALED: Final = "reasoning.encrypted_content"
"""The `include` of clients that hand reasoning back instead of having it stored."""

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

TERMINAL_EVENTS: Final = {
    "completed": "response.completed",
    "failed": "response.failed",
    "incomplete": "response.incomplete",
    "cancelled": "response.incomplete",  # contract.md D8
}


_ENDINGS: Final[dict[str, str]] = {
    "ok": "The upstream ended its stream without a terminal event.",
    "eof": "The upstream ended its stream without a terminal event.",
    "reset": "The connection to the upstream broke.",
    "refused": "The upstream could not be reached.",
    "http": "The upstream refused the request.",
    "timeout": "The upstream took too long.",
    "too_large": "The upstream sent more than one response may hold.",
    "lost": "The process that read the upstream was lost.",
}
"""What a client is told where the round's end brings no message of its own (contract.md D7)."""


class ForeignLog(StoreError):
    """The log does not begin with a request entry of this version."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Let a round that was lost be claimed again."""

    round: int


@dataclass(frozen=True, slots=True)
class NextRound:
    """Write the next round's entry with this exact upstream body."""

    number: int
    body: bytes


Command = Reopen | NextRound


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth counting and a debug line, never with content: what, whose (a tool's name), how large."""

    kind: str
    name: str = ""
    size: int = 0


class Step(NamedTuple):
    """What one entry brought: frames to commit, commands for the commit, notes for metrics. One is made of every frame."""

    frames: list[bytes]
    commands: Sequence[Command] = ()
    notes: Sequence[Note] = ()


class Machine:
    """The fold of one response. Feed it every entry of the input log from the first, in order.

    `status` is the response's; `response` is the stored Response once the terminal frame was made.
    """

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        self.status = "queued"
        self.response: dict[str, Any] | None = None  # set with the terminal frame
        self._out = Output()
        self._commands: list[Command] = []  # of the entry at hand; taken by feed
        self._notes: list[Note] = []  # the same; shared with the round, so emptied, never replaced
        self._request: RequestEntry | None = None  # set by the request entry
        self._template: dict[str, Any] = {}  # the 31 keys, set by the request entry
        self._tools: ToolMap  # set by the request entry
        self._allowed: frozenset[str] | None = (
            None  # the only tools that may be called; set by the request entry
        )
        self._api = ""  # what the upstream speaks; set by the request entry
        self._sealed = (
            False  # whether reasoning carries its text in an opaque value; set by the request entry
        )
        self._shown = Shown()
        self._usage: dict[str, Any] | None = None  # summed over rounds
        self._round: Round | None = None  # set by each attempt
        self._dialect: Dialect  # set by each attempt
        self._attempt = 0  # attempts of the current round
        self._now = 0  # time of the entry at hand, ms

    @property
    def terminal(self) -> bool:
        """Whether the terminal frame was made."""
        return self.response is not None

    def feed(self, entry: Entry) -> Step:
        """Fold the next entry."""
        if self.response is not None:
            return Step([])
        self._now = entry.t
        try:
            self._feed(entry)
        except ProtocolFault as fault:
            self._fail("server_error", fault.message)
        except LimitPassed as passed:
            self._fail("server_error", passed.message)
        if not (self._commands or self._notes):
            return Step(self._out.take())
        commands, self._commands = self._commands, []
        notes = self._notes.copy()
        self._notes.clear()
        return Step(self._out.take(), commands, notes)

    def _feed(self, entry: Entry) -> None:
        if entry.kind == FRAME:
            self._frame(entry.data)
            return
        if self._request is None and entry.kind != Kind.REQUEST:
            raise ForeignLog("The input log does not begin with a request.")
        match entry.kind:
            case Kind.REQUEST:
                self._begin(orjson.loads(entry.data))
            case Kind.ATTEMPT:
                self._begin_attempt(entry)
            case Kind.ROUND_END:
                self._end_round(orjson.loads(entry.data))
            case Kind.CANCEL:
                self._cancel(orjson.loads(entry.data))
            case _:
                pass  # opened and round are for the api and ingest

    # ---- the response's life ------------------------------------------------------------------

    def _begin(self, request: RequestEntry) -> None:
        if request.get("version") != ENTRY_VERSION or request.get("id") != self.response_id:
            raise ForeignLog("The input log does not begin with a request of this version.")
        self._request = request
        self._api = request["upstream"]["api"]
        include = request["request"].get("include") or []
        # A Responses upstream has opaque values of its own; a chat one knows only the text.
        self._sealed = self._api == "chat" and SEALED in include
        self._out.limit = request["limits"]["max_response_bytes"]
        self._tools = ToolMap.of_entry(request)
        self._allowed = upstream_choice(request["request"].get("tool_choice"), self._tools).allowed
        self._template = template(request, self._now // 1000)
        if request["request"].get("background"):
            self._life("response.created", "queued")
            self._life("response.queued", "queued")
        else:
            self._life("response.created", "in_progress")
            self._life("response.in_progress", "in_progress")

    def _begin_attempt(self, entry: Entry) -> None:
        if self.status == "queued":
            self._life("response.in_progress", "in_progress")
        if self._round is not None and self._round.public:
            raise ProtocolFault("A round began again after the client had seen a part of it.")
        same = self._round is not None and self._round.number == entry.round
        self._attempt = self._attempt + 1 if same else 1
        self._dialect = dialect_of(self._api, self._tools)
        self._round = Round(
            self.response_id,
            entry.round,
            self._tools,
            self._shown,
            self._out,
            note=partial(_note, self._notes),
            sealed=self._sealed,
            allowed=self._allowed,
        )

    def _frame(self, block: bytes) -> None:
        if self._round is None:
            raise ForeignLog("The input log holds an upstream frame before any attempt.")
        for event in self._dialect.events(block):
            self._take(self._round, event)

    def _take(self, current: Round, event: Event) -> None:
        current.take(event)
        result = current.result
        if result is None:
            return
        self._usage = add_usage(self._usage, usage(result.usage))
        if result.status == "failed":
            message = result.message or "The upstream failed."
            self._fail(result.code or "server_error", cleaned(message))
            return
        current.close(result.status)
        details = {"reason": result.reason} if result.status == "incomplete" else None
        self._end(result.status, incomplete_details=details)

    def _end_round(self, end: RoundEnd) -> None:
        how = end["how"]
        if how == "lost" and self._may_try_again():
            self._commands.append(Reopen(self._round.number if self._round else 1))
            self._notes.append(Note("round lost"))
            return
        if how in ("ok", "eof") and self._round is not None:
            for event in self._dialect.end(finished=how == "ok"):
                self._take(self._round, event)
            if self.response is not None:
                return
        error = end.get("error") or {}
        self._fail(error.get("code") or "server_error", error.get("message") or _ENDINGS[how])

    def _may_try_again(self) -> bool:
        """A lost round is tried again while nothing of it is public, a bounded number of times (design 4.2)."""
        if self._request is None or (self._round is not None and self._round.public):
            return False
        return self._attempt < self._request["limits"]["max_attempts"]

    def _cancel(self, cancel: dict[str, Any]) -> None:
        if cancel.get("reason") == "deadline":
            self._fail("server_error", "The response took longer than a run may.")
            return
        self._close_round("incomplete")
        self._end("cancelled")

    def _fail(self, code: str, message: str) -> None:
        self._out.limit = None
        self._close_round("incomplete")
        self._end(
            "failed",
            error={"code": code if code in ERROR_CODES else "server_error", "message": message},
        )

    def _close_round(self, status: str) -> None:
        if self._round is not None:
            self._round.close(status)

    # ---- frames -----------------------------------------------------------------------------

    def _life(self, event: str, status: str) -> None:
        self.status = status
        self._out.write(event, {"response": {**self._template, "status": status}})

    def _end(self, status: str, **fields: Any) -> None:
        if self._round is not None:
            for quirk, times in self._round.tolerated.items():
                self._notes.append(Note("tolerated", quirk, times))
        response = {
            **self._template,
            "status": status,
            "output": self._shown.output(),
            "usage": self._usage,
            **fields,
        }
        if status == "completed":
            response["completed_at"] = self._now // 1000
        self.status = status
        self.response = response
        self._out.limit = None
        self._out.write(TERMINAL_EVENTS[status], {"response": response})


def _note(notes: list[Note], kind: str, name: str, size: int) -> None:
    """For the round, which thus does not hold the machine that holds it: nothing here waits for the cyclic collector."""
    notes.append(Note(kind, name, size))
