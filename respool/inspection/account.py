"""What happened to a response, put together from its two logs: rounds, attempts, tool calls, items.

In: a `Recording`. Out: plain values, times in ms since the response was created. Pure. Called by its neighbours `reason`,
`showing` and `contrast`.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from streams.recording import Recording
from streams.scripts.outputs import Frame
from translator.protocol.entries import Entry, Kind
from translator.protocol.json import loads
from translator.protocol.sse import fields
from translator.refold import Turn, refold
from translator.step import RunJob
from translator.tool_results import listing_of, result_of

OUTPUT_ITEM: Final = frozenset({"response.output_item.added", "response.output_item.done"})


@dataclass(slots=True)
class Attempt:
    """One upstream request of a round. What has not happened is None."""

    attempt: int
    began_ms: int
    opened_ms: int | None = None
    first_frame_ms: int | None = None
    frames: int = 0
    bytes: int = 0
    ended_ms: int | None = None
    how: str | None = None
    error: dict[str, Any] | None = None


@dataclass(slots=True)
class Told:
    """One round: the exact body that went upstream, and what came of it."""

    number: int
    entry: int
    asked_ms: int
    body: str
    attempts: list[Attempt] = field(default_factory=list)


@dataclass(slots=True)
class ToolCall:
    """A job of the tool workers. `took_ms` is from the moment it was asked for, waiting included."""

    key: str
    tool: str
    server: int | None
    name: str
    arguments: str
    asked_ms: int
    answered_ms: int | None = None
    took_ms: int | None = None
    ok: bool | None = None
    error: Any = None
    content: str | None = None


def rounds_of(recording: Recording) -> list[Told]:
    """The rounds in order. Round 0, the calls that a client has approved, has no upstream and is none of them."""
    began = recording.state.created
    rounds: list[Told] = []
    current: Attempt | None = None
    for entry in recording.entries:
        at = entry.t - began
        match entry.kind:
            case Kind.ROUND:
                rounds.append(Told(entry.round, entry.n, at, entry.data.decode("utf-8", "replace")))
            case Kind.ATTEMPT if rounds:
                current = Attempt(entry.attempt, at)
                rounds[-1].attempts.append(current)
            case Kind.ROUND_END if current is not None:
                end = loads(entry.data)
                current.ended_ms, current.how = at, end.get("how")
                current.error = end.get("error")
            case Kind.OPENED | Kind.FRAME if current is not None:
                _heard(current, entry, at)
            case _:
                pass
    return rounds


def _heard(attempt: Attempt, entry: Entry, at: int) -> None:
    if entry.kind == Kind.OPENED:
        attempt.opened_ms = at
        return
    if attempt.first_frame_ms is None:
        attempt.first_frame_ms = at
    attempt.frames += 1
    attempt.bytes += len(entry.data)


def tool_calls(recording: Recording) -> list[ToolCall]:
    """The jobs as the fold has asked for them, and their results, as far as today's code folds the log."""
    began = recording.state.created
    calls: dict[str, ToolCall] = {}
    for turn in as_far_as_it_goes(refold(recording.rid, recording.entries)):
        at = turn.entry.t - began
        for command in turn.commands:
            if isinstance(command, RunJob):
                calls[command.key] = _asked(command, at)
        if turn.entry.kind in (Kind.TOOL_RESULT, Kind.TOOLS_LISTED):
            call = calls.get(str(loads(turn.entry.data).get("key")))
            if call is not None and call.answered_ms is None:
                call.answered_ms, call.took_ms = at, at - call.asked_ms
                _answered(call, turn.entry)
    return list(calls.values())


def as_far_as_it_goes(turns: Iterator[Turn]) -> Iterator[Turn]:
    """The turns up to one that cannot be had: `respool replay` tells why, other commands show what there is."""
    while True:
        try:
            turn = next(turns, None)
        except Exception:  # noqa: BLE001 - whatever is wrong with the translator, its log can be looked at
            return
        if turn is None:
            return
        yield turn


def _asked(command: RunJob, at: int) -> ToolCall:
    job = loads(command.data)
    return ToolCall(
        key=command.key,
        tool=str(job["tool"]) if job["kind"] == "call" else f"list {job['tool']}",
        server=job.get("server"),
        name=job.get("name") or "",
        arguments=job.get("arguments") or "",
        asked_ms=at,
    )


def _answered(call: ToolCall, entry: Entry) -> None:
    if entry.kind == Kind.TOOL_RESULT:
        result = result_of(entry.data)[1]
        call.ok, call.error, call.content = result["ok"], result["error"], result["content"]
    else:
        listing = listing_of(entry.data)[1]
        call.ok, call.error = listing["error"] is None, listing["error"]


def payload(frame: bytes) -> dict[str, Any]:
    """What a public frame says; nothing where it cannot be read."""
    return said(frame.strip(b"\n"))


def said(block: bytes) -> dict[str, Any]:
    """The object of an SSE block; an empty one where it holds none."""
    try:
        found = loads(fields(block)[1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def response_of(frames: list[Frame]) -> dict[str, Any]:
    """The response as the last frame that shows one does."""
    for frame in reversed(frames):
        response = payload(frame.data).get("response")
        if isinstance(response, dict):
            return response
    return {}


def items_of(recording: Recording) -> list[dict[str, Any]]:
    """The output items: of an ended response as its terminal frame has them, else as far as they are public."""
    response = response_of(recording.frames[-1:])
    if response:
        return list(response.get("output") or ())
    found: dict[int, dict[str, Any]] = {}
    for frame in recording.frames:
        event = payload(frame.data)
        if event.get("type") in OUTPUT_ITEM:
            found[event["output_index"]] = event["item"]
    return [found[index] for index in sorted(found)]


def account(recording: Recording) -> dict[str, Any]:
    """All of it as plain JSON."""
    state, request = recording.state, recording.request
    response = response_of(recording.frames)
    return {
        "id": recording.rid,
        "model": request["request"].get("model"),
        "tenant": state.tenant,
        "status": state.status,
        "created": state.created,
        "ended": state.ended or None,
        "took_ms": state.took_ms,
        "store": state.store,
        "background": state.background,
        "upstream": request["upstream"],
        "limits": request["limits"],
        "entries": len(recording.entries),
        "frames": len(recording.frames),
        "in_bytes": sum(len(entry.data) for entry in recording.entries),
        "out_bytes": sum(len(frame.data) for frame in recording.frames),
        "request": request["request"],
        "input": request["input"],
        "history": request["history"],
        "rounds": [asdict(one) for one in rounds_of(recording)],
        "tool_calls": [asdict(call) for call in tool_calls(recording)],
        "items": items_of(recording),
        "usage": response.get("usage"),
        "error": response.get("error"),
        "incomplete_details": response.get("incomplete_details"),
    }
