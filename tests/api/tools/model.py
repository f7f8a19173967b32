"""A scripted model that calls tools: what it says, round by round, and what it was asked, in either dialect.

A round is a list of parts: `Say`, `Think`, `Call`, or an `asyncio.Event` at which the model stops
until the test goes on. The name of a tool is looked up in the request that the round answers, where
the gateway told it; a test never knows it beforehand. Every id that the model gives has `_up_` in
it, so that one that leaks is found.
"""

import asyncio
import itertools
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.api.chat import chunk, fragment, usage
from tests.api.gateway import DONE
from tests.ingest.server import End, Seen, Server, Step, event
from tests.translator.strict_chat import check_body

Api = Literal["responses", "chat"]
Ending = Literal["whole", "limited", "cut"]
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
"""Of each round."""


@dataclass
class Say:
    text: str


@dataclass
class Think:
    text: str


@dataclass
class Call:
    """A call of a tool; with `late`, its name comes after all else of the round.

    From Chat it comes before the next call: a call that has another after it has ended there.
    """

    tool: str
    arguments: str
    server: str = ""
    late: bool = False
    ident: str = ""

    @property
    def pieces(self) -> list[str]:
        half = len(self.arguments) // 2
        return [piece for piece in (self.arguments[:half], self.arguments[half:]) if piece]


Part = Say | Think | Call | asyncio.Event


def call(tool: str, server: str = "", late: bool = False, **arguments: Any) -> Call:
    """A call with arguments as an object."""
    return Call(tool, json.dumps(arguments), server, late)


def search(query: str, late: bool = False) -> Call:
    return call("web_search", late=late, query=query)


def mcp_call(tool: str, text: str = "", server: str = "s", late: bool = False) -> Call:
    return call(tool, server, late, text=text)


@dataclass
class Asked:
    """One request to the model, whichever dialect it came in."""

    body: dict[str, Any]
    api: Api
    functions: dict[str, dict[str, Any]] = field(init=False)
    """Declared functions by their name."""
    history: list[tuple[str, ...]] = field(init=False)
    """("user" | "assistant" | "reasoning", text), ("call", id, name, arguments), ("result", id, text)."""

    def __post_init__(self) -> None:
        if self.api == "chat":
            check_body(self.body)
        tools = self.body.get("tools", [])
        told = [tool.get("function", tool) for tool in tools]
        self.functions = {tool["name"]: tool for tool in told}
        assert len(self.functions) == len(told), "two functions of one name"
        assert {tool["type"] for tool in tools} <= {"function"}
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in self.functions)
        said = self.body["messages"] if self.api == "chat" else self.body["input"]
        read = _of_message if self.api == "chat" else _of_item
        self.history = [entry for one in said for entry in read(one)]
        calls = [entry[1] for entry in self.history if entry[0] == "call"]
        results = [entry[1] for entry in self.history if entry[0] == "result"]
        assert len(set(calls)) == len(calls)
        assert sorted(calls) == sorted(results), "a call without its result, or the other way round"

    @property
    def results(self) -> dict[str, str]:
        """What was said to each call, in the order it was said."""
        return {entry[1]: entry[2] for entry in self.history if entry[0] == "result"}

    @property
    def calls(self) -> list[str]:
        """The ids of the calls, in order."""
        return [entry[1] for entry in self.history if entry[0] == "call"]

    def name_of(self, tool: str, server: str = "", mine: Collection[str] = ()) -> str:
        """The one function that a tool is; of a server's, it is none of those that the client has."""
        if tool in self.functions and not server:
            return tool
        names = [n for n in self.functions if tool in n and server in n and n not in mine]
        assert len(names) == 1, f"{tool} of {server!r} among {list(self.functions)}"
        return names[0]


def _of_item(item: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    match item.get("type", "message"):
        case "message":
            yield item["role"], texts_of(item["content"])
        case "reasoning":
            yield "reasoning", texts_of(item.get("content") or [])
        case "function_call":
            yield "call", item["call_id"], item["name"], item["arguments"]
        case "function_call_output":
            yield "result", item["call_id"], texts_of(item["output"])
        case other:
            raise AssertionError(f"a model server knows no {other}")


def _of_message(message: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    if message["role"] == "tool":
        yield "result", message["tool_call_id"], message["content"]
        return
    if message["content"]:
        yield message["role"], texts_of(message["content"])
    for one in message.get("tool_calls", []):
        yield "call", one["id"], one["function"]["name"], one["function"]["arguments"]


def texts_of(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


class Model:
    """Plays rounds on a scripted upstream."""

    def __init__(self, server: Server, api: Api) -> None:
        self.server = server
        self.api: Api = api
        self.faults: list[AssertionError] = []
        """What was wrong with a request; `asked` and the tests' `turn` raise it."""
        self.renamed: dict[str, str] = {}
        """Call ids, and the name that the model makes up for them."""
        self.ending: Ending = "whole"
        """How each answer ends: as it should, at the limit of its tokens (in its last part), or in silence."""
        self._idents = (f"call_up_{n}" for n in itertools.count())

    def script(self, *rounds: list[Part]) -> list[Call]:
        """Answer the next requests so, the last round again and again; the calls, with their ids."""
        self.server.plays.clear()
        calls = []
        for parts in rounds:
            for part in parts:
                if isinstance(part, Call):
                    part.ident = next(self._idents)
                    calls.append(part)
            self.server.play(lambda seen, parts=parts: self._steps(seen, parts))
        return calls

    def asked(self, number: int = -1) -> Asked:
        """A request that came, by its number among all."""
        self.check()
        return Asked(json.loads(self.server.requests[number].body), self.api)

    def check(self) -> None:
        if self.faults:
            raise self.faults[0]

    def _steps(self, seen: Seen, parts: list[Part]) -> list[Step]:
        try:
            asked = Asked(json.loads(seen.body), self.api)
            calls = [part for part in parts if isinstance(part, Call)]
            mine = {one.tool for one in calls if not one.server}
            names = {one.ident: asked.name_of(one.tool, one.server, mine) for one in calls}
        except AssertionError as fault:
            self.faults.append(fault)
            raise
        names |= self.renamed
        make = _chat_round if self.api == "chat" else _responses_round
        steps = list(make(parts, names, limited=self.ending == "limited"))
        if self.ending == "cut":
            return [*steps[: -3 if self.api == "chat" else -1], End.CUT]
        return steps


def _chat_round(parts: list[Part], names: dict[str, str], *, limited: bool) -> Iterator[Step]:
    yield chunk(role="assistant", content="")
    called = [part for part in parts if isinstance(part, Call)]
    waiting: list[Step] = []
    for part in parts:
        if isinstance(part, Call):
            yield from waiting
            waiting.clear()
        match part:
            case Say(text):
                yield chunk(content=text)
            case Think(text):
                yield chunk(reasoning_content=text)
            case Call():
                index = called.index(part)
                name = None if part.late else names[part.ident]
                head = fragment(index, call_id=part.ident, name=name)
                yield chunk(tool_calls=[head])
                for piece in part.pieces:
                    yield chunk(tool_calls=[fragment(index, arguments=piece)])
                if part.late:
                    waiting.append(chunk(tool_calls=[fragment(index, name=names[part.ident])]))
            case _:
                yield part
    yield from waiting
    yield chunk("length" if limited else "tool_calls" if called else "stop")
    yield usage(USAGE["input_tokens"], USAGE["output_tokens"])
    yield DONE


def _responses_round(parts: list[Part], names: dict[str, str], *, limited: bool) -> Iterator[Step]:
    response = {"id": "resp_up_1", "object": "response", "model": "m", "status": "in_progress"}
    yield event("response.created", response={**response, "output": []})
    numbered = list(enumerate(part for part in parts if not isinstance(part, asyncio.Event)))
    items = {index: _item(index, part, names) for index, part in numbered}
    last = numbered[-1][0] if limited else None
    if last is not None:
        items[last]["status"] = "incomplete"
    at = iter(items)
    for part in parts:
        if isinstance(part, asyncio.Event):
            yield part
            continue
        index = next(at)
        yield from _opened(index, part, items[index])
        if index != last and not (isinstance(part, Call) and part.late):
            yield from _closed(index, part, items[index])
    for index, part in numbered:
        if isinstance(part, Call) and part.late:
            yield from _closed(index, part, items[index])
    status = "incomplete" if limited else "completed"
    done = {**response, "status": status, "output": list(items.values()), "usage": USAGE}
    if limited:
        done["incomplete_details"] = {"reason": "max_output_tokens"}
    yield event(f"response.{status}", response=done)


def _item(index: int, part: Part, names: dict[str, str]) -> dict[str, Any]:
    match part:
        case Say(text):
            body = [{"type": "output_text", "text": text, "annotations": []}]
            return {
                "id": f"msg_up_{index}", "type": "message", "role": "assistant",
                "status": "completed", "content": body,
            }  # fmt: skip
        case Think(text):
            body = [{"type": "reasoning_text", "text": text}]
            return {
                "id": f"rs_up_{index}", "type": "reasoning", "summary": [],
                "status": "completed", "content": body,
            }  # fmt: skip
        case Call():
            return {
                "id": f"fc_up_{index}", "type": "function_call", "call_id": part.ident,
                "name": names[part.ident], "arguments": part.arguments, "status": "completed",
            }  # fmt: skip
    raise AssertionError(part)


def _opened(index: int, part: Part, item: dict[str, Any]) -> Iterator[bytes]:
    """The item as it is added, and its deltas."""
    empty = {"content": []} if "content" in item else {"arguments": ""}
    first = {**item, **empty, "status": "in_progress"}
    if isinstance(part, Call) and part.late:
        first["name"] = None
    yield event("response.output_item.added", output_index=index, item=first)
    at = {"item_id": item["id"], "output_index": index}
    match part:
        case Say(text):
            empty_part = {"type": "output_text", "text": "", "annotations": []}
            yield event("response.content_part.added", part=empty_part, content_index=0, **at)
            yield event(
                "response.output_text.delta", delta=text, logprobs=[], content_index=0, **at
            )
        case Think(text):
            yield event("response.reasoning_text.delta", delta=text, content_index=0, **at)
        case Call():
            for piece in part.pieces:
                yield event("response.function_call_arguments.delta", delta=piece, **at)


def _closed(index: int, part: Part, item: dict[str, Any]) -> Iterator[bytes]:
    at = {"item_id": item["id"], "output_index": index}
    match part:
        case Say(text):
            (whole,) = item["content"]
            yield event("response.output_text.done", text=text, logprobs=[], content_index=0, **at)
            yield event("response.content_part.done", part=whole, content_index=0, **at)
        case Think(text):
            yield event("response.reasoning_text.done", text=text, content_index=0, **at)
        case Call():
            yield event("response.function_call_arguments.done", arguments=part.arguments, **at)
    yield event("response.output_item.done", output_index=index, item=item)
