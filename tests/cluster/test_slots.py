"""Which keys go together: a script that touched two slots would be refused by every cluster."""

import pytest

from streams.cluster import slot_of
from streams.keys import WORK_KINDS, Keys
from streams.logs import state
from streams.scripts import (
    hints,
    idempotency,
    inputs,
    outputs,
    refusals,
    responses,
    restoring,
    rounds,
    sealing,
    tools,
)
from streams.scripts.call import SCRIPTS, Call

KEYS = Keys("ns")
RID = "resp_" + "5" * 32
COMMIT = {
    "fence": "1:t",
    "expected_cursor": 0,
    "cursor": 1,
    "first_seq": 0,
    "frames": [b"f"],
    "digest": "",
    "lease_ms": 1,
    "retain_ms": 1,
    "max_out_bytes": 1,
}
CREATE = {"tenant": "t", "store": True, "background": False, "run_ms": 1, "retention_ms": 1}

OF_A_RESPONSE = [
    responses.create(KEYS, RID, request_data=b"{}", round_body=b"{}", secrets=b"s", **CREATE),
    responses.cancel(KEYS, RID, reason="client"),
    responses.delete(KEYS, RID),
    refusals.keep(KEYS, RID, created=1, end={}),
    refusals.kept(KEYS, RID),
    responses.keep(KEYS, RID, reader="r", lease_ms=1, grace_ms=1),
    rounds.claim_round(KEYS, RID, token="t", lease_ms=1),
    rounds.append(
        *(KEYS, RID),
        fence="f",
        first_frame_no=1,
        items=[("frame", b"")],
        lease_ms=1,
        max_in_bytes=1,
    ),
    rounds.append(
        *(KEYS, RID),
        fence="f",
        first_frame_no=1,
        items=[("frame", b"")],
        lease_ms=1,
        max_in_bytes=1,
        outcome=rounds.Outcome(5, "1:t", 1, 5, 2, [b"f"], "", 1, 1),
    ),
    rounds.heartbeat_round(KEYS, RID, fence="f", lease_ms=1),
    rounds.lost(KEYS, RID, token="t"),
    outputs.acquire(KEYS, RID, token="t", lease_ms=1),
    outputs.commit(KEYS, RID, **COMMIT),
    outputs.commit(KEYS, RID, **COMMIT, status="failed", terminal=True),
    outputs.commit(KEYS, RID, **COMMIT, jobs=[("1.0", b"{}")]),
    outputs.heartbeat(KEYS, RID, fence="f", lease_ms=1),
    outputs.release(KEYS, RID, fence="f"),
    outputs.read_output(KEYS, RID, after=-1, count=1),
    outputs.last_frame(KEYS, RID),
    sealing.seal(KEYS, RID, value=b"", entries=1, frames=1),
    sealing.read_seal(KEYS, RID, start=0, size=1),
    tools.claim_tool(KEYS, RID, token="t", lease_ms=1, limit=5),
    tools.heartbeat_tool(KEYS, RID, fence="f", lease_ms=1),
    tools.release_tool(KEYS, RID, fence="f"),
    tools.tool_result(KEYS, RID, key="1.0", kind="tool_result", data=b"{}"),
    tools.expire_tools(KEYS, RID),
    tools.read_secrets(KEYS, RID),
    inputs.read_input(KEYS, RID, after=0, count=1, most_bytes=0),
    inputs.follow_input(KEYS, RID, after=0, count=1),
    state(KEYS, RID),
    outputs.read_frames(KEYS, RID, after=-1, count=1),
    restoring.restore(KEYS, RID, value=b"", digest="", fields={"status": "failed"}, retain_ms=1),
]
SHARED = [
    *(hints.hint(KEYS, kind, RID) for kind in WORK_KINDS),
    hints.group(KEYS, "rounds"),
    hints.taken(KEYS, "rounds", [b"1-1"]),
    hints.due_enter(KEYS, RID, at=1, after_ms=None),
    hints.due_take(KEYS, now=None, limit=1),
    hints.due_begin(KEYS, RID, after_ms=1, place=hints.Place("t", 1, 1, 1)),
    hints.due_end(KEYS, RID),
    idempotency.bind(KEYS, "t", "k", rid=RID, digest="d", ttl_ms=1),
]


def keys_of(call: Call[object]) -> list[str]:
    if call.script is None:
        return [str(call.command[1])]
    count = int(call.command[2])
    return [str(key) for key in call.command[3 : 3 + count]]


def name_of(call: Call[object]) -> str:
    return call.script.name if call.script else str(call.command[0])


@pytest.mark.parametrize("call", OF_A_RESPONSE, ids=name_of)
def test_all_keys_of_a_call_are_in_the_slot_of_its_response(call):
    home = slot_of(KEYS.state(RID))
    assert {slot_of(key) for key in keys_of(call)} == {home}
    assert slot_of(call.key) == home
    assert slot_of(KEYS.bell_in(RID)) == slot_of(KEYS.bell_out(RID)) == home


@pytest.mark.parametrize("call", SHARED, ids=name_of)
def test_a_call_on_shared_keys_touches_one_slot(call):
    assert {slot_of(key) for key in keys_of(call)} == {slot_of(call.key)}
    assert call.key == keys_of(call)[0]


def test_every_key_begins_with_the_namespace():
    """Rights of a server's users go by it (docs/running.md)."""
    for call in (*OF_A_RESPONSE, *SHARED):
        assert all(key.startswith("ns:") for key in keys_of(call)), name_of(call)


def test_no_script_is_left_out_here():
    assert {call.script for call in (*OF_A_RESPONSE, *SHARED) if call.script} == set(SCRIPTS)


def test_a_command_without_a_key_may_go_anywhere():
    assert [
        Call("", None, command, (), lambda reply: reply).key for command in (("TIME",), ("PING",))
    ] == ["", ""]
    assert Call("", None, ("EVAL", "return 1", 0), (), lambda reply: reply).key == ""
