"""`respool show` and `respool why`: what happened to one response.

In: a `Recording`. Out: its request, rounds with the exact upstream bodies, tool calls, items and end. Called by
`respool.cli`.
"""

import re
from typing import Any, Final

from rich.text import Text

from respool.inspection.account import (
    Attempt,
    Told,
    ToolCall,
    account,
    items_of,
    rounds_of,
    tool_calls,
)
from respool.inspection.evidence import check_id, is_file, of_file, of_store, open_store
from respool.inspection.reason import HOW, reason
from respool.inspection.screen import Screen, bar, count, moment, short, size, span, status, table
from respool.settings import Settings
from streams.recording import Recording
from translator.protocol.json import dumps

BODY_CHARS: Final = 600
"""Of an upstream body, without --full; a longer one is mostly the conversation so far."""

PREVIEW_CHARS: Final = 60

ROOMY: Final = 140
"""Columns of a terminal on which ids of items, 54 letters each, leave room for what the items say."""


async def found(settings: Settings, name: str) -> tuple[Recording, int | None]:
    """A response, and the store's time where it came from a store."""
    with bar("reading") as told:
        if is_file(name):
            return of_file(name), None
        check_id(name)
        async with open_store(settings) as store:
            return await of_store(store, name, told), await store.logs.now()


async def why(screen: Screen, settings: Settings, name: str) -> int:
    """One paragraph."""
    recording, now = await found(settings, name)
    text = reason(recording, now)
    screen.data({"id": recording.rid, "status": recording.state.status, "why": text})
    screen.say(Text(text))
    return 0


async def show(screen: Screen, settings: Settings, name: str, *, full: bool) -> int:
    """Everything."""
    recording, now = await found(settings, name)
    if screen.as_json:
        screen.data({**account(recording), "why": reason(recording, now)})
        return 0
    _head(screen, recording)
    _request(screen, recording, full=full)
    for one in rounds_of(recording):
        _round(screen, one, full=full)
    _calls(screen, recording)
    _items(screen, recording)
    screen.say()
    screen.say(Text(reason(recording, now)))
    return 0


def _head(screen: Screen, recording: Recording) -> None:
    state, upstream = recording.state, recording.request["upstream"]
    line = Text.assemble((recording.rid, "bold"), "  ", status(state.status))
    screen.say(line)
    model = recording.request["request"].get("model")
    kept = "stored" if state.store else "not stored"
    screen.say(
        f"  model {model}, upstream {upstream.get('id')} ({upstream.get('api')}),"
        f" tenant {state.tenant or '-'}, {kept}{', in the background' if state.background else ''}"
    )
    took = "" if state.took_ms is None else f", took {span(state.took_ms)}"
    frames = sum(len(frame.data) for frame in recording.frames)
    entries = sum(len(entry.data) for entry in recording.entries)
    screen.say(
        f"  created {moment(state.created)} UTC{took};"
        f" {count(len(recording.entries), 'entry')} ({size(entries)}),"
        f" {count(len(recording.frames), 'frame')} ({size(frames)})"
    )


def _request(screen: Screen, recording: Recording, *, full: bool) -> None:
    request = recording.request
    screen.say()
    screen.say(Text("request", "bold"))
    said = {key: value for key, value in request["request"].items() if value is not None}
    for key, value in said.items():
        text = dumps(value).decode()
        screen.say(Text(f"  {key}: {text if full else short(text, BODY_CHARS // 4)}"))
    turns = [("history", item) for item in request["history"]]
    for where, item in [*turns, *(("input", item) for item in request["input"])]:
        text = dumps(item).decode()
        screen.say(Text(f"  {where}: {text if full else short(preview(item), BODY_CHARS // 4)}"))


def _round(screen: Screen, one: Told, *, full: bool) -> None:
    screen.say()
    screen.say(
        Text.assemble(
            (f"round {one.number}", "bold"), f"  +{span(one.asked_ms)}, entry {one.entry}"
        )
    )
    body = one.body
    if not full and len(body) > BODY_CHARS:
        body = f"{body[:BODY_CHARS]}… ({len(one.body) - BODY_CHARS:,} more characters: --full)"
    screen.say(Text(f"  sent {body}"))
    for attempt in one.attempts:
        screen.say(Text(f"  attempt {attempt.attempt}  {_attempt(attempt)}"))


def _attempt(attempt: Attempt) -> str:
    parts = [f"+{span(attempt.began_ms)}"]
    if attempt.first_frame_ms is not None:
        parts.append(f"first frame after {span(attempt.first_frame_ms - attempt.began_ms)}")
    parts.append(f"{count(attempt.frames, 'frame')} ({size(attempt.bytes)})")
    if attempt.how is None:
        parts.append("no end in the log")
    else:
        text = HOW.get(attempt.how, attempt.how)
        if attempt.error:
            text += f": {attempt.error.get('status') or ''} {attempt.error.get('message') or ''}"
        at = f" at +{span(attempt.ended_ms)}" if attempt.ended_ms is not None else ""
        parts.append(" ".join(text.split()) + at)
    return ", ".join(parts)


def _calls(screen: Screen, recording: Recording) -> None:
    calls = tool_calls(recording)
    if not calls:
        return
    screen.say()
    screen.say(Text("tool calls", "bold"))
    rows = table("  KEY", "TOOL", "NAME", "ASKED", "TOOK", "RESULT", "ARGUMENTS", right=("TOOK",))
    for call in calls:
        rows.add_row(
            f"  {call.key}",
            call.tool,
            call.name,
            f"+{span(call.asked_ms)}",
            span(call.took_ms) if call.took_ms is not None else "",
            Text(result_text(call)),
            Text(short(call.arguments, PREVIEW_CHARS)),
        )
    screen.say(rows)


def result_text(call: ToolCall) -> str:
    """How a call ended, in a few words."""
    if call.ok is None:
        return "none yet"
    if call.ok:
        return "ok"
    error = call.error
    said = error.get("message") or preview(error) if isinstance(error, dict) else str(error)
    return f"failed: {short(said, PREVIEW_CHARS)}"


def _items(screen: Screen, recording: Recording) -> None:
    items = items_of(recording)
    if not items:
        return
    screen.say()
    screen.say(Text("items", "bold"))
    roomy = screen.width is None or screen.width >= ROOMY
    rows = table("  #", "TYPE", *(["ID"] if roomy else []), "STATUS", "NAME", "CONTENT")
    for index, item in enumerate(items):
        rows.add_row(
            f"  {index}",
            str(item.get("type")),
            *([str(item.get("id") or "")] if roomy else []),
            str(item.get("status") or ""),
            str(item.get("name") or ""),
            Text(short(preview(item), PREVIEW_CHARS)),
        )
    screen.say(rows)


TEXTS: Final = ("arguments", "input", "output", "text", "content", "summary", "refusal")


def preview(item: Any) -> str:
    """What a person would read of an item: its texts."""
    if isinstance(item, str):
        return item
    if isinstance(item, list):
        return " ".join(filter(None, map(preview, item)))
    if not isinstance(item, dict):
        return ""
    role = f"{item['role']}: " if isinstance(item.get("role"), str) else ""
    texts = [preview(item[key]) for key in TEXTS if item.get(key)]
    return role + re.sub(r"\s+", " ", " ".join(filter(None, texts)))
