"""A response whose tools the gateway runs, entry by entry: what is shown when, what is asked of the workers, how it ends."""

import json
from typing import Any

import pytest

from tests.translator import laws
from tests.translator.drive import (
    CUSTOM,
    FUNCTION,
    RID,
    Event,
    Log,
    added,
    args,
    args_done,
    call,
    completed,
    done,
    ev,
    fold,
    message,
    text,
    whole_call,
    whole_message,
)
from translator.ids import item_id
from translator.machine import MAX_CALLS, Machine
from translator.step import NextRound, RunJob

SEARCH = {"type": "web_search", "search_context_size": "low"}
SERVER = {
    "type": "mcp",
    "server_label": "docs",
    "server_url": "https://docs.example/mcp",
    "require_approval": "never",
}
ASKING = SERVER | {"require_approval": "always"}
LOOK = {"name": "look", "description": "Looks", "input_schema": {"type": "object"}}
LOOK_READS = LOOK | {"annotations": {"readOnlyHint": True}}
USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


class Run:
    """A log that is written as it is folded. `jobs` and `bodies` are what the machine has asked for so far."""

    def __init__(self, *, prepared: bool = False, **body: Any) -> None:
        self.log = Log(**body)
        if prepared:
            self.log.entries.pop()  # round 1 is not there yet
        self.machine = Machine(RID)
        self.frames: list[bytes] = []
        self.jobs: dict[str, Event] = {}
        self.bodies: dict[int, Event] = {}
        self.notes: list[str] = []
        self._fed = 0
        self._number = 0
        self._fold()

    def _fold(self) -> list[str]:
        """Fold what is new; the types of the frames that came of it."""
        before = len(self.frames)
        while self._fed < len(self.log.entries):
            entry = self.log.entries[self._fed]
            self._fed += 1
            step = self.machine.feed(entry)
            self.frames += step.frames
            self.notes += [note.kind for note in step.notes]
            for command in step.commands:
                if isinstance(command, RunJob):
                    assert command.key not in self.jobs
                    self.jobs[command.key] = json.loads(command.data)
                if isinstance(command, NextRound):
                    self.bodies[command.number] = json.loads(command.body)
        return [
            laws.parse(frame)["type"].removeprefix("response.") for frame in self.frames[before:]
        ]

    def add(self, kind: str, data: Any = b"{}", **at: int) -> list[str]:
        self.log.add(kind, data, **at)
        return self._fold()

    def open(self) -> "Run":
        """The next round's upstream answers."""
        self._number += 1
        if self._number in self.bodies:
            self.add("round", json.dumps(self.bodies[self._number]).encode(), round=self._number)
        self.add("attempt", round=self._number, attempt=1)
        return self

    def frame(self, *events: Event) -> list[str]:
        self.log.frames(*events)
        return self._fold()

    def end(self, how: str = "ok") -> list[str]:
        return self.add("round_end", {"how": how})

    def round(self, *events: Event, usage: Event | None = None) -> list[str]:
        """A whole round."""
        self.open()
        return self.frame(*events, completed(usage=usage)) + self.end()

    def result(
        self, key: str, content: str = "found", *, ok: bool = True, **more: Any
    ) -> list[str]:
        said = {"key": key, "ok": ok, "content": content, "output": content if ok else None}
        return self.add("tool_result", said | more)

    def listed(self, key: str = "list.0", *tools: Event, error: str | None = None) -> list[str]:
        return self.add("tools_listed", {"key": key, "tools": list(tools), "error": error})

    @property
    def events(self) -> list[Event]:
        return [laws.parse(frame) for frame in self.frames]

    @property
    def output(self) -> list[Event]:
        assert self.machine.response is not None
        return self.machine.response["output"]

    def over(self) -> Event:
        """The stored response; the whole stream keeps the laws, and folded again it is the same."""
        response = self.machine.response
        assert response is not None
        laws.check(self.events)
        assert fold(self.log.entries).frames == self.frames
        return response

    def heard(self, number: int) -> list[Any]:
        """What a round's model is told after the user's message: calls and outputs in short."""
        short = {
            "function_call": lambda i: (i["call_id"], i["name"], i["arguments"]),
            "function_call_output": lambda i: (i["call_id"], i["output"]),
        }
        items = self.bodies[number]["input"][1:]
        return [short.get(i["type"], lambda i: i["type"])(i) for i in items]


def searching(index: int = 0, query: str = "q") -> list[Event]:
    return whole_call("web_search", json.dumps({"query": query}), index, f"f{index}", f"c{index}")


def looking(index: int = 0, arguments: str = '{"a":1}') -> list[Event]:
    return whole_call("docs__look", arguments, index, f"f{index}", f"c{index}")


SAID = whole_message(["That is all."])


def test_a_trace_goes_with_every_job_and_changes_nothing_that_is_public() -> None:
    trace = {"traceparent": "00-1-2-01", "parent": "3", "tracestate": 'a="b"'}
    runs = [Run(tools=[SEARCH, SERVER], prepared=True, **more) for more in ({}, {"_trace": trace})]
    for run in runs:
        run.listed("list.0", LOOK_READS)
        run.round(*searching(0), *looking(1), usage=USAGE)
        run.result("1.0")
        run.result("1.1")
        run.round(*SAID, usage=USAGE)
        run.over()
    without, traced = runs
    assert traced.frames == without.frames
    assert traced.bodies == without.bodies
    assert without.machine.request is not None
    assert "trace" not in without.machine.request
    assert set(traced.jobs) == {"list.0", "1.0", "1.1"}
    assert traced.jobs == {key: job | {"trace": trace} for key, job in without.jobs.items()}


def test_no_attribute_of_a_fold_comes_later_than_its_beginning() -> None:
    run = Run(tools=[SEARCH]).open()
    run.round(*searching(0), usage=USAGE)
    run.result("1.0")
    run.round(*SAID, usage=USAGE)
    assert vars(run.machine).keys() == vars(Machine(RID)).keys()


def test_only_what_further_rounds_would_tell_is_held_while_an_answer_streams() -> None:
    said = {"type": "message", "role": "user", "content": "hi"}
    for tools, held in ([], []), ([CUSTOM], []), ([SEARCH], [said]), ([SERVER], [said]):
        run = Run(tools=tools, input=[said])
        request = run.machine.request
        assert request is not None
        assert [{key: item[key] for key in said} for item in request["input"]] == held
        assert request["request"]["tools"] == tools


def test_a_search_is_shown_early_run_after_its_round_and_heard_of_in_the_next() -> None:
    run = Run(tools=[SEARCH]).open()
    assert run.frame(added(call("web_search"))) == [
        "output_item.added",
        "web_search_call.in_progress",
    ]
    assert run.frame(args('{"query":"q"}')) == []
    assert run.frame(args_done('{"query":"q"}')) == ["web_search_call.searching"]
    assert run.frame(done(call("web_search", '{"query":"q"}')), completed(usage=USAGE)) == []
    assert run.jobs == {}, "the upstream may yet fail"
    assert run.end() == []
    assert run.jobs["1.0"] == {
        "key": "1.0",
        "kind": "call",
        "tool": "web_search",
        "server": None,
        "name": "",
        "idempotent": True,
        "arguments": '{"query":"q"}',
        "options": {"search_context_size": "low"},
    }
    assert run.result("1.0") == ["web_search_call.completed", "output_item.done"]
    assert run.heard(2) == [("call_up", "web_search", '{"query":"q"}'), ("call_up", "found")]
    run.round(*SAID, usage=USAGE)
    response = run.over()
    assert response["status"] == "completed"
    assert response["usage"]["total_tokens"] == 24
    assert [item["type"] for item in run.output] == ["web_search_call", "message"]
    assert run.output[0]["action"] == {"type": "search", "query": "q", "queries": ["q"]}
    assert response["tools"] == [SEARCH]


@pytest.mark.parametrize(
    ("include", "more"),
    [
        (
            ["web_search_call.action.sources"],
            {"sources": [{"type": "url", "url": "https://a.test/"}]},
        ),
        (["web_search_call.results"], {}),
    ],
)
def test_a_search_shows_what_include_asks_for(include: list[str], more: Event) -> None:
    run = Run(tools=[SEARCH], include=include)
    run.round(*searching())
    results = [{"title": "A", "url": "https://a.test/"}]
    run.result("1.0", sources=["https://a.test/"], results=results)
    run.round(*SAID)
    run.over()
    assert run.output[0]["action"] == {"type": "search", "query": "q", "queries": ["q"]} | more
    assert run.output[0].get("results") == (results if "results" in include[0] else None)
    assert "include" not in run.bodies[2]


def test_a_text_that_names_a_result_cites_it() -> None:
    run = Run(tools=[SEARCH])
    run.round(*searching())
    run.result("1.0", results=[{"title": "A", "url": "https://a.test/x"}])
    run.round(*whole_message(["See https://a.te", "st/x."]))
    run.over()
    assert run.output[1]["content"][0]["annotations"] == [
        {
            "type": "url_citation",
            "start_index": 4,
            "end_index": 20,
            "url": "https://a.test/x",
            "title": "A",
        }
    ]
    assert [
        e["type"] for e in run.events if "annotation" in e["type"] or "text.done" in e["type"]
    ] == [
        "response.output_text.annotation.added",
        "response.output_text.done",
    ]


def test_an_upstreams_own_annotations_are_left_alone() -> None:
    run = Run(tools=[SEARCH])
    run.round(*searching())
    run.result("1.0", results=[{"title": "A", "url": "https://a.test/x"}])
    own = {
        "type": "url_citation",
        "url": "https://a.test/x",
        "title": "own",
        "start_index": 0,
        "end_index": 4,
    }
    item = message(text="See https://a.test/x")
    item["content"][0]["annotations"] = [own]
    run.round(done(item))
    run.over()
    assert run.output[1]["content"][0]["annotations"] == [own]


def test_calls_on_a_server_have_their_own_events_and_show_what_it_said() -> None:
    run = Run(tools=[SERVER], prepared=True)
    assert run.bodies == {}
    assert run.jobs["list.0"] == {
        "key": "list.0", "kind": "list", "tool": "mcp", "server": 0, "idempotent": True,
    }  # fmt: skip
    assert run.listed("list.0", LOOK_READS) == ["mcp_list_tools.completed", "output_item.done"]
    assert run.bodies[1]["tools"] == [
        {
            "type": "function",
            "name": "docs__look",
            "description": "Looks",
            "parameters": {"type": "object"},
        }
    ]
    assert run.bodies[1]["parallel_tool_calls"] is False
    run.round(*looking(), *looking(1, ""))
    assert run.jobs["1.0"] == {
        "key": "1.0",
        "kind": "call",
        "tool": "mcp",
        "server": 0,
        "name": "look",
        "idempotent": True,
        "arguments": '{"a":1}',
        "options": {},
    }
    content = [{"type": "text", "text": "no"}]
    error = {"type": "mcp_tool_execution_error", "content": content}
    assert run.result("1.1", '{"error":"no"}', ok=False, error=error) == [], "the first comes first"
    assert run.result("1.0") == [
        "mcp_call.completed",
        "output_item.done",
        "mcp_call.failed",
        "output_item.done",
    ]
    assert run.heard(2) == [
        ("c0", "docs__look", '{"a":1}'),
        ("c1", "docs__look", "{}"),
        ("c0", "found"),
        ("c1", '{"error":"no"}'),
    ]
    run.round(*SAID)
    run.over()
    listed, ran, failed, _ = run.output
    assert listed["tools"] == [LOOK_READS]
    assert ran == {
        "id": item_id(RID, "mcp_call", 1, 0),
        "type": "mcp_call",
        "status": "completed",
        "server_label": "docs",
        "name": "look",
        "arguments": '{"a":1}',
        "approval_request_id": None,
        "output": "found",
        "error": None,
    }
    assert (failed["status"], failed["arguments"], failed["error"]) == ("failed", "{}", error)


def test_servers_are_listed_side_by_side_and_completed_in_order() -> None:
    other = SERVER | {"server_label": "b"}
    run = Run(tools=[SERVER, other], prepared=True, background=True)
    types = [event["type"].removeprefix("response.") for event in run.events]
    assert types == [
        "created", "queued", "in_progress",
        "output_item.added", "mcp_list_tools.in_progress",
        "output_item.added", "mcp_list_tools.in_progress",
    ]  # fmt: skip
    assert run.listed("list.1", LOOK) == []
    assert run.listed("list.1", LOOK | {"name": "late"}) == [], "the first answer counts"
    assert run.listed("list.7", LOOK) == []
    assert run.listed("list.0", error="The server is away.") == [
        "mcp_list_tools.failed",
        "output_item.done",
        "mcp_list_tools.completed",
        "output_item.done",
    ]
    assert [tool["name"] for tool in run.bodies[1]["tools"]] == ["b__look"]
    assert run.listed("list.0", LOOK) == []
    run.round(*SAID)
    assert [item.get("error") for item in run.over()["output"][:2]] == ["The server is away.", None]


def test_only_allowed_tools_are_listed_and_shown_to_the_model() -> None:
    run = Run(tools=[SERVER | {"allowed_tools": ["look"]}], prepared=True)
    run.listed("list.0", LOOK | {"name": "drop"}, LOOK)
    assert [tool["name"] for tool in run.bodies[1]["tools"]] == ["docs__look"]


REFUSED = '{"error":"This tool may not be called in this response."}'
RAN = {"type": "mcp_call", "id": "mcp_1", "server_label": "gone", "name": "look", "arguments": "{}"}
FOUND = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
OFFERS = {
    "a tool that its server's declaration does not allow": ("docs__drop", [SERVER | {"allowed_tools": ["look"]}], []),
    "one that its server does not have": ("docs__other", [SERVER], []),
    "one of a server of an earlier turn": ("gone__look", [FUNCTION], [RAN | {"output": "x", "error": None}]),
    "one that such a server has listed": (
        "gone__drop", [FUNCTION], [{"type": "mcp_list_tools", "server_label": "gone", "tools": [LOOK | {"name": "drop"}]}],
    ),
    "a search of an earlier turn": ("web_search", [FUNCTION], [FOUND]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "tools", "history"), OFFERS.values(), ids=OFFERS)
def test_a_name_that_the_gateway_made_and_does_not_offer_is_refused_and_never_shown(
    name: str, tools: list[Event], history: list[Event]
) -> None:
    lists = SERVER["type"] in [tool["type"] for tool in tools]
    run = Run(tools=tools, prepared=lists, _history=history)
    if lists:
        run.listed("list.0", LOOK | {"name": "drop"}, LOOK)
    run.round(*whole_call(name, "{}"))
    assert run.heard(2)[-1][1] == REFUSED
    roles = [item.get("role") for item in run.bodies[2]["input"]]
    assert "user" in roles, "the model hears what it was asked, too"
    run.round(*SAID)
    assert run.over()["output"][-1]["type"] == "message"
    assert name.encode() not in b"".join(run.frames)


def test_what_the_model_thought_stays_before_its_call_where_no_text_comes_between() -> None:
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}

    def heard(*last: Event) -> list[str]:
        run = Run(tools=[SEARCH], parallel_tool_calls=True)
        run.round(
            done({**thought, "id": "r0"}, 0), *searching(1), done({**thought, "id": "r2"}, 2), *searching(3), *last
        )  # fmt: skip
        run.result("1.1")
        run.result("1.3")
        return [item["type"] for item in run.bodies[2]["input"][1:]]

    call, output = "function_call", "function_call_output"
    assert heard() == ["reasoning", call, "reasoning", call, output, output]
    said = heard(*whole_message(["so"], 4))
    assert said == ["reasoning", "reasoning", "message", call, call, output, output]


def test_text_that_goes_on_behind_a_call_which_runs_is_shown_when_that_has_run() -> None:
    """The call came later, under a lower index: what was shown of the message waits from then on."""
    run = Run(tools=[SEARCH]).open()
    begun, *rest = searching(0)
    run.frame(added(message("m", status="in_progress"), 1), begun)
    assert run.frame(text("late", 1, "m")) == []
    run.frame(*rest, completed())
    run.end()
    run.result("1.1")
    run.round(*SAID)
    first = next(item for item in run.over()["output"] if item["type"] == "message")
    assert first["content"][0]["text"] == "late"


def test_an_upstreams_own_namespace_has_names_of_its_own() -> None:
    run = Run(tools=[FUNCTION], _history=[FOUND])
    item = {**call("web_search", "{}"), "namespace": "browser"}
    run.round(added({**item, "arguments": ""}), done(item))
    (shown,) = run.over()["output"]
    assert (shown["name"], shown["namespace"]) == ("web_search", "browser")


def test_a_clients_tool_keeps_a_name_that_the_gateway_could_have_made() -> None:
    run = Run(tools=[SEARCH, FUNCTION | {"name": "gone__look"}], _history=[RAN])
    run.round(*whole_call("gone__look", "{}"))
    assert [item["type"] for item in run.over()["output"]] == ["function_call"]


def test_a_mixed_round_runs_its_part_and_returns_the_clients_and_ends_there() -> None:
    run = Run(tools=[SEARCH, CUSTOM, FUNCTION])
    run.open()
    run.frame(*whole_message(["First."], 0), *searching(1))
    assert run.frame(*whole_call("exec", '{"input":"ls"}', 2, "f2", "c2")) == []
    assert run.frame(*searching(3)) == [], "its place is behind a call that waits"
    assert run.frame(*whole_call("get_weather", "{}", 4, "f4", "c4"), completed()) == []
    run.end()
    assert list(run.jobs) == ["1.1", "1.3"]
    assert run.result("1.3") == []
    ends = run.result("1.1")
    assert ends[:2] == ["web_search_call.completed", "output_item.done"]
    assert ends[-1] == "completed"
    assert run.bodies == {}
    response = run.over()
    assert [item["type"] for item in response["output"]] == [
        "message", "web_search_call", "custom_tool_call", "web_search_call", "function_call",
    ]  # fmt: skip
    assert {item["status"] for item in response["output"]} == {"completed"}


def test_starts_of_calls_in_a_row_do_not_wait_for_each_other() -> None:
    run = Run(tools=[SEARCH]).open()
    for index in range(3):
        assert run.frame(*searching(index))[:2] == [
            "output_item.added",
            "web_search_call.in_progress",
        ]
    assert run.frame(*whole_message(["so"], 3)) == []
    run.frame(completed())
    run.end()
    assert run.result("1.2") == run.result("1.1") == []
    assert run.result("1.0").count("web_search_call.completed") == 3
    said, *calls = run.heard(2)
    assert said == "message", (
        "what the model said after its calls is not lost, nor between them and their outputs"
    )
    assert [len(call) for call in calls] == [3, 3, 3, 2, 2, 2]
    run.round(*SAID)
    assert [item["type"] for item in run.over()["output"]] == ["web_search_call"] * 3 + [
        "message"
    ] * 2


def test_a_call_behind_one_without_a_name_waits_for_the_name() -> None:
    run = Run(tools=[SEARCH, FUNCTION]).open()
    assert run.frame(added(call(None, ident="f0"), 0), *searching(1)) == []
    assert run.frame(done(call("web_search", '{"query":"first"}', "f0", "c0"), 0)) == [
        "output_item.added", "web_search_call.in_progress", "web_search_call.searching",
        "output_item.added", "web_search_call.in_progress", "web_search_call.searching",
    ]  # fmt: skip
    run.frame(completed())
    run.end()
    run.result("1.0")
    run.result("1.1")
    assert [output for _, output in run.heard(2)[2:]] == ["found", "found"]
    run.round(*SAID)
    assert [item["action"]["query"] for item in run.over()["output"][:2]] == ["first", "q"]


@pytest.mark.parametrize("how", ["ok", "lost", "reset"])
def test_once_the_upstream_has_ended_a_round_its_calls_run_whatever_became_of_the_connection(
    how: str,
) -> None:
    run = Run(tools=[SEARCH]).open()
    run.frame(*searching(), completed(), *whole_message(["after its end"], 1))
    run.end(how)
    assert list(run.jobs) == ["1.0"]
    run.end(how)
    run.result("1.0")
    run.end(how)
    assert list(run.bodies) == [2]
    run.round(*SAID)
    assert len(run.over()["output"]) == 2


def test_a_round_that_failed_runs_nothing() -> None:
    run = Run(tools=[SEARCH]).open()
    run.frame(*searching(), ev("failed", response={"status": "failed", "error": {"message": "no"}}))
    run.end()
    assert run.jobs == {}
    assert run.over()["status"] == "failed"
    assert run.output[0]["status"] == "failed"


def incomplete() -> Event:
    details = {"reason": "max_output_tokens"}
    return ev("incomplete", response={"status": "incomplete", "incomplete_details": details})


def test_a_round_that_was_cut_off_runs_its_whole_calls_and_ends() -> None:
    run = Run(tools=[SEARCH, CUSTOM]).open()
    run.frame(
        *searching(0),
        added(call("web_search", ident="f1"), 1), args('{"query":"b"}', 1, "f1"),
        added(call("web_search", ident="f2"), 2), args('{"que', 2, "f2"),
        added(call(None, ident="f3"), 3), args("{", 3, "f3"),
        incomplete(),
    )  # fmt: skip
    run.end()
    assert list(run.jobs) == ["1.0", "1.1"]
    run.result("1.1")
    run.result("1.0")
    response = run.over()
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in response["output"]] == ["completed", "completed", "failed"]
    assert run.bodies == {}
    assert run.notes.count("call dropped") == 1


def test_a_cut_off_call_alone_ends_the_response_at_once() -> None:
    run = Run(tools=[SERVER], prepared=True)
    run.listed("list.0", LOOK)
    run.open()
    run.frame(added(call("docs__look", ident="f0"), 0), args('{"a', 0, "f0"), incomplete())
    response = run.over()
    assert (response["status"], response["output"][1]["status"]) == ("incomplete", "incomplete")
    assert response["output"][1]["arguments"] == ""


@pytest.mark.parametrize("reason", ["client", "deadline"])
def test_a_response_that_ends_while_its_calls_run_shows_what_has_come(reason: str) -> None:
    run = Run(tools=[SEARCH, SERVER], prepared=True)
    run.listed("list.0", LOOK)
    run.round(
        *searching(0), *looking(1), *whole_message(["said"], 2),
        *whole_call("web_search", "{}", 3, "f3", "c3"),
    )  # fmt: skip
    run.result("1.1")
    run.add("cancel", {"reason": reason})
    response = run.over()
    assert response["status"] == ("cancelled" if reason == "client" else "failed")
    assert [(item["type"], item.get("status")) for item in response["output"]] == [
        ("mcp_list_tools", None),
        ("web_search_call", "failed"),
        ("mcp_call", "completed"),
        ("message", "completed"),
    ]
    assert run.result("1.0") == []


def test_a_response_that_ends_while_tools_are_listed_says_so() -> None:
    run = Run(tools=[SERVER], prepared=True)
    run.add("cancel", {"reason": "client"})
    assert "ended before" in run.over()["output"][0]["error"]


def test_a_forced_choice_becomes_auto_once_it_was_kept() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}
    for choice, then in (
        ("required", "auto"),
        ({"type": "web_search"}, "auto"),
        (
            allowed,
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "web_search"}],
            },
        ),
    ):
        run = Run(tools=[SEARCH, FUNCTION], tool_choice=choice)
        run.round(*searching())
        run.result("1.0")
        assert run.bodies[2]["tool_choice"] == then


def test_a_call_that_is_not_allowed_is_answered_to_the_model_alone() -> None:
    choice = {"type": "allowed_tools", "tools": [{"type": "web_search"}]}
    run = Run(tools=[SEARCH, SERVER, FUNCTION], tool_choice=choice, prepared=True)
    run.listed("list.0", LOOK)
    run.round(*looking(0), *searching(1), *whole_call("get_weather", "{}", 2, "f2", "c2"))
    assert list(run.jobs) == ["list.0", "1.1"]
    run.result("1.1")
    refused = '{"error":"This tool may not be called in this response."}'
    assert run.heard(2)[3:] == [("c0", refused), ("c1", "found"), ("c2", refused)]
    assert run.notes.count("call of a tool that is not allowed") == 2
    run.round(*SAID)
    assert [item["type"] for item in run.over()["output"]] == [
        "mcp_list_tools", "web_search_call", "message",
    ]  # fmt: skip


def test_calls_over_the_limit_are_answered_to_the_model_and_two_rounds_of_them_end_it() -> None:
    run = Run(tools=[SEARCH], max_tool_calls=2)
    run.round(*searching(0), *searching(1), *searching(2))
    assert list(run.jobs) == ["1.0", "1.1"]
    run.result("1.0")
    run.result("1.1")
    assert run.heard(2)[5] == (
        "c2",
        '{"error":"The limit of 2 tool calls for this response is reached."}',
    )
    run.round(*searching(0))
    assert len(run.jobs) == 2
    assert list(run.bodies) == [2, 3]
    run.round(*searching(0))
    response = run.over()
    assert response["incomplete_details"] == {"reason": "max_tool_calls"}
    assert len(response["output"]) == 2


def test_without_a_limit_of_its_own_a_response_has_ours() -> None:
    run = Run(tools=[SEARCH])
    run.round(*(event for index in range(MAX_CALLS + 1) for event in searching(index)))
    assert len(run.jobs) == MAX_CALLS


def test_after_the_last_round_the_response_is_incomplete() -> None:
    run = Run(tools=[SEARCH])
    for number in range(1, 11):
        run.round(*searching())
        run.result(f"{number}.0")
    assert run.over()["incomplete_details"] == {"reason": "max_tool_rounds"}
    assert len(run.output) == 10


def test_call_ids_that_come_again_are_told_apart() -> None:
    run = Run(tools=[SEARCH])
    for number in (1, 2):
        run.round(*searching())
        run.result(f"{number}.0")
    ids = [item[0] for item in run.heard(3) if len(item) == 3]
    assert ids[0] == "c0"
    assert len(set(ids)) == 2
    assert {item[0] for item in run.heard(3) if len(item) == 2} == set(ids)


def test_the_first_result_of_a_call_counts_and_strangers_results_do_nothing() -> None:
    run = Run(tools=[SEARCH])
    run.round(*searching(0), *searching(1))
    for odd in ("7.0", "1.9", "list.0", "x", "0.0"):
        assert run.result(odd) == []
    run.result("1.0", "one")
    run.result("1.0", "two")
    run.result("1.1", "three")
    run.result("1.1", "four")
    assert [output for _, output in run.heard(2)[2:]] == ["one", "three"]


def test_a_call_that_needs_approval_is_a_question_that_ends_the_turn() -> None:
    run = Run(tools=[ASKING, SEARCH], prepared=True)
    run.listed("list.0", LOOK)
    run.open()
    assert run.frame(*searching(0)) != []
    assert run.frame(added(call("docs__look", ident="f1"), 1), args('{"a":1}', 1, "f1")) == []
    assert run.frame(*searching(2)) == [], "its place is not certain"
    run.frame(done(call("docs__look", '{"a":1}', "f1", "c1"), 1), completed())
    run.end()
    assert list(run.jobs) == ["list.0", "1.0", "1.2"]
    run.result("1.0")
    run.result("1.2")
    assert run.bodies.keys() == {1}
    response = run.over()
    assert response["status"] == "completed"
    assert response["output"][2] == {
        "id": item_id(RID, "mcp_approval_request", 1, 1),
        "type": "mcp_approval_request",
        "server_label": "docs",
        "name": "look",
        "arguments": '{"a":1}',
    }


def approving(*answers: bool, tools: list[Event], listed: bool = False, **body: Any) -> Run:
    """A turn that answers questions of the one before it."""
    question = {"type": "mcp_approval_request", "server_label": "docs", "name": "look"}
    history = [
        question | {"id": f"mcpr_{at}", "arguments": json.dumps({"a": at})}
        for at in range(len(answers))
    ]
    if listed:
        tool_list = {"type": "mcp_list_tools", "id": "mcpl_0", "server_label": "docs"}
        history.append(tool_list | {"tools": [LOOK], "error": None})
    answer = {"type": "mcp_approval_response"}
    items = [
        answer | {"id": f"mcpa_{at}", "approval_request_id": f"mcpr_{at}", "approve": yes}
        for at, yes in enumerate(answers)
    ]
    return Run(prepared=True, tools=tools, _history=history, _input=items, **body)


def test_approved_calls_run_before_the_first_round_and_the_refused_are_answered() -> None:
    run = approving(True, False, True, tools=[ASKING])
    assert list(run.jobs) == ["list.0"]
    assert run.listed("list.0", LOOK)[2:] == [
        "output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done",
        "output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done",
    ]  # fmt: skip
    assert [run.jobs[key]["arguments"] for key in ("0.0", "0.1")] == ['{"a": 0}', '{"a": 2}']
    run.result("0.1", "second")
    run.result("0.0", "first")
    outputs = [item["output"] for item in run.bodies[1]["input"] if "output" in item]
    refused = '{"error":"The user did not approve this call."}'
    assert outputs == ["first", refused, "second"]
    run.round(*SAID)
    items = run.over()["output"]
    assert [item.get("approval_request_id") for item in items] == [None, "mcpr_0", "mcpr_2", None]


def test_an_approved_call_whose_tool_the_chain_lists_runs_at_once() -> None:
    run = approving(True, tools=[ASKING], listed=True)
    assert list(run.jobs) == ["0.0"]
    run.add("cancel", {"reason": "client"})
    assert [item["status"] for item in run.over()["output"]] == ["incomplete"]


def test_an_approved_call_whose_tool_is_gone_is_answered_without_it() -> None:
    run = approving(True, tools=[ASKING])
    run.listed("list.0", error="away")
    outputs = [item["output"] for item in run.bodies[1]["input"] if "output" in item]
    assert outputs == ['{"error":"The tool is not available any more."}']
    run.round(*SAID)
    run.over()


def test_refused_calls_alone_need_no_round_of_their_own() -> None:
    run = approving(False, tools=[ASKING], listed=True)
    assert run.jobs == {}
    assert run.bodies == {}, "round 1 came with the request"


def test_a_round_whose_reader_was_lost_begins_again_unless_a_call_was_shown() -> None:
    run = Run(tools=[SEARCH]).open()
    run.end("lost")
    run.add("attempt", round=1, attempt=2)
    run.frame(*searching())
    run.end("lost")
    assert run.over()["status"] == "failed"


def test_a_later_round_that_nobody_has_seen_begins_again() -> None:
    run = Run(tools=[SEARCH])
    run.round(*searching())
    run.result("1.0")
    run.open()
    run.end("lost")
    run.add("attempt", round=2, attempt=2)
    run.frame(*SAID, completed())
    assert run.over()["status"] == "completed"


def test_a_later_round_that_is_refused_fails_the_response_with_what_it_has() -> None:
    run = Run(tools=[SEARCH])
    run.round(*searching())
    run.result("1.0")
    run.open().end("refused")
    response = run.over()
    assert response["status"] == "failed"
    assert [item["status"] for item in response["output"]] == ["completed"]


def test_a_search_with_odd_arguments_is_shown_and_left_to_the_worker() -> None:
    for arguments, queries in (
        ("no json", [""]),
        ('{"queries":["a",7,"b"]}', ["a", "b"]),
        ("[]", [""]),
    ):
        run = Run(tools=[SEARCH])
        run.round(*whole_call("web_search", arguments))
        assert run.jobs["1.0"]["arguments"] == arguments
        run.result("1.0", '{"error":"x"}', ok=False)
        assert isinstance(json.loads(run.heard(2)[0][2]), dict), "what goes up can be parsed"
        run.round(*SAID)
        run.over()
        assert (run.output[0]["status"], run.output[0]["action"]["queries"]) == ("failed", queries)


def test_a_chat_upstream_gets_its_calls_and_results_in_its_own_shape() -> None:
    run = Run(tools=[SEARCH], _api="chat")
    run.open()
    delta = {
        "index": 0,
        "id": "s1",
        "function": {"name": "web_search", "arguments": '{"query":"q"}'},
    }
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}
    run.frame(chunk, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    run.end()
    run.result("1.0")
    assert [message["role"] for message in run.bodies[2]["messages"]] == [
        "user",
        "assistant",
        "tool",
    ]
    run.open()
    run.frame({"choices": [{"index": 0, "delta": {"content": "so"}, "finish_reason": "stop"}]})
    run.end()
    assert run.over()["status"] == "completed"


def test_a_choice_of_none_lets_the_gateway_run_nothing() -> None:
    run = Run(tools=[SEARCH, SERVER], tool_choice="none", prepared=True)
    run.listed("list.0", LOOK)
    run.round(*searching(0), *looking(1))
    assert list(run.jobs) == ["list.0"]
    run.round(*SAID)
    assert [item["type"] for item in run.over()["output"]] == ["mcp_list_tools", "message"]


def test_a_forced_tool_that_its_server_does_not_have_opens_no_other() -> None:
    for choice in ({"name": "other"}, {}):
        forced = {"type": "mcp", "server_label": "docs", **choice}
        run = Run(tools=[SERVER, SEARCH], tool_choice=forced, prepared=True)
        run.listed("list.0", error="away")
        assert "tools" not in run.bodies[1]
        assert "tool_choice" not in run.bodies[1]


def test_a_forced_choice_does_not_bind_after_an_approved_call() -> None:
    run = approving(True, tools=[ASKING], listed=True, tool_choice="required")
    run.result("0.0")
    assert run.bodies[1]["tool_choice"] == "auto"


def test_an_approved_call_over_the_limit_hears_of_the_limit() -> None:
    run = approving(True, True, tools=[ASKING], listed=True, max_tool_calls=1)
    assert list(run.jobs) == ["0.0"]
    run.result("0.0")
    outputs = [item["output"] for item in run.bodies[1]["input"] if "output" in item]
    assert outputs == [
        "found",
        '{"error":"The limit of 1 tool calls for this response is reached."}',
    ]


def test_two_rounds_of_calls_that_are_not_allowed_end_it_without_blaming_the_limit() -> None:
    choice = {"type": "allowed_tools", "tools": [{"type": "function", "name": "get_weather"}]}
    run = Run(tools=[SEARCH, FUNCTION], tool_choice=choice)
    run.round(*searching())
    run.round(*searching())
    assert run.over()["incomplete_details"] == {"reason": "max_tool_rounds"}


def test_a_server_that_has_answered_is_told_as_listed_though_another_has_not() -> None:
    run = Run(tools=[SERVER, SERVER | {"server_label": "b"}], prepared=True)
    run.listed("list.1", LOOK)
    run.add("cancel", {"reason": "client"})
    slow, fast = run.over()["output"]
    assert "ended before" in slow["error"]
    assert (fast.get("error"), [tool["name"] for tool in fast["tools"]]) == (None, ["look"])


def test_a_call_in_a_namespace_of_the_upstreams_is_not_the_gateways() -> None:
    run = Run(tools=[SEARCH]).open()
    item = call("web_search", '{"query":"q"}') | {"namespace": "foo"}
    run.frame(done(item), completed())
    response = run.over()
    assert [(i["type"], i["namespace"]) for i in response["output"]] == [("function_call", "foo")]


def test_a_later_round_that_was_refused_for_its_rate_says_so() -> None:
    run = Run(tools=[SEARCH])
    run.round(*searching())
    run.result("1.0")
    run.open()
    error = {"status": 429, "message": "slow down", "code": "odd"}
    run.add("round_end", {"how": "http", "error": error})
    assert run.over()["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}


def test_a_log_without_room_for_a_further_round_ends_incomplete() -> None:
    run = Run(tools=[SEARCH], _max_response_bytes=60_000)
    run.round(*searching())
    run.result("1.0", "x" * 40_000)
    assert run.over()["incomplete_details"] == {"reason": "max_response_bytes"}
