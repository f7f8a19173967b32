"""One response as a fold: entries of its input log in, public frames and commands out.

The only entry for workers (`feed_on`; `feed` takes one entry of it), and step 3 of the data's way. Everything public is a
function of the entries: whoever feeds them again gets the same bytes (design invariant 2). What the client sees of a
response's life:

    queued (background only) ─► in_progress ─► completed | failed | incomplete | cancelled

| entry       | what it does                                                                                    |
|-------------|-------------------------------------------------------------------------------------------------|
| request     | response.created; in the background response.queued, else response.in_progress; what comes first |
| attempt     | the round begins, or begins anew after a loss; in the background response.in_progress, once      |
| frame       | the round's next event(s): item frames, and the response's end where the upstream ends           |
| round_end   | jobs for the calls that the gateway runs; where the upstream gave no end: failed, or another     |
|             | attempt while nothing of the round is public                                                    |
| tool_result | a call's result; after the last one of its round the next round, or the end                      |
| tools_listed| the tools of a server; after the last one round 1                                                |
| cancel      | the end: cancelled, or failed past the deadline                                                  |

Before round 1 comes what the request needs (`translator.preparation`): servers list their tools, and the calls that the
client approved are round 0, whose model is the client.

After the terminal frame every entry is ignored. Upstream garbage ends the response as failed (contract.md D9, D10); the
only error that `feed` raises is ForeignLog, for a log that no Respool wrote.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import orjson

from translator.accumulator import GROWING, RoundResult
from translator.dialect import Dialect, dialect_of
from translator.discovery import Discovery
from translator.outbound import upstream_body
from translator.output import Output
from translator.preparation import Preparation, preparation_of
from translator.protocol.cleaned import cleaned
from translator.protocol.entries import FRAME, Entry, Kind, RequestEntry, RoundEnd
from translator.protocol.errors import ERROR_CODES, TOO_MANY_REQUESTS, ProtocolFault, StoreError
from translator.protocol.json import dumps
from translator.protocol.response import add_usage, template, usage
from translator.public_items import RoundOptions, Shown
from translator.round import Round
from translator.step import Command, NextRound, Note, Reopen, RunJob, Step
from translator.text_run import MAX_MISSES, Form, Run
from translator.tool_choice import upstream_choice
from translator.tool_results import LIST, listing_of, result_of
from translator.toolmap import ToolMap
from translator.upstream_event import Event, ResponsesDialect

ENTRY_VERSION: Final = 1
NO_EVENT: Final[Event] = {"type": ""}
SEALED: Final = "reasoning.encrypted_content"
"""The `include` of clients that hand reasoning back instead of having it stored."""

MAX_CALLS: Final = 128
"""Calls that the gateway runs for one response where the request sets no lower limit: ten rounds of a dozen."""

MAX_REFUSED_ROUNDS: Final = 2
"""Rounds in a row in which every call was refused: a model that was told so and calls again would do so for ever."""

ROUND_ROOM: Final = 2**20
"""What must be left of the log for a further round: with its body, which repeats all results so far, it would else begin
and fail."""

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


BODY_ENDS: Final = ("ok", "eof", "reset", "timeout")
"""Ends of a body that may have said all by then: a chat upstream's last word is its finish reason."""

NO_TOOLS: Final = ToolMap(())


class ForeignLog(StoreError):
    """The log does not begin with a request entry of this version."""


class Machine:
    """The fold of one response. Feed it every entry of the input log from the first, in order.

    `status` is the response's; `response` is the stored Response once the terminal frame was made.
    """

    def __init__(self, response_id: str) -> None:
        # All attributes are set here: one that came later would cost each instance a dict of its own, 1.5 KB.
        self.response_id = response_id
        self.status = "queued"
        self.response: dict[str, Any] | None = None  # set with the terminal frame
        self._out = Output()
        self._commands: list[Command] = []  # of the entry at hand; taken by feed
        self._notes: list[Note] = []  # the same; shared with the round, so emptied, never replaced
        self._request: RequestEntry | None = None  # set by the request entry
        self._template: dict[str, Any] = {}  # the 31 keys, set by the request entry
        self._tools = NO_TOOLS  # set by the request entry
        self._api = ""  # what the upstream speaks; set by the request entry
        self._sealed = False  # whether reasoning carries its text; set by the request entry
        self._shown = Shown()
        self._usage: dict[str, Any] | None = None  # summed over rounds
        self._round: Round | None = None  # set by each attempt
        self._dialect: Dialect = ResponsesDialect()  # set by each attempt
        self._run: Run | None = None  # what the next frame may go on with
        self._misses = 0  # runs in a row that nothing went on with
        self._attempt = 0  # attempts of the current round
        self._discovery: Discovery | None = None  # set where servers must list their tools first
        self._approved: list[dict[str, Any]] = []  # questions that the client has said yes to
        self._brought: list[dict[str, Any]] = []  # what came of both, before round 1
        self._told: list[dict[str, Any]] = []  # what all finished rounds said, called and were told
        self._ended_round = -1  # the last round whose end was taken
        self._refused_rounds = 0  # rounds in a row whose calls were all refused
        self._now = 0  # time of the entry at hand, ms
        self._log_bytes = 0  # of all entries so far

    @property
    def request(self) -> RequestEntry | None:
        """The log's first entry, once it was fed; without input and history where these are needed no more."""
        return self._request

    @property
    def terminal(self) -> bool:
        """Whether the terminal frame was made."""
        return self.response is not None

    @property
    def phase(self) -> str:
        """What the response waits for."""
        if self._request is None:
            return "before the request"
        if self.response is not None:
            return "ended"
        if self._discovery is not None and self._discovery.waits:
            return "listing tools"
        if self._round is None:
            return "before the first attempt"
        if self._round.result is None:
            return "upstream"
        return "tools" if self._round.waits else "next round"

    def picture(self) -> dict[str, Any]:
        """The state after the last entry as plain JSON, for people who look for a fault; nothing is changed by it."""
        lists, current = self._discovery, self._round
        return {
            "status": self.status,
            "phase": self.phase,
            "next_seq": self._out.sequence,
            "attempt": self._attempt,
            "round": current.picture() if current is not None else None,
            "lists": lists.picture() if lists is not None else [],
            "shown": [shown.picture() for shown in self._shown.items],
            "calls": self._shown.calls,
            "usage": self._usage,
            "input_bytes": self._log_bytes,
            "output_bytes": self._out.bytes,
        }

    def feed(self, entry: Entry) -> Step:
        """Fold the next entry."""
        return self.feed_on((entry,), 0, 1)[0]

    def feed_on(self, entries: Sequence[Entry], start: int, stop: int) -> tuple[Step, int]:
        """Fold the entry at `start`; where it goes on with a run, also those before `stop` that do. How many it were.

        They bring what they would bring one by one (tests/translator/test_text_run.py).
        """
        if self.response is not None:
            return Step([]), 1
        run = self._run
        count = 0 if run is None else run.take(entries, start, stop, self._out)
        if run is None or not count:
            self._take_one(entries[start])
            count = 1
        else:
            for index in range(start, start + count):
                self._log_bytes += len(entries[index].data)
            self._now = entries[start + count - 1].t
            if run.fault is not None:
                self._fail("server_error", run.fault.message)
        if self._out.full and self.response is None:
            self._fail("server_error", f"The response is larger than {self._out.limit} bytes.")
        if self.response is not None:
            self._commands.clear()  # what has ended asks for nothing
        if not (self._commands or self._notes):
            return Step(self._out.take()), count
        commands, self._commands = self._commands, []
        notes = self._notes.copy()
        self._notes.clear()
        return Step(self._out.take(), commands, notes), count

    def _take_one(self, entry: Entry) -> None:
        self._now = entry.t
        self._log_bytes += len(entry.data)
        self._leave_run()
        try:
            self._feed(entry)
        except ProtocolFault as fault:
            self._fail("server_error", fault.message)

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
            case Kind.TOOL_RESULT:
                self._take_result(entry.data)
            case Kind.TOOLS_LISTED:
                self._take_listing(entry.data)
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
        self._sealed = SEALED in include
        self._out.limit = request["limits"]["max_response_bytes"]
        self._tools = ToolMap.of_entry(request)
        asked = request["request"].get("max_tool_calls") or MAX_CALLS
        self._shown.max_calls = min(asked, MAX_CALLS)
        self._template = template(request, self._now // 1000)
        if request["request"].get("background"):
            self._life("response.created", "queued")
            self._life("response.queued", "queued")
        else:
            self._life("response.created", "in_progress")
            self._life("response.in_progress", "in_progress")
        if needed := preparation_of(request):
            self._prepare(needed)
        elif not (self._tools.any_gateway_run or self._tools.withholds):
            # There is one round: what further ones would tell need not be held while its answer streams.
            self._request = {**request, "input": [], "history": []}

    def _begin_attempt(self, entry: Entry) -> None:
        if self.status == "queued":
            self._life("response.in_progress", "in_progress")
        same = self._round is not None and self._round.number == entry.round
        if same and self._round is not None:
            if self._round.public:
                raise ProtocolFault("A round began again after the client had seen a part of it.")
            self._round.forget()
        self._attempt = self._attempt + 1 if same else 1
        self._dialect = dialect_of(self._api, self._tools)
        self._misses = 0
        self._round = self._new_round(entry.round)

    def _new_round(self, number: int, approved: Sequence[str] = ()) -> Round:
        asked = self._request["request"] if self._request else {}
        choice = upstream_choice(asked.get("tool_choice"), self._tools, forced=self._forced)
        options = RoundOptions(
            sealed=self._sealed,
            allowed=choice.allowed if number else None,  # what the client has approved it allows
            runs=not number or choice.value != "none",
            approved=approved,
            include=asked.get("include") or (),
        )
        return Round(
            self.response_id,
            number,
            self._tools,
            self._shown,
            self._out,
            note=partial(_note, self._notes),
            options=options,
        )

    def _frame(self, block: bytes) -> None:
        if self._round is None:
            raise ForeignLog("The input log holds an upstream frame before any attempt.")
        event, events = NO_EVENT, 0
        for event in self._dialect.events(block):
            self._take(self._round, event)
            events += 1
        if events == 1 and event["type"] in GROWING:
            self._begin_run(self._round, block, event)

    def _begin_run(self, current: Round, block: bytes, delta: Event) -> None:
        """A block that did nothing but make a text longer may be the first of a run."""
        growing, text = current.growing, delta.get("delta")
        if growing is None or not isinstance(text, str) or self._misses >= MAX_MISSES:
            return
        form = Form.of(block, text)
        if form is not None:
            self._run = Run(form, growing)

    def _leave_run(self) -> None:
        if self._run is not None:
            self._misses = 0 if self._run.taken else self._misses + 1
            self._run = None

    def _take(self, current: Round, event: Event) -> None:
        if current.result is not None:
            return  # the upstream has ended the round; its calls are run
        current.take(event)
        result = current.result
        if result is None:
            return
        self._usage = add_usage(self._usage, usage(result.usage))
        if result.status == "failed":
            message = result.message or "The upstream failed."
            self._fail(result.code or "server_error", cleaned(message))
            return
        current.end(result.status)
        if not current.has_gateway_calls:
            self._end_with(result)

    def _end_with(self, result: RoundResult) -> None:
        """The response ends as its last round has."""
        details = {"reason": result.reason} if result.status == "incomplete" else None
        self._end(result.status, incomplete_details=details)

    def _end_round(self, end: RoundEnd) -> None:
        how, current = end["how"], self._round
        if current is not None and current.result is None and how in BODY_ENDS:
            for event in self._dialect.end():
                self._take(current, event)
            if self.response is not None:
                return
        if current is not None and current.result is not None:
            self._run_calls(current)
            return
        if how == "lost" and self._may_try_again():
            self._commands.append(Reopen(current.number if current else 1))
            self._notes.append(Note("round lost"))
            return
        self._usage = add_usage(self._usage, usage(self._dialect.usage))
        error = end.get("error") or {}
        code = error.get("code") or "server_error"
        if code not in ERROR_CODES and error.get("status") == TOO_MANY_REQUESTS:
            code = "rate_limit_exceeded"
        self._fail(code, error.get("message") or _ENDINGS[how])

    # ---- what the gateway runs --------------------------------------------------------------

    def _prepare(self, needed: Preparation) -> None:
        """Before round 1: the servers list their tools."""
        if self.status == "queued":
            self._life("response.in_progress", "in_progress")
        self._approved = needed.approved
        discovery = Discovery(self.response_id, needed.to_list, self._shown, self._out)
        self._discovery = discovery
        self._ask(discovery.jobs())
        if not discovery.waits:
            self._run_approved()

    def _ask(self, jobs: Iterable[tuple[str, bytes]]) -> None:
        """Give jobs to the workers, each with the trace that it belongs to."""
        trace = self._request.get("trace") if self._request else None
        more = b',"trace":%s}' % dumps(trace) if trace else b"}"
        self._commands += [RunJob(key, data[:-1] + more) for key, data in jobs]

    def _take_listing(self, data: bytes) -> None:
        key, result = listing_of(data)
        if self._discovery is None or key is None or key.round != LIST:
            return
        if not self._discovery.waits:
            return
        self._discovery.take(key.place, result)
        if self._discovery.waits or self._request is None:
            return
        self._brought = self._discovery.items()
        self._tools = ToolMap.of_entry(self._request, self._brought)
        self._run_approved()

    def _run_approved(self) -> None:
        """The calls that the client has approved are round 0; one whose tool is gone is answered without it."""
        calls = [
            (request["id"], visible, request)
            for request in self._approved
            for visible in self._tools.of_server(request["server_label"], request["name"])
        ]
        if not calls:
            self._open_round(1)
            return
        self._round = self._new_round(0, approved=[request_id for request_id, _, _ in calls])
        for index, (_, visible, request) in enumerate(calls):
            call = {"type": "function_call", "name": visible, "arguments": request["arguments"]}
            done = {"type": "response.output_item.done", "output_index": index, "item": call}
            self._round.take(done)
        self._round.take({"type": "response.completed"})
        self._round.end("completed")
        self._run_calls(self._round)

    def _run_calls(self, current: Round) -> None:
        """The round's upstream is done: its calls are given to the workers."""
        if current.number <= self._ended_round:
            return
        self._ended_round = current.number
        self._ask(current.jobs())
        if not current.waits:
            self._after(current)

    def _take_result(self, data: bytes) -> None:
        key, result = result_of(data)
        current = self._round
        if key is None or current is None or key.round != current.number or not current.waits:
            return
        current.take_result(key.place, result)
        if not current.waits:
            self._after(current)

    def _after(self, current: Round) -> None:
        """All calls of a round have their results: the turn is over, or the model goes on with them."""
        current.finish()
        result = current.result
        if result is None or self._request is None:
            raise AssertionError("a round without an end has no calls to run")
        if current.number == 0:
            self._brought += current.answered()
            self._open_round(1)
            return
        self._refused_rounds = self._refused_rounds + 1 if current.only_refused else 0
        if result.status == "incomplete" or current.has_client_calls:
            self._end_with(result)
        elif current.number >= self._request["limits"]["max_rounds"]:
            self._end("incomplete", incomplete_details={"reason": "max_tool_rounds"})
        elif self._refused_rounds >= MAX_REFUSED_ROUNDS:
            reason = "max_tool_calls" if current.over_limit else "max_tool_rounds"
            self._end("incomplete", incomplete_details={"reason": reason})
        else:
            self._told += current.told()
            self._note_tolerated(current)
            self._open_round(current.number + 1)

    @property
    def _forced(self) -> bool:
        """Whether a forced choice still binds: not once calls have had their results, or the model would loop."""
        return self._ended_round < 0

    def _open_round(self, number: int) -> None:
        """Write the next round's entry: all that was said so far, and what the workers brought."""
        request = self._request
        if request is None:
            raise AssertionError("a log begins with its request")
        items = [*request["history"], *request["input"], *self._brought, *self._told]
        body = upstream_body(
            request["request"],
            items,
            self._tools,
            api=request["upstream"]["api"],
            reasoning_history=request["upstream"].get("reasoning_history", "none"),
            forced=self._forced,
        )
        data, limit = dumps(body), self._out.limit
        if self._log_bytes + len(data) > limit - min(ROUND_ROOM, limit // 4):
            self._end("incomplete", incomplete_details={"reason": "max_response_bytes"})
        else:
            self._commands.append(NextRound(number, data))

    # ---- other ends ---------------------------------------------------------------------------

    def _may_try_again(self) -> bool:
        """A lost round is tried again while nothing of it is public, a bounded number of times (design 4.2)."""
        if self._request is None or (self._round is not None and self._round.public):
            return False
        return self._attempt < self._request["limits"]["max_attempts"]

    def _cancel(self, cancel: dict[str, Any]) -> None:
        if cancel.get("reason") == "deadline":
            self._fail("server_error", "The response took longer than a run may.")
            return
        self._close()
        self._end("cancelled")

    def _fail(self, code: str, message: str) -> None:
        self._close()
        self._end(
            "failed",
            error={"code": code if code in ERROR_CODES else "server_error", "message": message},
        )

    def _close(self) -> None:
        """Close what is open, as incomplete."""
        if self._discovery is not None:
            self._discovery.close()
        if self._round is not None:
            self._round.close()

    # ---- frames -----------------------------------------------------------------------------

    def _life(self, event: str, status: str) -> None:
        self.status = status
        self._out.write(event, {"response": {**self._template, "status": status}})

    def _end(self, status: str, **fields: Any) -> None:
        if self._round is not None:
            self._note_tolerated(self._round)
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
        self._out.write(TERMINAL_EVENTS[status], {"response": response})

    def _note_tolerated(self, current: Round) -> None:
        for quirk, times in current.tolerated.items():
            self._notes.append(Note("tolerated", quirk, times))


def _note(notes: list[Note], kind: str, name: str, size: int) -> None:
    """For the round, which thus does not hold the machine that holds it: nothing here waits for the cyclic collector."""
    notes.append(Note(kind, name, size))
