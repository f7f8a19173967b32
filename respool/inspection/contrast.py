"""`respool diff`: what two responses have differently, from their requests to their ends.

In: two recordings. Out: a line for each difference. What differs between any two responses is left out: ids, times, and
what repeats an id. Called by `respool.cli`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from rich.text import Text

from respool.inspection.account import payload, rounds_of
from respool.inspection.lanes import event_text
from respool.inspection.screen import Screen, short
from respool.inspection.showing import found
from respool.settings import Settings
from streams.recording import Recording
from translator.protocol.json import dumps, loads

DIFFERENT: Final = 1
SHOWN_CHARS: Final = 100
"""Of a value, for people; --json has it whole."""

ID: Final = re.compile(r"\b([a-z]+_)[0-9a-f]{32,48}\b")
"""Ids that the gateway derives from a response's."""

TIMES: Final = frozenset({"created_at", "completed_at"})


class Contrast(NamedTuple):
    """One difference: where, and what each has there (None: nothing)."""

    where: str
    one: Any
    other: Any


async def diff(screen: Screen, settings: Settings, a: str, b: str) -> int:
    """Print the differences; 0 where there are none, DIFFERENT else."""
    one, other = (await found(settings, a))[0], (await found(settings, b))[0]
    contrasts = list(contrast(one, other))
    for found_here in contrasts:
        screen.data(found_here._asdict())
        screen.say(Text(found_here.where, "bold"))
        for mark, value, style in (("-", found_here.one, "red"), ("+", found_here.other, "green")):
            text = "(none)" if value is None else value if isinstance(value, str) else said(value)
            screen.say(Text(f"  {mark} {short(text, SHOWN_CHARS)}", style))
    if not contrasts:
        screen.say("no difference but ids and times")
    return DIFFERENT if contrasts else 0


def said(value: Any) -> str:
    """A value as JSON."""
    return dumps(value).decode()


def contrast(one: Recording, other: Recording) -> Iterator[Contrast]:
    """Differences, from the request on."""
    mine, theirs = one.request, other.request
    for part in ("upstream", "limits", "request", "history", "input"):
        yield from _values(part, plain(mine[part]), plain(theirs[part]))
    for a, b in zip_longest(rounds_of(one), rounds_of(other)):
        if a is None or b is None:
            number = (a or b).number
            yield Contrast(
                f"round {number}", *(x and f"{len(x.body):,} characters" for x in (a, b))
            )
            continue
        yield from _values(f"round {a.number}: body", _body(a.body), _body(b.body))
        ends = [[attempt.how for attempt in x.attempts] for x in (a, b)]
        yield from _values(f"round {a.number}: ends of its attempts", *ends)
    yield from _frames(one, other)
    yield from _values("status", one.state.status, other.state.status)


def _frames(one: Recording, other: Recording) -> Iterator[Contrast]:
    """Public frames: how many of each kind, and the first that differs."""
    events = [[plain(payload(frame.data)) for frame in x.frames] for x in (one, other)]
    counts = [Counter(str(event.get("type")) for event in told) for told in events]
    for kind in sorted({*counts[0], *counts[1]}):
        yield from _values(f"frames: {kind}", counts[0][kind], counts[1][kind])
    for seq, (a, b) in enumerate(zip_longest(*events)):
        if a != b:
            what = "" if a is None or b is None else f" ({event_text(b, b'')})"
            where = f"frames: the first that differs is {seq}{what}"
            if a is None or b is None:
                yield Contrast(where, a, b)
            else:
                yield from _values(where, a, b)
            return


def _body(text: str) -> Any:
    try:
        return plain(loads(text.encode()))
    except ValueError:
        return text


def plain(value: Any) -> Any:
    """A value without what differs between any two responses."""
    if isinstance(value, dict):
        return {key: None if key in TIMES else plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, str):
        return ID.sub(r"\1…", value)
    return value


def _values(where: str, a: Any, b: Any) -> Iterator[Contrast]:
    """Where two values differ, as deep as both have the same shape."""
    if a == b and type(a) is type(b):
        return
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            yield from _values(f"{where}.{key}", a.get(key), b.get(key))
    elif isinstance(a, list) and isinstance(b, list):
        for at, (x, y) in enumerate(zip_longest(a, b)):
            yield from _values(f"{where}[{at}]", x, y)
    else:
        yield Contrast(where, a, b)
