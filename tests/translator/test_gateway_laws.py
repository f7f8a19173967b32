"""The laws of responses whose tools the gateway runs, as properties: any rounds, results in any order, and faults.

A plan says what the upstream and the tools will do; `world` lets it happen, in an order of Hypothesis' choice. That
every response comes to its end, and that nothing is asked for twice, is checked by `world` itself.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from tests.translator import laws
from tests.translator.bodies import JSON
from tests.translator.drive import RID, Event
from tests.translator.plans import ORDERS, QUIET, holds_for, pieces_of, plans, run, troubled
from tests.translator.world import (
    FOUND,
    SECRET_ITEM,
    TOOLS,
    Plan,
    Round,
    Saying,
    Server,
    World,
    call_id_of,
    calls_of,
    outputs_of,
    tag_of,
)
from translator.machine import Machine
from translator.protocol.entries import Entry
from translator.protocol.errors import RespoolError
from translator.protocol.sse import Blocks
from translator.step import NextRound, RunJob

ROOT = Path(__file__).parents[2]


def refolded(entries: Iterable[Entry]) -> tuple[list[bytes], list[Any]]:
    """Frames and commands of a log, by a machine that knows nothing else."""
    machine = Machine(RID)
    steps = [machine.feed(entry) for entry in entries]
    return [f for s in steps for f in s.frames], [c for s in steps for c in s.commands]


# ---- the laws -----------------------------------------------------------------------------------


@holds_for(troubled(), ORDERS)
def test_every_response_keeps_the_laws_of_public_streams(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    laws.check(world.events)
    laws.gateway(world.events)


@holds_for(troubled(), ORDERS)
def test_a_response_has_one_beginning_one_end_and_nothing_after_it(
    plan: Plan, order: Random
) -> None:
    world = run(plan, order)
    assert [t for t in world.types if t == "created"] == ["created"]
    assert [e for e in world.events if e["type"] in laws.ENDS] == [world.events[-1]]
    assert not world.steps[-1].commands, "what has ended asks for nothing"
    for kind in ("tool_result", "tools_listed", "round_end", "frame", "cancel"):
        step = world.enter(kind, {"how": "ok", "key": "1.0", "reason": "client"})
        assert (step.frames, list(step.commands)) == ([], [])


@holds_for(troubled(), ORDERS)
def test_the_public_stream_folds_to_the_stored_response(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    finished = {
        e["output_index"]: e["item"]
        for e in world.events
        if e["type"] == "response.output_item.done"
    }
    finished |= laws.cut_calls(world.events)
    assert [finished[index] for index in sorted(finished)] == world.output
    assert world.events[-1]["response"] == world.response
    assert world.machine.status == world.response["status"]


@holds_for(troubled(), ORDERS, st.data())
def test_a_fold_that_stops_anywhere_goes_on_with_the_same_bytes_and_commands(
    plan: Plan, order: Random, data: st.DataObject
) -> None:
    world = run(plan, order)
    stop = data.draw(st.integers(0, len(world.entries)))
    frames, commands = refolded(world.entries[:stop])
    assert frames == [f for step in world.steps[:stop] for f in step.frames]
    assert commands == [c for step in world.steps[:stop] for c in step.commands]
    assert refolded(world.entries) == (world.frames, world.commands)


@holds_for(QUIET, st.data())
def test_the_split_of_the_upstreams_bytes_changes_nothing(plan: Plan, data: st.DataObject) -> None:
    world = run(plan)
    for blocks in world.blocks.values():
        raw = b"".join(found + b"\n\n" for found in blocks)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=20)))
        cutter = Blocks()
        ends = zip([0, *cuts], [*cuts, len(raw)], strict=True)
        again = [found for start, end in ends for found in cutter.feed(raw[start:end])]
        assert again + cutter.flush() == blocks


@holds_for(QUIET, st.data())
def test_however_the_model_is_cut_into_deltas_the_response_is_the_same(
    plan: Plan, data: st.DataObject
) -> None:
    def whole(one: Saying) -> Saying:
        return replace(one, pieces=pieces_of(one.joined, data.draw(st.sampled_from([1, 2, 5]))))

    other = replace(
        plan,
        rounds=tuple(
            replace(played, sayings=tuple(whole(one) for one in played.sayings), weave=())
            for played in plan.rounds
        ),
    )
    first, second = run(plan), run(other)
    assert [timeless(item) for item in first.output] == [timeless(i) for i in second.output]
    assert first.bodies == second.bodies
    assert first.jobs == second.jobs


def timeless(item: Event) -> Event:
    return {key: value for key, value in item.items() if key != "logprobs"}


@holds_for(QUIET, ORDERS)
def test_in_what_order_results_arrive_changes_only_how_items_interleave(
    plan: Plan, order: Random
) -> None:
    first, second = run(plan), run(plan, order)
    assert first.response == second.response
    assert first.bodies == second.bodies
    assert first.jobs == second.jobs
    assert by_item(first.events) == by_item(second.events)
    ends = [e["output_index"] for e in second.events if is_end(e)]
    assert ends == [e["output_index"] for e in first.events if is_end(e)]


@holds_for(QUIET, st.integers(0, 999))
def test_the_first_result_of_a_call_is_the_one_that_counts(plan: Plan, seed: int) -> None:
    """Every result comes again with another content, and there are results of calls that nobody made."""
    noisy = replace(plan, noise=frozenset(range(2, 500)))
    first, second = run(plan, Random(seed)), run(noisy, Random(seed))  # noqa: S311
    assert first.output == second.output
    assert first.bodies == second.bodies


def by_item(events: list[Event]) -> list[Event]:
    """The events without their numbers, each item's together."""
    bare = [{k: v for k, v in event.items() if k != "sequence_number"} for event in events]
    return sorted(bare, key=lambda event: event.get("output_index", -1))


def is_end(event: Event) -> bool:
    """Whether a call of a gateway's tool is over with this event."""
    done = event["type"] == "response.output_item.done"
    return done and event["item"]["type"] in ("mcp_call", "web_search_call")


@holds_for(troubled(), ORDERS)
def test_results_reach_the_next_round_in_the_models_order(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    before: list[tuple[str, str]] = []
    for number, body in sorted(world.bodies.items()):
        outputs = outputs_of(body)
        assert outputs[: len(before)] == before, "what was told once is told again"
        calls = calls_of(body)
        assert [ident for ident, _ in outputs] == [ident for ident in calls if ident], (
            "every call has its output, in the order of the calls"
        )
        if number > 1:
            told = outputs[len(before) :]
            made = world.calls(number - 1)
            if not plan.losses:
                assert [ident for ident, _ in told] == [
                    call_id_of(number - 1, at) for at, _ in made
                ]
            jobs = jobs_of(world, number - 1)
            for (_, one), (_, content) in zip(made, told, strict=True):
                keys = jobs.get(one.joined, [])
                if not any(tag_of(key) in content for key in keys):
                    same = [other for _, other in made if other.joined == one.joined]
                    assert len(same) > len(keys), "it has run, and this is not its result"
                    assert "error" in json.loads(content)
        before = outputs


@holds_for(troubled(), ORDERS)
def test_a_next_round_is_told_all_that_the_model_said(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    for number, body in world.bodies.items():
        texts = list(strings(body))
        for earlier in range(1, number):
            for one in world.said(earlier):
                if one.kind == "text":
                    assert any(one.joined in text for text in texts)


@holds_for(troubled(), ORDERS)
def test_nothing_internal_of_a_gateway_call_leaks(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    frames = b"".join(world.frames)
    assert SECRET_ITEM.encode() not in frames
    internal = set(world.names.values())
    for known, name in world.names.items():
        if name != known.partition("/")[2] and name != "web_search":
            assert name.encode() not in frames
    for event in world.events:
        for item in items_of(event):
            if item["type"] in laws.CALLS:
                assert item["name"] not in internal
    for number in range(1, len(plan.rounds) + 2):
        for at, one in world.calls(number):
            if world.owned(one):
                assert call_id_of(number, at).encode() not in frames
    told = [e["response"]["tools"] for e in world.events if e["type"] in laws.LIFE]
    assert all(without_urls(tools) == without_urls(plan.tools) for tools in told)


def without_urls(tools: list[Event]) -> list[Event]:
    return [{k: v for k, v in tool.items() if v is not None} for tool in tools]


@holds_for(troubled(), ORDERS)
def test_only_calls_of_the_gateways_own_tools_are_run(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    for key, job in world.jobs.items():
        if job["kind"] == "list" or key.startswith("0."):
            continue
        number = int(key.partition(".")[0])
        made = [one for _, one in world.calls(number) if world.owned(one)]
        mine = [one for one in made if one.joined == job["arguments"]]
        runs = [one for one in mine if not world.asks_first(one)]
        assert job["tool"] in {one.name if one.name == "web_search" else "mcp" for one in runs}


@holds_for(troubled(), ORDERS)
def test_a_round_with_calls_for_the_client_is_the_last(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    for number in world.bodies:
        if number == 1:
            continue
        for _, one in world.calls(number - 1):
            assert world.owned(one)
            assert not world.asks_first(one)


@holds_for(troubled(), ORDERS)
def test_a_round_that_the_upstream_did_not_finish_runs_nothing_and_is_the_last(
    plan: Plan, order: Random
) -> None:
    world = run(plan, order)
    for number in world.played:
        if (end := world.playing(number).end) != "completed":
            assert number + 1 not in world.bodies
            if end != "incomplete":
                assert not jobs_of(world, number)


@holds_for(troubled(), ORDERS)
def test_the_calls_of_a_round_are_run_once_the_round_has_ended(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    for entry, step in zip(world.entries, world.steps, strict=True):
        for command in step.commands:
            if isinstance(command, RunJob) and not command.key.startswith(("list", "0.")):
                assert entry.kind == "round_end"
                assert command.key.startswith(f"{entry.round}.")


@holds_for(troubled(), ORDERS)
def test_rounds_and_calls_keep_their_caps(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    opened = [entry.round for entry in world.entries if entry.kind == "round"]
    assert opened == list(range(1, len(opened) + 1))
    assert len(opened) <= plan.max_rounds
    reason = (world.response["incomplete_details"] or {}).get("reason")
    if reason == "max_tool_rounds":
        assert len(opened) == plan.max_rounds
    most = dict(plan.body).get("max_tool_calls")
    if most is not None:
        kinds = Counter(item["type"] for item in world.output)
        assert kinds["mcp_call"] + kinds["web_search_call"] <= most
        called = [key for key, job in world.jobs.items() if job["kind"] == "call"]
        assert len(called) <= most


class Unnamed(World):
    """A world in which the model may not be told of every tool."""

    def check_names(self, found: list[str], *, listed: bool) -> None:
        """It is told of some, or of none."""


@holds_for(QUIET, ORDERS, st.sampled_from(["web_search", "mcp"]))
def test_a_tool_that_is_not_allowed_is_neither_run_nor_shown(
    plan: Plan, order: Random, kind: str
) -> None:
    assume(plan.search if kind == "web_search" else plan.servers)
    selector = {"type": kind, "server_label": "alpha"} if kind == "mcp" else {"type": kind}
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [selector]}
    limited = replace(plan, body=(*plan.body, ("tool_choice", choice)))
    # The model knows the names from somewhere: an earlier turn, or its own fancy.
    world = Unnamed(limited, order.randrange, names=run(plan).names).run()
    laws.check(world.events)
    laws.gateway(world.events)
    for key, job in world.jobs.items():
        if job["kind"] == "call" and not key.startswith("0."):
            assert job["tool"] == kind
            assert not job["server"]
    for item in world.output:
        assert item["type"] not in laws.CALLS
        if item["type"] in laws.RUN and '"approved"' not in item.get("arguments", ""):
            assert item["type"] == f"{kind}_call"
            assert item.get("server_label", "alpha") == "alpha"


@holds_for(QUIET)
def test_a_choice_that_was_forced_is_free_in_the_next_round(plan: Plan) -> None:
    world = run(plan)
    approved = any(key.startswith("0.") for key in world.jobs)
    for number, body in world.bodies.items():
        if number > 1 or approved:
            assert body.get("tool_choice", "auto") == "auto"
        elif "tools" in body:
            assert body.get("tool_choice") == dict(plan.body).get("tool_choice")
    choices = [e["response"]["tool_choice"] for e in world.events if e["type"] in laws.LIFE]
    assert set(choices) == {dict(plan.body).get("tool_choice", "auto")}


@holds_for(QUIET, ORDERS)
def test_usage_is_that_of_all_rounds(plan: Plan, order: Random) -> None:
    world = run(plan, order)
    told = [tokens for n in world.played if (tokens := world.playing(n).usage)]
    usage = world.response["usage"]
    if not told:
        assert usage is None
    else:
        assert usage["input_tokens"] == sum(told)
        assert usage["total_tokens"] == 3 * sum(told)


@holds_for(plans(mixed=False))
def test_all_calls_and_their_results_are_in_the_output_in_order(plan: Plan) -> None:
    """Without faults: one public item a call, over all rounds, with the result of that very call."""
    assume(plan.api == "responses")
    world = run(plan)
    shown = [i for i in world.output if i["type"] in ("mcp_call", "web_search_call")]
    shown = [item for item in shown if '"approved"' not in item.get("arguments", "")]
    made = [
        (one, number)
        for number in world.played
        for _, one in world.calls(number)
        if world.owned(one)
    ]
    assert len(shown) == len(made)
    for item, (one, number) in zip(shown, made, strict=True):
        (key,) = jobs_of(world, number)[one.joined]
        result = world.results[key]
        assert item["status"] == ("completed" if result["ok"] else "failed")
        if item["type"] == "mcp_call":
            label, _, tool = one.name.removeprefix("@").partition("/")
            assert (item["server_label"], item["name"]) == (label, tool)
            assert item["arguments"] == one.joined
            assert item["output"] == result["output"]
            assert item["error"] == result["error"]
        else:
            urls = [source["url"] for source in item["action"].get("sources", [])]
            assert urls == (result["sources"] if dict(plan.body).get("include") else [])


@holds_for(plans(mixed=False))
def test_a_call_is_announced_as_soon_as_its_name_is_known(plan: Plan) -> None:
    """Where nothing else comes between, every call of a round is shown before any of them has run."""
    calls = [
        replace(played, sayings=tuple(replace(s, named="added") for s in played.sayings if s.name))
        for played in plan.rounds
    ]
    world = run(replace(plan, rounds=tuple(calls), api="responses"))
    shown: list[int] = []
    due = 0
    for entry, step in zip(world.entries, world.steps, strict=True):
        if entry.kind == "frame" and b"output_item.added" in entry.data:
            due += b"function_call" in entry.data and named_ours(entry.data, world)
        if entry.kind == "frame" and b"response.output_item.added" not in entry.data:
            continue
        events = [laws.parse(frame) for frame in step.frames]
        shown += [
            e["output_index"]
            for e in events
            if e["type"] == "response.output_item.added"
            and e["item"]["type"] in ("mcp_call", "web_search_call")
        ]
        if entry.kind == "frame":
            assert len(shown) >= due


def named_ours(data: bytes, world: World) -> bool:
    name = json.loads(data.partition(b"data: ")[2])["item"]["name"]
    return name in world.names.values()


def jobs_of(world: World, number: int) -> dict[str, list[str]]:
    """The keys of a round's jobs, by their arguments; only faulty ones are the same twice."""
    keys: dict[str, list[str]] = defaultdict(list)
    for key, job in world.jobs.items():
        if key.startswith(f"{number}."):
            keys[job["arguments"]].append(key)
    return keys


def items_of(event: Event) -> list[Event]:
    if "item" in event:
        return [event["item"]]
    return event["response"]["output"] if "response" in event else []


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)


# ---- garbage ------------------------------------------------------------------------------------


def finite(value: Any) -> Any:
    """What JSON can say."""
    return json.loads(json.dumps(value).replace("Infinity", "1e3"))


SHORT = st.text(max_size=6)
ANY = JSON.map(finite) | st.sampled_from(["", "x" * 70, -1, {}, []])
ERRORS = st.fixed_dictionaries(
    {"type": st.sampled_from(laws.MCP_ERRORS)},
    optional={"code": ANY, "message": ANY, "content": ANY},
)
LISTED = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["look.up", "write", "", "web_search", "exec", "a b", "é" * 70])
        | SHORT
    },
    optional={"description": SHORT, "input_schema": ANY, "annotations": ANY, "more": ANY},
)
GOOD_RESULTS = st.fixed_dictionaries(
    {"ok": st.just(True), "content": SHORT, "output": SHORT, "error": st.none()},
    optional={
        "sources": st.lists(SHORT, max_size=3),
        "results": st.lists(st.fixed_dictionaries({"title": ANY, "url": ANY}), max_size=2),
        "images": st.lists(SHORT, max_size=2),
    },
)
BAD_RESULTS = st.fixed_dictionaries(
    {"ok": st.just(False), "content": SHORT, "output": st.none(), "error": ERRORS}
)
"""In the shape that our workers give them; what stands in it is a stranger's."""
SHAPED = {
    "tool_result": GOOD_RESULTS | BAD_RESULTS,
    "tools_listed": st.fixed_dictionaries(
        {"tools": st.lists(LISTED, max_size=4), "error": st.none()}
    ),
}
FIELDS = {
    "tool_result": ("ok", "content", "output", "error", "sources", "results", "images", "started"),
    "tools_listed": ("tools", "error", "ok"),
}
SHAPELESS = {
    kind: st.dictionaries(
        st.sampled_from(fields), ANY | ERRORS | st.lists(LISTED | ANY, max_size=3), max_size=6
    )
    for kind, fields in FIELDS.items()
}
CALLING = Round(
    tuple(
        Saying("call", (f'{{"q":"1-{at}"}}',), name, closed=True)
        for at, name in enumerate(["web_search", "@alpha/look.up", "@alpha/write"])
    )
)


class Garbled(Unnamed):
    """A world whose workers write what they like under the right key: words by kind, until there are no more."""

    words: dict[str, list[Event]]

    def write(self, kind: str, data: Event) -> None:
        words = self.words.get(kind)
        super().write(kind, {"key": data["key"], **words.pop(0)} if words else data)


@st.composite
def garbled(draw: st.DrawFn, shapes: dict[str, st.SearchStrategy[Event]]) -> Garbled:
    """A response that has run, to whose calls or list something odd was said."""
    kind = draw(st.sampled_from(sorted(shapes)))
    world = Garbled(
        Plan(
            (CALLING,),
            (Server("alpha", approval=draw(st.sampled_from(["never", "always"]))),),
            approvals=draw(st.sampled_from([(), (True,)])),
            api=draw(st.sampled_from(["responses", "chat"])),
            body=(("include", ["web_search_call.action.sources", "web_search_call.results"]),),
        )
    )
    world.words = {kind: draw(st.lists(shapes[kind], min_size=1, max_size=3))}
    return world


@holds_for(garbled(SHAPED))
def test_what_tools_say_may_be_anything(world: Garbled) -> None:
    world.run()
    laws.check(world.events)
    laws.gateway(world.events)
    assert refolded(world.entries) == (world.frames, world.commands)


@holds_for(garbled(SHAPELESS))
def test_a_result_in_no_shape_breaks_no_law_of_streams(world: Garbled) -> None:
    world.run()
    laws.check(world.events)
    laws.gateway(world.events)
    assert refolded(world.entries) == (world.frames, world.commands)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("tool_result", {}),  # failed, and nobody says why
        ("tool_result", {"ok": False, "error": {"code": 5}}),
        ("tool_result", {"ok": False, "output": "x", "error": {"type": laws.MCP_ERRORS[0]}}),
        ("tool_result", {"ok": True}),  # well, and no output
        ("tool_result", {"ok": True, "output": "x", "error": {"type": laws.MCP_ERRORS[0]}}),
        ("tools_listed", {"tools": [{"name": "write"}], "error": "no"}),
    ],
)
def test_a_result_in_no_shape_is_shown_in_that_of_its_kind(kind: str, words: Event) -> None:
    world = Garbled(Plan((CALLING,), (Server("alpha"),), search=False))
    world.words = {kind: [words] * 3}
    laws.gateway(world.run().events)


@holds_for(
    st.sampled_from(["tool_result", "tools_listed"]),
    ANY.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=8),
    st.integers(1, 12),
)
def test_an_entry_that_is_no_result_at_all_breaks_nothing_but_its_response(
    kind: str, data: bytes, at: int
) -> None:
    """Refused in our own words, or passed over: then the response goes on to a lawful end."""
    world = World(replace(Plan((CALLING,), (Server("alpha"),)), cancel_at=at)).run()
    machine = Machine(RID)
    frames = [f for entry in world.entries[:-1] for f in machine.feed(entry).frames]
    place = len(world.entries)
    try:
        frames += machine.feed(Entry(place, kind, world.entries[-1].t, data)).frames
    except RespoolError:
        return
    frames += machine.feed(world.entries[-1]._replace(n=place + 1)).frames
    laws.check([laws.parse(frame) for frame in frames])


# ---- whoever folds ------------------------------------------------------------------------------

FOLD = """
import hashlib, json, sys
from translator.machine import Machine
from translator.protocol.entries import Entry

for line in sys.stdin:
    rid, *entries = json.loads(line)
    machine, digest = Machine(rid), hashlib.blake2b()
    for n, kind, t, data, number, attempt in entries:
        step = machine.feed(Entry(n, kind, t, data.encode("latin-1"), number, attempt))
        digest.update(b"".join(step.frames) + repr(list(step.commands)).encode())
    print(digest.hexdigest())
"""


def rich(seed: int) -> Plan:
    """A plan with some of everything, without Hypothesis, so that it is the same every time."""
    order = Random(seed)  # noqa: S311
    servers = (Server("alpha"), Server("beta", lists=seed % 3 > 0))
    ours = ["web_search", *(f"@{s.label}/{tool}" for s in servers if s.lists for tool in TOOLS)]

    def saying(number: int, at: int) -> Saying:
        name = order.choice([*ours, *ours, ""])
        if not name:
            return Saying("text", ("some ", "words"))
        return Saying("call", (f'{{"q":"{number}-', f'{at}"}}'), name)

    return Plan(
        tuple(Round(tuple(saying(n, at) for at in range(4)), usage=n) for n in (1, 2, 3)),
        servers,
        approvals=(True, False),
        outcomes=(True, False, True),
        body=(("metadata", {"b": "1", "a": "2"}), ("include", ["web_search_call.action.sources"])),
    )


def test_processes_with_other_hashes_fold_a_log_to_the_same_bytes_and_commands() -> None:
    """Sets and dicts of texts have another order in each process; no byte may depend on it."""
    worlds = [run(rich(seed), Random(seed)) for seed in range(12)]  # noqa: S311
    lines = [
        json.dumps([RID, *([e.n, e.kind, e.t, e.data.decode("latin-1"), e.round, e.attempt]
                           for e in world.entries)])
        for world in worlds
    ]  # fmt: skip
    wanted = []
    for world in worlds:
        digest = hashlib.blake2b()
        for step in world.steps:
            digest.update(b"".join(step.frames) + repr(list(step.commands)).encode())
        wanted.append(digest.hexdigest())
    for seed in ("1", "2"):
        child = subprocess.run(
            [sys.executable, "-c", FOLD],
            input="\n".join(lines),
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert child.stdout.split() == wanted


# ---- found by the above --------------------------------------------------------------------------


def test_a_round_that_is_played_again_keeps_the_upstreams_call_ids() -> None:
    calls = (Saying("call", ('{"query": "1-0"}',), "web_search"),)
    servers, body = (Server("alpha"),), (("max_tool_calls", 1),)
    plan = Plan((Round(calls),), servers, approvals=(True,), body=body, losses=frozenset({8}))
    world = run(plan)
    assert [entry.attempt for entry in world.entries if entry.kind == "attempt"] == [1, 2, 1]
    assert outputs_of(world.bodies[2])[-1][0] == call_id_of(1, 0)


@pytest.mark.parametrize("end", ["incomplete", "eof"])
def test_calls_end_in_the_order_of_the_output_however_their_round_ends(end: Any) -> None:
    first = Saying("call", ('{"query": "1-0"}',), "web_search")
    cut = Saying("call", ('{"query": ',), "web_search", closed=False)
    world = run(Plan((Round((first, cut), end),)))
    assert [e["output_index"] for e in world.events if is_end(e)] == [0, 1]


def test_a_response_that_is_full_ends_lawfully_wherever_that_happens() -> None:
    plan = rich(2)
    whole = len(b"".join(run(plan).frames))
    for limit in range(2_000, whole, 211):
        world = run(replace(plan, body=(*plan.body, ("_max_response_bytes", limit))))
        laws.check(world.events)
        laws.gateway(world.events)


def test_an_entry_that_ends_the_response_asks_for_nothing() -> None:
    world = run(Plan(servers=(Server("alpha"),), body=(("_max_response_bytes", 2_000),)))
    assert world.response["status"] == "failed"
    assert not world.steps[-1].commands


def test_a_text_cites_what_the_searches_before_it_have_found_whatever_comes_first() -> None:
    first = Saying("call", ('{"query": "1-0"}',), "web_search")
    text = Saying("text", (f"See {FOUND} ",))
    plan = Plan((Round((first, text, replace(first, pieces=('{"query": "1-2"}',)))),))
    last_first = World(plan, lambda options: options - 1).run()
    assert run(plan).output == last_first.output


# ---- what must be so at the least ---------------------------------------------------------------


def test_a_world_of_every_kind_of_call_ends_completed() -> None:
    """The laws above hold for a response that says nothing, too: this one must say much."""
    world = run(rich(2))
    kinds = Counter(item["type"] for item in world.output)
    assert world.response["status"] == "completed"
    assert kinds["mcp_list_tools"] == 2
    assert kinds["mcp_call"] > 3
    assert kinds["web_search_call"] > 1
    assert len(world.bodies) == 4
    assert [c.number for c in world.commands if isinstance(c, NextRound)] == list(world.bodies)
