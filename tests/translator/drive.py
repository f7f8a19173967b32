"""Drives the fold: builds input logs, folds them in several ways, and reads what became public.

`play` is what most tests call: it folds a log whole, several entries at once, without runs, again after each quarter, and
cut into single bytes, and fails if the five disagree (laws 1 and 2 of the property tests); then it checks the laws of
every public stream.
"""

import json
from dataclasses import dataclass
from typing import Any

from tests.translator import laws
from translator.machine import Machine
from translator.protocol.entries import Entry
from translator.protocol.sse import Blocks
from translator.step import Note, Reopen

RID = "resp_" + "0123456789abcdef" * 2
START_MS = 1_700_000_000_000

Event = dict[str, Any]


@dataclass
class Told:
    """What a client was told of a response."""

    frames: list[bytes]
    machine: Machine
    notes: list[Note]
    reopened: list[int]

    @property
    def events(self) -> list[Event]:
        return [laws.parse(frame) for frame in self.frames]

    @property
    def types(self) -> list[str]:
        return [event["type"].removeprefix("response.") for event in self.events]

    @property
    def response(self) -> Event:
        assert self.machine.response is not None
        return self.machine.response

    @property
    def output(self) -> list[Event]:
        return self.response["output"]

    def of(self, event_type: str) -> list[Event]:
        return [e for e in self.events if e["type"] == f"response.{event_type}"]

    def deltas(self, family: str) -> list[str]:
        return [event["delta"] for event in self.of(f"{family}.delta")]

    def item_types(self) -> list[str]:
        """Events of items only, in order."""
        return [
            t
            for t in self.types
            if t not in ("created", "queued", "in_progress", "completed", "failed", "incomplete")
        ]


def request_entry(**body: Any) -> bytes:
    """The data of a request entry, written by hand so that it does not depend on the request side."""
    max_bytes = body.pop("_max_response_bytes", 1 << 30)
    api = body.pop("_api", "responses")
    max_rounds = body.pop("_max_rounds", 10)
    history = body.pop("_history", [])
    trace = body.pop("_trace", None)
    said = [{"type": "message", "role": "user", "id": "msg_in", "content": "hi"}]
    said += body.pop("_input", [])
    entry = {
        "version": 1,
        "id": RID,
        "tenant": "default",
        "request": {"model": "tiny", **body},
        "input": said,
        "history": history,
        "upstream": {
            "id": "default",
            "api": api,
            "custom_formats": "reject",
            "reasoning_history": "none",
        },
        "limits": {
            "max_rounds": max_rounds,
            "max_attempts": 3,
            "max_response_bytes": max_bytes,
        },
    }
    if trace is not None:
        entry["trace"] = trace
    return json.dumps(entry).encode()


def block(event: Event | str | bytes) -> bytes:
    """An upstream block: an event object, raw data, or raw block bytes."""
    if isinstance(event, bytes):
        return event
    if isinstance(event, str):
        return b"data: " + event.encode()
    data = json.dumps(event).encode()
    return b"event: %b\ndata: %b" % (str(event.get("type", "message")).encode(), data)


class Log:
    """An input log that is being written."""

    def __init__(self, **body: Any) -> None:
        self.entries: list[Entry] = []
        self.add("request", request_entry(**body))
        self.add("round", b"{}", round=1)

    def add(self, kind: str, data: Any = b"{}", **at: int) -> "Log":
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        n = len(self.entries) + 1
        self.entries.append(Entry(n, kind, START_MS + 10 * n, raw, **at))
        return self

    def attempt(self, number: int = 1, round: int = 1) -> "Log":
        return self.add("attempt", round=round, attempt=number)

    def frames(self, *events: Event | str | bytes) -> "Log":
        for event in events:
            self.add("frame", block(event))
        return self

    def end(self, how: str = "eof", **fields: Any) -> "Log":
        return self.add("round_end", {"how": how, **fields})


class PlainMachine(Machine):
    """A machine that reads every block whole (`translator.text_run`)."""

    def _begin_run(self, *_: Any) -> None:
        pass


def fold(entries: list[Entry], kind: type[Machine] = Machine) -> Told:
    machine = kind(RID)
    frames: list[bytes] = []
    notes: list[Note] = []
    reopened: list[int] = []
    for entry in entries:
        step = machine.feed(entry)
        frames += step.frames
        notes += step.notes
        reopened += [c.round for c in step.commands if isinstance(c, Reopen)]
    return Told(frames, machine, notes, reopened)


def fold_at_once(entries: list[Entry]) -> tuple[list[bytes], list[Note], dict[str, Any]]:
    """Fold a log as workers do: as many entries at a time as the machine takes. Frames, notes and the last picture."""
    machine, frames, notes, at = Machine(RID), [], [], 0
    while at < len(entries):
        step, count = machine.feed_on(entries, at, len(entries))
        frames += step.frames
        notes += step.notes
        at += count
    return frames, notes, machine.picture()


def upstream(*events: Event | str | bytes, end: str = "eof", **body: Any) -> Log:
    """The log of one round whose upstream sent these events."""
    return Log(**body).attempt().add("opened", {"status": 200}).frames(*events).end(end)


CUTS = 4
"""Parts of a log, after each of which it is folded again from its beginning."""


def fold_once(events: list[Event]) -> Told:
    """What many events bring, folded once: the ways of `play` are quadratic."""
    return fold(upstream(*events, tools=[CUSTOM]).entries)


def play(*events: Event | str | bytes, end: str = "eof", **body: Any) -> Told:
    """Fold one round in every way; the ways must agree and the laws must hold.

    A response that would go on, with calls that nobody answers here, is cancelled.
    """
    log = upstream(*events, end=end, **body)
    waits = not fold(log.entries).machine.terminal
    if waits:
        log.add("cancel", {"reason": "client"})
    told = fold(log.entries)
    plain = fold(log.entries, PlainMachine)
    assert (plain.frames, plain.notes) == (told.frames, told.notes), "a run changes the stream"
    frames, notes, picture = fold_at_once(log.entries)
    assert (frames, notes) == (told.frames, told.notes), "several at once change the stream"
    assert picture == told.machine.picture()
    # A fold sees nothing of what comes later, so few cuts tell as much as all.
    for cut in {len(log.entries) * part // CUTS for part in range(1, CUTS)}:
        again = fold(log.entries[:cut])
        assert again.frames == told.frames[: len(again.frames)], f"refold differs at {cut}"
    raw = b"".join(block(event) + b"\n\n" for event in events)
    cutter = Blocks()
    blocks = [found for at in range(len(raw)) for found in cutter.feed(raw[at : at + 1])]
    blocks += cutter.flush()
    if blocks != [block(event) for event in events]:
        other = upstream(*blocks, end=end, **body)
        bytewise = fold((other.add("cancel", {"reason": "client"}) if waits else other).entries)
        assert [laws.parse(f) for f in bytewise.frames] == told.events, (
            "the split changes the stream"
        )
    laws.check(told.events)
    assert told.machine.terminal
    assert told.machine.status == told.response["status"]
    return told


# ---- upstream events ----------------------------------------------------------------------------


def ev(kind: str, **fields: Any) -> Event:
    return {"type": f"response.{kind}", **fields}


def created() -> Event:
    return ev("created", response={"id": "resp_up", "status": "in_progress", "output": []})


def completed(output: list[Event] | None = None, **fields: Any) -> Event:
    response = {"id": "resp_up", "status": "completed", "output": output or [], **fields}
    return ev("completed", response=response)


def message(ident: str = "msg_up", text: str | None = None, status: str = "completed") -> Event:
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": ident,
        "role": "assistant",
        "status": status,
        "content": content,
    }


def call(
    name: str | None,
    arguments: str = "",
    ident: str = "fc_up",
    call_id: str | None = "call_up",
    status: str = "in_progress",
) -> Event:
    return {
        "type": "function_call",
        "id": ident,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def added(item: Event | None, index: int | None = 0) -> Event:
    return ev("output_item.added", item=item, **_at(index))


def done(item: Event | None, index: int | None = 0) -> Event:
    return ev("output_item.done", item=item, **_at(index))


def text(delta: str, index: int | None = 0, ident: str = "msg_up", content_index: int = 0) -> Event:
    return ev(
        "output_text.delta", delta=delta, item_id=ident, content_index=content_index, **_at(index)
    )


def args(delta: str, index: int | None = 0, ident: str = "fc_up") -> Event:
    return ev("function_call_arguments.delta", delta=delta, item_id=ident, **_at(index))


def args_done(arguments: str, index: int | None = 0, ident: str = "fc_up", **fields: Any) -> Event:
    return ev(
        "function_call_arguments.done", arguments=arguments, item_id=ident, **_at(index), **fields
    )


def whole_call(
    name: str, arguments: str, index: int = 0, ident: str = "fc_up", call_id: str = "call_up"
) -> list[Event]:
    """A well-behaved call."""
    return [
        added(call(name, ident=ident, call_id=call_id), index),
        args(arguments, index, ident),
        args_done(arguments, index, ident, name=name),
        done(call(name, arguments, ident, call_id, "completed"), index),
    ]


MESSAGE_LIFE = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
]
"""The events of a message of one delta."""


def whole_message(words: list[str], index: int = 0, ident: str = "msg_up") -> list[Event]:
    """A well-behaved message."""
    joined = "".join(words)
    part = {"type": "output_text", "text": joined, "annotations": []}
    place = {"item_id": ident, "output_index": index, "content_index": 0}
    return [
        added(message(ident, status="in_progress"), index),
        ev("content_part.added", part={**part, "text": ""}, **place),
        *[text(word, index, ident) for word in words],
        ev("output_text.done", text=joined, **place),
        ev("content_part.done", part=part, **place),
        done(message(ident, joined), index),
    ]


def _at(index: int | None) -> Event:
    return {} if index is None else {"output_index": index}


CUSTOM = {"type": "custom", "name": "exec"}
FUNCTION = {
    "type": "function",
    "name": "get_weather",
    "description": "",
    "parameters": {"type": "object"},
    "strict": False,
}
