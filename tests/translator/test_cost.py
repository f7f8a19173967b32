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


BOUNDS = {
    of_text: 13.3,
    of_padded_text: 32.4,
    of_reasoning: 13.3,
    of_a_function_call: 16.3,
    of_a_custom_call: 20.4,
    of_chat: 13.3,
}


def calls(entries: list[Entry]) -> int:
    """Calls of Python functions while these are folded."""
    counted = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal counted
        counted += event == "call"

    machine = Machine(RID)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for entry in entries:
            machine.feed(entry)
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize(("made", "bound"), BOUNDS.items(), ids=[made.__name__ for made in BOUNDS])
def test_a_frame_costs_no_more_calls_than_it_did(made, bound) -> None:
    assert calls(made().entries) / FRAMES <= bound * MARGIN


@pytest.mark.parametrize("made", BOUNDS, ids=lambda made: made.__name__)
def test_the_cost_of_a_frame_does_not_grow_with_the_response(made) -> None:
    """Nothing is joined or copied again for every frame."""
    entries = made().entries
    half = len(entries) // 2
    early = calls(entries[:half])
    assert calls(entries) - early <= early * 1.05
