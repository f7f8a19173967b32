"""What a frame costs the fold, in calls of Python functions: a figure that no other load of the machine moves.

Times are measured by `make bench`. This holds what they were won with: a change that adds a call to every frame is seen
here. A figure that goes down for good is written down here as the new bound.
"""

import json
import sys
from typing import Any

import pytest

from tests.translator.drive import (
    CUSTOM,
    FUNCTION,
    RID,
    Event,
    Log,
    added,
    args,
    call,
    ev,
    message,
    text,
    upstream,
)
from translator.machine import Machine
from translator.protocol.entries import Entry
from workers.fold import AT_ONCE

FRAMES = 1_000
MARGIN = 1.1
"""Versions of Python count a little differently (comprehensions are calls in some)."""


def numbered(event: Event, number: int) -> Event:
    return {**event, "sequence_number": number}


def of_text() -> Log:
    deltas = [numbered(text(f"word {n} "), n) for n in range(FRAMES)]
    return upstream(added(message(status="in_progress")), *deltas)


def of_padded_text() -> Log:
    """An upstream whose blocks differ in a third place, so that no two belong together."""
    deltas = [{**text(f"word {n} "), "obfuscation": "x" * (n % 7)} for n in range(FRAMES)]
    return upstream(added(message(status="in_progress")), *deltas)


def of_reasoning() -> Log:
    deltas = [ev("reasoning_text.delta", delta=f"{n}", item_id="r") for n in range(FRAMES)]
    return upstream(*deltas)


def of_a_function_call() -> Log:
    deltas = [args(f"{n}, ") for n in range(FRAMES)]
    return upstream(added(call("get_weather")), *deltas, tools=[FUNCTION])


def of_a_custom_call() -> Log:
    deltas = [args(f"{n}, ") for n in range(FRAMES)]
    return upstream(added(call("exec")), args('{"input":"'), *deltas, tools=[CUSTOM])


def of_chat() -> Log:
    chunks = [
        json.dumps(
            {"choices": [{"index": 0, "delta": {"content": f"{n} "}, "finish_reason": None}]}
        )
        for n in range(FRAMES)
    ]
    return upstream(*chunks, _api="chat")


BOUNDS = {  # of frames that come in a burst, and of each by itself
    of_text: (5.5, 10.3),
    of_padded_text: (33.4, 33.4),
    of_reasoning: (5.5, 10.3),
    of_a_function_call: (10.5, 15.3),
    of_a_custom_call: (14.5, 19.4),
    of_chat: (5.5, 10.3),
}


def calls(entries: list[Entry], at_once: int = AT_ONCE) -> int:
    """Calls of Python functions while these are folded, so many at once as they may be."""
    counted = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal counted
        counted += event == "call"

    machine, at = Machine(RID), 0
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        while at < len(entries):
            at += machine.feed_on(entries, at, min(at + at_once, len(entries)))[1]
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize(("made", "bound"), BOUNDS.items(), ids=[made.__name__ for made in BOUNDS])
def test_a_frame_costs_no_more_calls_than_it_did(made, bound) -> None:
    at_once, alone = bound
    assert calls(made().entries) / FRAMES <= at_once * MARGIN
    assert calls(made().entries, 1) / FRAMES <= alone * MARGIN


@pytest.mark.parametrize("made", BOUNDS, ids=lambda made: made.__name__)
def test_the_cost_of_a_frame_does_not_grow_with_the_response(made) -> None:
    """Nothing is joined or copied again for every frame."""
    entries = made().entries
    half = len(entries) // 2
    early = calls(entries[:half])
    assert calls(entries) - early <= early * 1.05
