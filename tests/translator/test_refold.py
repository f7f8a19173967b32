"""A stored response folded again: turns, states on the way, and the first difference."""

import json

import pytest

from tests.translator.drive import (
    RID,
    Log,
    added,
    args,
    call,
    completed,
    fold,
    message,
    text,
    upstream,
    whole_call,
    whole_message,
)
from tests.translator.test_gateway_machine import LOOK, SEARCH, SERVER, Run
from translator.machine import ForeignLog, Machine
from translator.protocol.entries import Entry
from translator.refold import Difference, Identical, compare, refold, state_after, state_of
from translator.step import NextRound

ENTRIES = upstream(*whole_message(["Hel", "lo"]), completed()).entries
FRAMES = fold(ENTRIES).frames


def two_rounds() -> list[Entry]:
    """A search between two rounds, with the very bodies that the fold gives."""
    run = Run(tools=[SEARCH])
    run.round(*whole_call("web_search", '{"query":"x"}'))
    run.result("1.0")
    run.round(*whole_message(["found"]))
    entries = run.log.entries
    (body,) = [c.body for t in refold(RID, entries) for c in t.commands if isinstance(c, NextRound)]
    return [e._replace(data=body) if e.kind == "round" and e.round == 2 else e for e in entries]


# ---- turns ----------------------------------------------------------------------------------


def test_each_entry_has_a_turn_with_its_frames_and_their_numbers():
    turns = list(refold(RID, ENTRIES))
    assert [turn.entry for turn in turns] == ENTRIES
    assert [frame for turn in turns for frame in turn.frames] == FRAMES
    for turn in turns:
        for seq, frame in enumerate(turn.frames, turn.first_seq):
            assert b'"sequence_number":%d,' % seq in frame


def test_a_log_with_a_hole_or_without_a_request_is_told_so():
    with pytest.raises(ForeignLog, match="lacks entry 3"):
        list(refold(RID, [*ENTRIES[:2], *ENTRIES[3:]]))
    with pytest.raises(ForeignLog, match="request"):
        list(refold("resp_" + "f" * 32, ENTRIES))
    with pytest.raises(ForeignLog, match="empty"):
        compare(refold(RID, []), [])


# ---- comparing ------------------------------------------------------------------------------


def test_what_was_stored_is_identical():
    assert compare(refold(RID, ENTRIES), FRAMES) == Identical(len(ENTRIES), len(FRAMES))
    entries = two_rounds()
    assert isinstance(compare(refold(RID, entries), fold(entries).frames), Identical)


@pytest.mark.parametrize("seq", [0, 4, len(FRAMES) - 1])
def test_the_first_frame_that_differs_is_named_with_both_versions(seq):
    stored = [*FRAMES]
    stored[seq] = b"event: other\n\n"
    found = compare(refold(RID, ENTRIES), stored)
    assert isinstance(found, Difference)
    assert (found.seq, found.stored, found.refolded) == (seq, b"event: other\n\n", FRAMES[seq])
    assert found.round == 0
    turn, _ = state_after(RID, ENTRIES, seq=seq)
    assert found.entry == turn.entry


def test_frames_that_only_one_side_has_are_a_difference():
    more = compare(refold(RID, ENTRIES), [*FRAMES, b"more"])
    assert more == Difference(len(FRAMES), b"more", None, ENTRIES[-1])
    fewer = compare(refold(RID, ENTRIES), FRAMES[:-1])
    assert isinstance(fewer, Difference)
    assert (fewer.stored, fewer.refolded) == (None, FRAMES[-1])


def test_of_a_response_that_runs_the_stored_frames_may_end_earlier():
    found = compare(refold(RID, ENTRIES), FRAMES[:-2], whole=False)
    assert isinstance(found, Identical)
    assert found.frames == len(FRAMES) - 2
    found = compare(refold(RID, ENTRIES[:8]), FRAMES, whole=False)
    assert isinstance(found, Difference), "what is committed came out of what was folded"


def test_an_upstream_body_that_would_be_another_is_a_difference():
    entries = two_rounds()
    at = next(i for i, e in enumerate(entries) if e.kind == "round" and e.round == 2)
    sent = json.dumps({**json.loads(entries[at].data), "temperature": 2}).encode()
    changed = [*entries[:at], entries[at]._replace(data=sent), *entries[at + 1 :]]
    found = compare(refold(RID, changed), fold(entries).frames)
    assert isinstance(found, Difference)
    assert (found.round, found.stored, found.refolded) == (2, sent, entries[at].data)
    assert found.entry == changed[at]


# ---- the state on the way -------------------------------------------------------------------


def test_the_state_after_a_frame_is_the_one_after_its_entry():
    for seq in range(len(FRAMES)):
        turn, state = state_after(RID, ENTRIES, seq=seq)
        assert turn.first_seq <= seq < turn.first_seq + len(turn.frames) == state["next_seq"]
        assert state_after(RID, ENTRIES, n=turn.entry.n) == (turn, state)
    with pytest.raises(LookupError, match="it has no frame 99"):
        state_after(RID, ENTRIES, seq=99)
    with pytest.raises(LookupError, match="it has no entry 99"):
        state_after(RID, ENTRIES, n=99)


def phases(entries: list[Entry]) -> list[str]:
    """What the response waits for after each entry, repeats left out; every state is plain JSON."""
    machine = Machine(RID)
    found = [state_of(machine)["phase"]]
    for _ in refold(RID, entries, machine):
        state = state_of(machine)
        assert json.loads(json.dumps(state)) == state
        if state["phase"] != found[-1]:
            found.append(state["phase"])
    return found


def test_the_phases_of_a_response():
    assert phases(two_rounds()) == [
        "before the request",
        "before the first attempt",
        "upstream",
        "tools",
        "next round",
        "upstream",
        "ended",
    ]


def test_the_phases_of_one_whose_servers_list_their_tools():
    run = Run(prepared=True, tools=[SERVER])
    state = state_of(run.machine)
    assert (state["phase"], state["lists"]) == (
        "listing tools",
        [{"server": 0, "label": "docs", "answered": False}],
    )
    run.listed("list.0", LOOK)
    state = state_of(run.machine)
    assert state["phase"] == "before the first attempt"
    assert state["lists"][0]["answered"]
    assert [shown["type"] for shown in state["shown"]] == ["mcp_list_tools"]


def test_a_state_shows_items_as_far_as_they_are():
    log = Log().attempt().frames(added(message(status="in_progress")), text("Hel"), text("lo"))
    state = state_after(RID, log.entries, n=len(log.entries))[1]
    (item,) = state["round"]["items"]
    assert item == {
        "slot": 0,
        "output_index": 0,
        "type": "message",
        "ids": ["msg_up"],
        "ended": "open",
        "parts": [{"kind": "output_text", "done": False, "text": "Hello"}],
        "held": None,
    }
    (shown,) = state["shown"]
    assert shown["id"].startswith("msg_")
    assert not shown["closed"]
    assert state["round"]["result"] is None
    assert state["status"] == "in_progress"


def test_a_state_shows_what_is_held_and_by_what():
    log = Log().attempt().frames(added(call(None), 0), args('{"a":', 0))
    log.frames(added(message(status="in_progress"), 1), text("after", 1))
    state = state_after(RID, log.entries, n=len(log.entries))[1]
    first, second = state["round"]["items"]
    assert (first["held"], first["name"], first["text"]) == ("unknown", None, '{"a":')
    assert (second["held"], second["parts"][0]["text"]) == ("behind", "after")
    assert state["shown"] == []


def test_a_state_shows_calls_that_the_gateway_runs():
    run = Run(tools=[SEARCH])
    run.round(*whole_call("web_search", '{"query":"x"}'))
    state = state_of(run.machine)
    (one,) = state["round"]["calls"]
    assert (one["name"], one["answered"], one["refusal"]) == ("web_search", False, None)
    assert state["round"]["items"][0]["held"] == "running"
    assert state["round"]["result"]["status"] == "completed"
    assert state["calls"] == 1
    run.result("1.0")
    assert state_of(run.machine)["round"]["calls"][0]["answered"]
