"""Why a response ended as it did, or what it waits for, in one paragraph.

In: a `Recording` (and for a response that runs, the store's time). Out: sentences. The entry that brought the end is the
one at which the state's cursor stands: a terminal commit ends with it. Pure. Called by `respool why` and `show`.
"""

from typing import Any, Final

from respool.inspection.account import Told, response_of, rounds_of, said, tool_calls
from respool.inspection.screen import count, size, span
from streams.recording import Recording
from translator.protocol.entries import Entry, Kind
from translator.protocol.json import loads
from workers.translate_end import MESSAGE as BROKEN_FOLD

HOW: Final = {
    "ok": "the upstream ended its stream",
    "eof": "the upstream closed its stream without saying that it was done",
    "reset": "the connection to the upstream broke",
    "refused": "the upstream could not be reached",
    "http": "the upstream refused the request",
    "timeout": "the upstream took too long",
    "too_large": "the upstream sent more than one response may hold",
    "lost": "the process that read the upstream was lost",
}

CANCELS: Final = {
    "client": "a client asked for it",
    "abandoned": "it was not to be stored, and its last reader had left",
    "deadline": "it ran longer than RESPOOL_MAX_RUN_S allows",
}

INCOMPLETE: Final = {
    "max_output_tokens": "the model reached its limit of output tokens",
    "content_filter": "the upstream's content filter stopped the model",
    "max_tool_rounds": "the model went on calling tools past the last round that it may have",
    "max_tool_calls": "the model went on calling tools past `max_tool_calls`",
    "max_response_bytes": "another round would not fit into RESPOOL_MAX_RESPONSE_BYTES",
}

WAITS: Final = {
    "open": "and round {round} waits for a process with the role ingest",
    "running": "and round {round} (attempt {attempt}) reads its upstream",
    "lost": "and round {round} was lost and waits for the translator's word",
    "ended": "and the end of round {round} waits to be folded",
}
"""What a response waits for, by its round's state."""

CLIENT_CALLS: Final = frozenset({"function_call", "custom_tool_call", "mcp_approval_request"})


def reason(recording: Recording, now: int | None = None) -> str:
    """One paragraph. `now` is the store's time in ms, None for a file."""
    state = recording.state
    if not state.done:
        return " ".join(_running(recording, now))
    response = response_of(recording.frames[-1:])
    took = "" if state.took_ms is None else f" {span(state.took_ms)} after it was created"
    end = _end(recording, response)
    stop = "" if end.endswith(".”") else "."
    sentences = [f"It ended as {state.status}{took}: {end}{stop}"]
    sentences += _before(recording)
    return " ".join(sentences)


def _end(recording: Recording, response: dict[str, Any]) -> str:
    error = response.get("error") or {}
    if error.get("message") == BROKEN_FOLD:
        return (
            "the translator could not go on, because what was committed is not what it got when it folded the log"
            " again, or the fold itself broke; `respool replay` shows where"
        )
    cause = _cause(recording)
    match response.get("status"):
        case "completed":
            return f"{cause}{_left(response)}"
        case "incomplete":
            word = (response.get("incomplete_details") or {}).get("reason") or "no reason given"
            return f"{INCOMPLETE.get(word, word)} ({word}); {cause}"
        case "failed":
            return f"{cause}. The client was told {error.get('code')}: “{error.get('message')}”"
        case _:
            return cause


def _left(response: dict[str, Any]) -> str:
    """Whose turn it is then."""
    names = [
        str(item.get("name"))
        for item in response.get("output") or ()
        if item.get("type") in CLIENT_CALLS
    ]
    if not names:
        return ""
    return f"; it is the client's turn, with {count(len(names), 'call')} ({', '.join(names)})"


def _cause(recording: Recording) -> str:
    """The entry that brought the end."""
    at = recording.state.cursor
    if not 1 <= at <= len(recording.entries):
        return "no entry of its log says why"
    entry = recording.entries[at - 1]
    where = f"entry {entry.n}"
    match entry.kind:
        case Kind.FRAME:
            number = entry.round or recording.state.round
            return f"round {number} ended with the upstream's {_event(entry)} ({where})"
        case Kind.ROUND_END:
            return f"{_round_end(loads(entry.data))} ({where})"
        case Kind.CANCEL:
            why = loads(entry.data).get("reason")
            return f"{CANCELS.get(why) or why} ({where})"
        case Kind.TOOL_RESULT:
            return f"the last result of its round's calls had come ({where})"
        case _:
            return f"it came with {entry.kind} ({where})"


def _round_end(end: dict[str, Any]) -> str:
    error = end.get("error") or {}
    text = str(HOW.get(end["how"]) or end["how"])
    if end["how"] == "http" and error.get("status"):
        text += f" with status {error['status']}"
    if end.get("retry_after"):
        text += f" (retry after {end['retry_after']})"
    return text


def _event(entry: Entry) -> str:
    """The event of an upstream frame, as a person names it."""
    block = entry.data
    if b"[DONE]" in block:
        return "`[DONE]`"
    event = said(block)
    if isinstance(event.get("type"), str):
        return f"`{event['type']}`"
    for choice in event.get("choices") or ():
        if isinstance(choice, dict) and choice.get("finish_reason"):
            return f"`finish_reason: {choice['finish_reason']}`"
    return f"frame of {size(len(block))}"


def _before(recording: Recording) -> list[str]:
    """What else a person wants to know of the way there."""
    rounds = rounds_of(recording)
    frames = sum(attempt.frames for one in rounds for attempt in one.attempts)
    sentences = [
        f"Until then: {count(len(rounds), 'round')}, {count(frames, 'upstream frame')},"
        f" {count(len(recording.frames), 'public frame')}{_tools(recording)}."
    ]
    for one in rounds:
        sentences += [
            f"Attempt {attempt.attempt} of round {one.number} was lost with its process"
            f" after {count(attempt.frames, 'frame')}, and {_after_loss(one, attempt.attempt)}."
            for attempt in one.attempts
            if attempt.how == "lost"
        ]
    return sentences


def _after_loss(one: Told, attempt: int) -> str:
    again = any(later.attempt > attempt for later in one.attempts)
    return "the round was begun again" if again else "the round could not be begun again"


def _tools(recording: Recording) -> str:
    calls = tool_calls(recording)
    if not calls:
        return ""
    failed = sum(call.ok is False for call in calls)
    missing = sum(call.ok is None for call in calls)
    text = f", {count(len(calls), 'tool call')}"
    if failed:
        text += f" ({failed} failed)"
    if missing:
        text += f" ({missing} without a result)"
    return text


def _running(recording: Recording, now: int | None) -> list[str]:
    """What it waits for, and whether somebody is at it."""
    state = recording.state
    last = recording.entries[-1]
    age = f", {span(now - last.t)} ago" if now is not None else ""
    sentences = [
        f"It has not ended: it is {state.status}, {_waits(recording)}. The last that happened is"
        f" entry {last.n} ({last.kind}){age}; the client has {count(len(recording.frames), 'frame')}."
    ]
    if now is None:
        return sentences
    if state.lease <= now:
        sentences.append("Nobody translates it at the moment.")
    if state.rstate == "running" and state.ilease <= now:
        sentences.append("The lease of the process that reads its upstream has run out.")
    if last.n > state.cursor and last.kind == Kind.FRAME and state.lease <= now:
        behind = last.n - state.cursor
        sentences.append(f"{count(behind, 'entry')} of its log may not be folded yet.")
    return sentences


def _waits(recording: Recording) -> str:
    state = recording.state
    if state.cancelled:
        return "and a cancel waits to be folded"
    if state.jobs:
        return f"and {count(state.jobs, 'tool call')} of it {'has' if state.jobs == 1 else 'have'} no result"
    return WAITS.get(state.rstate, "and its first round is not open yet").format(
        round=state.round, attempt=state.attempt
    )
