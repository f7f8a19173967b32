"""A response with all that surrounds it: an upstream that plays rounds, tools that answer, losses and cancels.

In: a `Plan` and `pick`, which says what of all that may happen next does. Out: a `World` that has run until nothing
was left to happen: the log, written as the machine's commands asked for it, what the client was told, the bodies that
went upstream, the jobs. It fails where the machine asks for something twice or waits for what never comes.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from tests.translator import laws
from tests.translator.drive import (
    CUSTOM,
    FUNCTION,
    RID,
    START_MS,
    Event,
    added,
    args,
    args_done,
    block,
    call,
    completed,
    created,
    done,
    ev,
    message,
    request_entry,
    text,
)
from translator.machine import Machine
from translator.protocol.entries import Entry
from translator.step import NextRound, Reopen, RunJob, Step

SEARCH = {"type": "web_search"}
CLIENTS = ("exec", "get_weather", "nobody_declared")
TOOLS = ("look.up", "write")
"""What every MCP server lists. A name that no model may see, so that the visible one is another; and a plain one."""
READS = "look.up"
"""The tool that says that it only reads."""
FOUND = "https://found.test/"
"""What every search finds, each under a title of its own."""
SECRET_ITEM = "upitem"
"""What ids of items begin with upstream; no client ever sees it."""

Named = Literal["added", "arguments.done", "item.done", "never"]
Pick = Callable[[int], int]


@dataclass(frozen=True)
class Saying:
    """An item of a round, whatever the dialect. A call of the tool t of the MCP server s is named `@s/t`."""

    kind: Literal["text", "thought", "call"]
    pieces: tuple[str, ...] = ()
    name: str = ""
    named: Named = "added"
    closed: bool = True

    @property
    def joined(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Server:
    """An MCP server of the request."""

    label: str
    lists: bool = True
    approval: Any = "never"

    @property
    def tool(self) -> Event:
        return {
            "type": "mcp",
            "server_label": self.label,
            "server_url": f"https://{self.label}.test/mcp",
            "require_approval": self.approval,
        }


@dataclass(frozen=True)
class Round:
    """What the upstream does in a round: items, one after the other or interleaved, and its end."""

    sayings: tuple[Saying, ...]
    end: Literal["completed", "incomplete", "failed", "eof", "http"] = "completed"
    usage: int | None = None
    weave: tuple[int, ...] = ()
    """Whose turn it is, of the items that still have something to say; without it one follows the other."""


LAST = Round((Saying("text", ("That ", "is all."), closed=True),))


@dataclass(frozen=True)
class Plan:
    """Everything that will happen, but for the order of what happens at the same time."""

    rounds: tuple[Round, ...] = ()
    servers: tuple[Server, ...] = ()
    search: bool = True
    api: Literal["responses", "chat"] = "responses"
    outcomes: tuple[bool, ...] = (True,)
    """Whether a call goes well; a place is taken by the call's key."""
    approvals: tuple[bool, ...] = ()
    """Answers to requests of an earlier turn for calls of the first server."""
    max_rounds: int = 10
    body: tuple[tuple[str, Any], ...] = ()
    cancel_at: int | None = None
    """The length of the log at which a cancel comes."""
    reason: str = "client"
    losses: frozenset[int] = frozenset()
    """Lengths of the log at which the process that reads the upstream dies, if there is one."""
    noise: frozenset[int] = frozenset()
    """Lengths of the log at which an entry comes that means nothing."""

    @property
    def tools(self) -> list[Event]:
        search = [SEARCH] if self.search else []
        return [CUSTOM, *search, FUNCTION, *(server.tool for server in self.servers)]

    @property
    def asked(self) -> bool:
        """Whether calls of an earlier turn wait for their answer."""
        return bool(self.servers and self.approvals)

    @property
    def first(self) -> bool:
        """Whether something comes before the first round."""
        return bool(self.servers)

    def entry(self) -> bytes:
        body = {"tools": self.tools, "_api": self.api, "_max_rounds": self.max_rounds}
        if self.asked:
            label = self.servers[0].label
            body["_history"] = [
                {"type": "message", "role": "user", "id": "msg_0", "content": "earlier"},
                *(asked_for(label, at) for at in range(len(self.approvals))),
            ]
            body["_input"] = [answered(at, yes) for at, yes in enumerate(self.approvals)]
        return request_entry(**body | dict(self.body))


def asked_for(label: str, at: int) -> Event:
    return {
        "type": "mcp_approval_request",
        "id": f"mcpr_{at}",
        "server_label": label,
        "name": READS,
        "arguments": json.dumps({"approved": at}),
    }


def answered(at: int, yes: bool) -> Event:
    return {
        "type": "mcp_approval_response",
        "id": f"mcpa_{at}",
        "approval_request_id": f"mcpr_{at}",
        "approve": yes,
    }


def in_turn(options: int) -> int:
    """The oldest first."""
    del options
    return 0


class Stuck(AssertionError):
    """Nothing is left to happen, and the response has not ended."""


@dataclass
class World:
    """One run of a plan."""

    plan: Plan
    pick: Pick = in_turn
    machine: Machine = field(default_factory=lambda: Machine(RID))
    entries: list[Entry] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    bodies: dict[int, Event] = field(default_factory=dict)
    """The upstream body of each round that the machine asked for."""
    jobs: dict[str, Event] = field(default_factory=dict)
    results: dict[str, Event] = field(default_factory=dict)
    """By the job's key, once it is in the log."""
    played: list[int] = field(default_factory=list)
    """Rounds whose upstream has said all of it."""
    names: dict[str, str] = field(default_factory=dict)
    """Model-visible names of the gateway's tools, by `web_search` or `@server/tool`."""
    blocks: dict[int, list[bytes]] = field(default_factory=dict)
    """What the upstream sent in each round."""
    _waiting: list[str] = field(default_factory=list)
    _opening: tuple[int, bytes] | None = None
    _stream: list[tuple[str, bytes]] = field(default_factory=list)
    _round: int = 0
    _attempt: int = 0

    # ---- what was told

    @cached_property
    def frames(self) -> list[bytes]:
        return [frame for step in self.steps for frame in step.frames]

    @cached_property
    def events(self) -> list[Event]:
        return [laws.parse(frame) for frame in self.frames]

    @property
    def response(self) -> Event:
        assert self.machine.response is not None
        return self.machine.response

    @property
    def output(self) -> list[Event]:
        return self.response["output"]

    @property
    def commands(self) -> list[Any]:
        return [command for step in self.steps for command in step.commands]

    @property
    def types(self) -> list[str]:
        return [event["type"].removeprefix("response.") for event in self.events]

    def calls(self, number: int) -> list[tuple[int, Saying]]:
        """The calls of a round in the model's order, with their places."""
        return [(at, one) for at, one in enumerate(self.said(number)) if one.kind == "call"]

    def said(self, number: int) -> Sequence[Saying]:
        return self.playing(number).sayings

    def playing(self, number: int) -> Round:
        rounds = self.plan.rounds
        return rounds[number - 1] if number <= len(rounds) else LAST

    def owned(self, one: Saying) -> bool:
        """Whether the gateway runs a call, as far as its name is known."""
        return one.named != "never" and one.name in self.names

    def asks_first(self, one: Saying) -> bool:
        """Whether a call of ours needs the client's approval."""
        by_label = {server.label: server for server in self.plan.servers}
        label = one.name.removeprefix("@").partition("/")[0]
        return one.name.startswith("@") and by_label[label].approval == "always"

    # ---- what happens

    def run(self) -> "World":
        self.enter("request", self.plan.entry())
        if not self.plan.first:
            self._opening = (1, b"{}")
            self.names |= {"web_search": "web_search"} if self.plan.search else {}
        while not self.machine.terminal:
            self._disturb()
            options = self._options()
            if self.machine.terminal:
                break
            if not options:
                raise Stuck(f"after {len(self.entries)} entries: {self.types}")
            options[self.pick(len(options)) if len(options) > 1 else 0]()
        return self

    def enter(self, kind: str, data: Any = b"{}", **at: int) -> Step:
        """The next entry of the log, and what the machine makes of it."""
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        n = len(self.entries) + 1
        entry = Entry(n, kind, START_MS + 10 * n, raw, **at)
        self.entries.append(entry)
        step = self.machine.feed(entry)
        self.steps.append(step)
        for command in step.commands:
            self._obey(command)
        return step

    def _obey(self, command: Any) -> None:
        match command:
            case RunJob(key, data):
                assert key not in self.jobs, f"{key} is asked for twice"
                job = json.loads(data)
                assert job["key"] == key
                self.jobs[key] = job
                self._waiting.append(key)
            case NextRound(number, body):
                assert not self._waiting, "a round while calls run"
                assert self._opening is None
                assert number == self._round + 1
                self._opening = (number, body)
                self.bodies[number] = json.loads(body)
                self._learn(self.bodies[number])
            case Reopen(number):
                assert number == max(1, self._round)
                self._begin()
            case _:
                raise AssertionError(command)

    def _learn(self, body: Event) -> None:
        """How the model is told of the gateway's tools, by their descriptions."""
        functions = [tool.get("function", tool) for tool in body.get("tools") or []]
        names = [one["name"] for one in functions]
        assert len(set(names)) == len(names)
        assert all(len(name) <= 64 and fits(name) for name in names)
        if "web_search" in names:
            self.names["web_search"] = "web_search"
        for server in self.plan.servers:
            for tool in TOOLS:
                known = f"@{server.label}/{tool}"
                found = [f["name"] for f in functions if known in (f.get("description") or "")]
                self.check_names(found, listed=server.lists)
                if found:
                    self.names[known] = found[0]

    def check_names(self, found: list[str], *, listed: bool) -> None:
        """A tool of a server is a function of the model's, if the server could be listed."""
        assert len(found) == listed

    def write(self, kind: str, data: Event) -> None:
        """A worker's entry."""
        self.results[data["key"]] = data
        self.enter(kind, data)

    def _disturb(self) -> None:
        at = len(self.entries)
        if at in self.plan.noise:
            self.enter("tool_result", {**result_of({"key": "9.9", "tool": "mcp"}, True)})
            for data in list(self.results.values())[-1:]:
                again = {**data, "ok": not data.get("ok"), "content": "later", "tools": []}
                self.enter("tool_result" if "ok" in data else "tools_listed", again)
        if self.plan.cancel_at is not None and at >= self.plan.cancel_at:
            self.enter("cancel", {"reason": self.plan.reason})
            assert self.machine.terminal, "a cancel ends a response"
        elif at in self.plan.losses and self._stream and self._stream[0][0] != "attempt":
            self._stream = []
            self.enter("round_end", {"how": "lost"}, round=self._round, attempt=self._attempt)

    def _options(self) -> list[Callable[[], object]]:
        found: list[Callable[[], object]] = []
        if self._stream:
            found.append(self._read)
        if self._opening is not None:
            found.append(self._open)
        found += [lambda key=key: self._bring(key) for key in self._waiting]
        return found

    def _open(self) -> None:
        assert self._opening is not None
        self._round, body = self._opening
        self._opening = None
        self.enter("round", body, round=self._round)
        self._attempt = 0
        self._begin()

    def _begin(self) -> None:
        self._attempt += 1
        playing = self.playing(self._round)
        if playing.end == "http":
            end = {"how": "http", "error": {"status": 500, "message": "no", "code": None}}
            self._stream = [("attempt", b"{}"), ("round_end", json.dumps(end).encode())]
            return
        blocks = [self._named(block(e)) for e in render(playing, self._round, self.plan.api)]
        self.blocks[self._round] = blocks
        how = "eof" if playing.end == "eof" or self.plan.api == "responses" else "ok"
        self._stream = [
            ("attempt", b"{}"),
            ("opened", b'{"status":200}'),
            *(("frame", found) for found in blocks),
            ("round_end", json.dumps({"how": how}).encode()),
        ]

    def _named(self, raw: bytes) -> bytes:
        for known, name in self.names.items():
            raw = raw.replace(json.dumps(known).encode(), json.dumps(name).encode())
        return raw

    def _read(self) -> None:
        kind, data = self._stream.pop(0)
        if len(self._stream) < 2 and self._round not in self.played:
            self.played.append(self._round)
        self.enter(kind, data, round=self._round, attempt=self._attempt)

    def _bring(self, key: str) -> None:
        self._waiting.remove(key)
        job = self.jobs[key]
        if job["kind"] == "list":
            server = self.plan.servers[job["server"]]
            self.write("tools_listed", listing_of(key, server))
            return
        number, slot = (int(part) for part in key.split("."))
        outcomes = self.plan.outcomes
        self.write("tool_result", result_of(job, outcomes[(5 * number + slot) % len(outcomes)]))


def fits(name: str) -> bool:
    """What model servers take as a function's name."""
    return bool(name) and all(c.isascii() and (c.isalnum() or c in "_-") for c in name)


def parsed(arguments: str) -> Any:
    """A call's arguments; None where they are no object."""
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def listing_of(key: str, server: Server) -> Event:
    if not server.lists:
        return {"key": key, "tools": [], "error": "The MCP server answered with status 500."}
    tools = [
        {
            "name": tool,
            "description": f"@{server.label}/{tool}",
            "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
            "annotations": {"readOnlyHint": True} if tool == READS else None,
        }
        for tool in TOOLS
    ]
    return {"key": key, "tools": tools, "error": None}


def tag_of(key: str) -> str:
    """What stands in the result of a call and nowhere else."""
    return f"<the answer of {key}>"


def url_of(key: str) -> str:
    """What one search finds and no other."""
    return f"https://{key}.test/"


def result_of(job: Event, ok: bool) -> Event:
    """What a worker writes of a call."""
    key, tag = job["key"], tag_of(job["key"])
    data = {"key": key, "ok": ok, "output": None, "error": None, "sources": []}
    data |= {"started": 1, "ended": 2}
    if parsed(job.get("arguments", "")) is None:
        ok = data["ok"] = False
    if not ok:
        failed = {"type": "mcp_protocol_error", "code": -32602, "message": tag}
        return {
            **data,
            "content": json.dumps({"error": tag}),
            "error": failed if job["tool"] == "mcp" else None,
        }
    if job["tool"] == "mcp":
        return {**data, "content": tag, "output": tag}
    hits = [{"title": tag, "url": url} for url in (FOUND, url_of(key))]
    return {
        **data,
        "content": json.dumps({"query": "q", "results": hits}),
        "sources": [hit["url"] for hit in hits],
        "results": hits,
    }


# ---- what the upstream says ----------------------------------------------------------------------


def call_id_of(number: int, at: int) -> str:
    return f"upcall-{number}-{at}"


def render(playing: Round, number: int, api: str) -> list[Event | str]:
    """The upstream's events of a round."""
    if api == "chat":
        return chat_round(playing, number)
    items = [said(one, number, at) for at, one in enumerate(playing.sayings)]
    return [created(), *woven(items, playing.weave), *end_of(playing)]


def woven(items: list[list[Event]], weave: tuple[int, ...]) -> list[Event]:
    """Several items at once: each in its own order, the first events in the order of the items."""
    if not weave:
        return [event for item in items for event in item]
    rest = [list(item) for item in items]
    events: list[Event] = []
    begun = 0  # of those that are left
    while rest:
        at = weave[len(events) % len(weave)] % min(begun + 1, len(rest))
        begun = max(begun, at + 1)
        events.append(rest[at].pop(0))
        if not rest[at]:
            del rest[at]
            begun -= 1
    return events


def end_of(playing: Round) -> list[Event | str]:
    tokens = playing.usage
    usage = tokens and {
        "input_tokens": tokens,
        "output_tokens": 2 * tokens,
        "total_tokens": 3 * tokens,
    }
    match playing.end:
        case "completed":
            return [completed(usage=usage)]
        case "incomplete":
            details = {"reason": "max_output_tokens"}
            return [ev("incomplete", response={"incomplete_details": details, "usage": usage})]
        case "failed":
            error = {"code": "server_error", "message": "m"}
            return [ev("failed", response={"error": error, "usage": usage})]
        case _:
            return []


def said(one: Saying, number: int, at: int) -> list[Event]:
    ident = f"{SECRET_ITEM}_{number}_{at}"
    match one.kind:
        case "text":
            events = [added(message(ident, status="in_progress"), at)]
            events += [text(piece, at, ident) for piece in one.pieces]
            return events + ([done(message(ident, one.joined), at)] if one.closed else [])
        case "thought":
            place = {"item_id": ident, "output_index": at, "content_index": 0}
            item = {"type": "reasoning", "id": ident, "summary": [], "content": []}
            events = [added(item, at)]
            events += [ev("reasoning_text.delta", delta=piece, **place) for piece in one.pieces]
            whole = {**item, "content": [{"type": "reasoning_text", "text": one.joined}]}
            return events + ([done(whole, at)] if one.closed else [])
        case _:
            return said_call(one, number, at, ident)


def said_call(one: Saying, number: int, at: int, ident: str) -> list[Event]:
    """A call whose name comes when it comes."""
    ours, late = call_id_of(number, at), one.named
    early = one.name if late == "added" else None
    events = [added(call(early, ident=ident, call_id=ours), at)]
    events += [args(piece, at, ident) for piece in one.pieces]
    known = {"name": one.name} if late in ("added", "arguments.done") else {}
    if one.closed or late == "arguments.done":
        events.append(args_done(one.joined, at, ident, **known))
    if one.closed or late == "item.done":
        name = None if late == "never" else one.name
        events.append(done(call(name, one.joined, ident, ours, "completed"), at))
    return events


def chat_round(playing: Round, number: int) -> list[Event | str]:
    """The same as chunks of Chat Completions; items follow each other."""
    events: list[Event | str] = [chunk(role="assistant", content="")]
    calls = 0
    for at, one in enumerate(playing.sayings):
        if one.kind != "call":
            key = "content" if one.kind == "text" else "reasoning_content"
            events += [chunk(**{key: piece}) for piece in one.pieces]
            continue
        first = {"index": calls, "id": call_id_of(number, at), "type": "function"}
        calls += 1
        name = {} if one.named == "never" else {"name": one.name}
        start = name if one.named == "added" else {}
        events.append(chunk(tool_calls=[{**first, "function": {**start, "arguments": ""}}]))
        rest = [{"arguments": piece} for piece in one.pieces]
        rest += [] if start else [{**name, "arguments": ""}]
        events += [chunk(tool_calls=[{"index": calls - 1, "function": part}]) for part in rest]
    tokens = playing.usage
    usage = tokens and {
        "prompt_tokens": tokens,
        "completion_tokens": 2 * tokens,
        "total_tokens": 3 * tokens,
    }
    if playing.end == "failed":
        return [*events, {"error": {"message": "m", "code": "server_error"}}]
    if playing.end == "eof":
        return events
    reason = "length" if playing.end == "incomplete" else "tool_calls" if calls else "stop"
    return [*events, chunk(reason), {"choices": [], "usage": usage}, "[DONE]"]


def chunk(finish: str | None = None, **delta: Any) -> Event:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


# ---- what the model is told ----------------------------------------------------------------------


def outputs_of(body: Event) -> list[tuple[str, str]]:
    """Call ids and contents of a body's results, in order."""
    if "messages" in body:
        found = [m for m in body["messages"] if m["role"] == "tool"]
        return [(m["tool_call_id"], text_of(m["content"])) for m in found]
    found = [item for item in body["input"] if item["type"] == "function_call_output"]
    return [(item["call_id"], text_of(item["output"])) for item in found]


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def calls_of(body: Event) -> list[str]:
    """Call ids of a body's calls, in order."""
    if "messages" in body:
        calls = [c for m in body["messages"] for c in m.get("tool_calls") or []]
        return [found["id"] for found in calls]
    return [item["call_id"] for item in body["input"] if item["type"] == "function_call"]
