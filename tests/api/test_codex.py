"""Codex in front of a model that knows functions alone: its three request shapes, two turns each.

Where RESPOOL_CODEX names the program it is run; the same exchange with requests of our own making
runs everywhere, and what reaches the upstream is held to the same rules.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from streams.store import Store
from tests.api.chat import asked, called, chat_upstream, events_of, said
from tests.api.codex import OURS, codex, handed_back
from tests.api.gateway import Gateway, Listed, running
from tests.ingest.server import Server, event, text_stream
from translator.protocol.upstream import Upstream

HELLO = "hello-from-the-tool"
ANSWER = "The tool said hello."
SCRIPT = f'const r = await tools.exec_command({{cmd: "echo {HELLO}"}}); text(JSON.stringify(r));'
PATCH = f"*** Begin Patch\n*** Add File: hello.txt\n+{HELLO}\n*** End Patch\n"


@dataclass(frozen=True)
class Shape:
    """What a model of that name is given and made to call."""

    model: str
    tool: str
    arguments: str
    custom: bool

    def __str__(self) -> str:
        return self.model


def wrapped(text: str) -> str:
    return json.dumps({"input": text})


SHAPES = [
    Shape("stub", "exec_command", json.dumps({"cmd": f"echo {HELLO}"}), custom=False),
    Shape("gpt-5.5", "apply_patch", wrapped(PATCH), custom=True),
    Shape("gpt-5.6-sol", "exec", wrapped(SCRIPT), custom=True),
]
LITE = SHAPES[-1]
EACH_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.fixture
async def gateway(store: Store, upstream: Server) -> AsyncIterator[Gateway]:
    """In this file it stands in front of a Chat upstream, as settings make one."""
    upstreams = chat_upstream(upstream, reasoning_history="reasoning_content")
    async with running(store, upstream, upstreams=upstreams) as made:
        yield made


@pytest.fixture
async def functions_only(store: Store, upstream: Server) -> AsyncIterator[Gateway]:
    """In front of a Responses upstream that is set to check grammars."""
    one = Upstream("main", upstream.url, "responses", custom_formats="validate")
    async with running(store, upstream, upstreams=Listed(one)) as made:
        yield made


def in_pieces(text: str, size: int = 7) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def play_chat(server: Server, shape: Shape) -> None:
    """A call, then an answer."""
    server.play(*called(shape.tool, *in_pieces(shape.arguments), thought="Greet."))
    server.play(*said("The tool ", "said hello."))


def play_responses(server: Server, shape: Shape) -> None:
    """The same from a server like vLLM."""
    at = {"output_index": 0, "item_id": "fc_1"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": shape.tool}
    item = {**call, "arguments": shape.arguments, "status": "completed"}
    opened = {**call, "arguments": "", "status": "in_progress"}
    kind = "response.function_call_arguments"
    server.play(
        event("response.created", response={"id": "resp_up", "status": "in_progress"}),
        event("response.output_item.added", output_index=0, item=opened),
        *(event(f"{kind}.delta", delta=piece, **at) for piece in in_pieces(shape.arguments)),
        event(f"{kind}.done", arguments=shape.arguments, **at),
        event("response.output_item.done", output_index=0, item=item),
        event("response.completed", response={"status": "completed", "output": [item]}),
    )
    server.play(*text_stream(ANSWER))


async def ours(gateway: Gateway, shape: Shape) -> list[list[dict[str, Any]]]:
    """Both turns with requests of our own making; the events of each."""
    body = {**OURS[shape.model], "model": shape.model}
    first = events_of(await gateway.create(**body))
    items = [event["item"] for event in first if event["type"] == "response.output_item.done"]
    handed = [back for item in items for back in handed_back(item, HELLO)]
    second = events_of(await gateway.create(**{**body, "input": [*body["input"], *handed]}))
    return [first, second]


# ---- what every exchange must come to, whoever the client was


def check_functions(tools: list[dict[str, Any]], shape: Shape) -> None:
    """The tool of the shape is one function, named as declared; a custom one requires its input."""
    (function,) = [tool for tool in tools if tool["name"] == shape.tool]
    if shape.custom:
        assert function["parameters"] == {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
            "additionalProperties": False,
        }
    else:
        assert function["parameters"]["required"] == ["cmd"]
    assert len({tool["name"] for tool in tools}) == len(tools)


def check_chat(gateway: Gateway, shape: Shape) -> None:
    """The bodies that reached a Chat upstream: the strictest server takes them, and they say it all."""
    assert len(gateway.upstream.requests) == 2
    for seen in gateway.upstream.requests:
        assert b"encrypted_content" not in seen.body
    for number in (0, 1):
        body = asked(gateway, number)
        check_functions([tool["function"] for tool in body["tools"]], shape)
        assert body.keys() <= {
            *("model", "messages", "tools", "tool_choice", "parallel_tool_calls"),
            *("stream", "stream_options", "reasoning_effort", "verbosity"),
        }
    *before, assistant, tool = asked(gateway)["messages"]
    assert before == asked(gateway, 0)["messages"]
    assert assistant["reasoning_content"] == "Greet."
    (call,) = assistant["tool_calls"]
    assert call["function"]["name"] == shape.tool
    assert json.loads(call["function"]["arguments"]) == json.loads(shape.arguments)
    assert tool["tool_call_id"] == call["id"] == "call_1"


def check_responses(gateway: Gateway, shape: Shape) -> list[dict[str, Any]]:
    """The bodies that reached a Responses upstream; the call and its output."""
    first, second = [json.loads(seen.body) for seen in gateway.upstream.requests]
    for body in (first, second):
        check_functions(body["tools"], shape)
    call, output = second["input"][-2:]
    assert (call["type"], output["type"]) == ("function_call", "function_call_output")
    assert (call["name"], call["call_id"]) == (shape.tool, output["call_id"])
    assert json.loads(call["arguments"]) == json.loads(shape.arguments)
    return [call, output]


# ---- with requests of our own making


@EACH_SHAPE
async def test_two_turns_over_a_chat_upstream(gateway: Gateway, shape: Shape):
    play_chat(gateway.upstream, shape)
    first, second = await ours(gateway, shape)
    thought, call = first[-1]["response"]["output"]
    assert thought["encrypted_content"]
    assert call["type"] == ("custom_tool_call" if shape.custom else "function_call")
    assert call["name"] == shape.tool
    assert call.get("namespace") == ("functions" if shape is LITE else None)
    if shape.custom:
        assert call["input"] == json.loads(shape.arguments)["input"]
    else:
        assert call["arguments"] == shape.arguments
    assert second[-1]["response"]["output"][0]["content"][0]["text"] == ANSWER
    check_chat(gateway, shape)
    assert HELLO in asked(gateway)["messages"][-1]["content"]


@EACH_SHAPE
async def test_two_turns_over_a_responses_upstream_that_checks_grammars(
    functions_only: Gateway, shape: Shape
):
    play_responses(functions_only.upstream, shape)
    first, second = await ours(functions_only, shape)
    (call,) = first[-1]["response"]["output"]
    assert call["type"] == ("custom_tool_call" if shape.custom else "function_call")
    assert second[-1]["response"]["status"] == "completed"
    check_responses(functions_only, shape)


async def test_agents_tools_go_up_under_their_own_names(gateway: Gateway):
    play_chat(gateway.upstream, SHAPES[0])
    await ours(gateway, SHAPES[0])
    names = [tool["function"]["name"] for tool in asked(gateway)["tools"]]
    assert names == ["exec_command", "spawn", "stop"]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search", "external_web_access": False},
        {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}},
    ],
    ids=lambda tool: tool["type"],
)
async def test_what_cannot_be_run_is_refused_by_name(gateway: Gateway, tool: dict[str, Any]):
    gateway.upstream.play(*said("never"))
    body = OURS["gpt-5.5"]
    reply = await gateway.create(**{**body, "tools": [*body["tools"], tool]})
    assert reply.status == 400
    assert f"'{tool['type']}'" in reply.error["message"]
    assert gateway.upstream.requests == []


# ---- with the program


@EACH_SHAPE
async def test_codex_runs_a_tool_and_answers_over_a_chat_upstream(
    gateway: Gateway, tmp_path: Any, shape: Shape
):
    play_chat(gateway.upstream, shape)
    run = await codex(gateway, tmp_path, shape.model)
    assert run.status == 0, run.shown
    assert ANSWER in run.shown
    check_chat(gateway, shape)
    check_effect(run, shape, asked(gateway)["messages"][-1]["content"])


@pytest.mark.parametrize("shape", [SHAPES[0], LITE], ids=str)
async def test_codex_may_have_its_agents_where_it_does_not_search_for_their_tools(
    gateway: Gateway, tmp_path: Any, shape: Shape
):
    play_chat(gateway.upstream, shape)
    run = await codex(gateway, tmp_path, shape.model, "-c", "agents.enabled=true")
    assert run.status == 0, run.shown
    check_chat(gateway, shape)
    names = {tool["function"]["name"] for tool in asked(gateway)["tools"]}
    assert "spawn_agent" in names


@EACH_SHAPE
async def test_codex_runs_a_tool_over_a_responses_upstream_that_checks_grammars(
    functions_only: Gateway, tmp_path: Any, shape: Shape
):
    play_responses(functions_only.upstream, shape)
    run = await codex(functions_only, tmp_path, shape.model)
    assert run.status == 0, run.shown
    assert ANSWER in run.shown
    _, output = check_responses(functions_only, shape)
    check_effect(run, shape, json.dumps(output["output"]))


def check_effect(run: Any, shape: Shape, output: str) -> None:
    """The tool was really run."""
    if shape.tool == "apply_patch":
        assert (run.folder / "hello.txt").read_text() == f"{HELLO}\n"
    else:
        assert HELLO in output


@pytest.mark.parametrize(
    ("model", "argument", "named"),
    [
        ("stub", 'web_search="cached"', "web_search"),
        ("gpt-5.5", "agents.enabled=true", "tool_search"),
    ],
)
async def test_codex_shows_what_is_refused(
    gateway: Gateway, tmp_path: Any, model: str, argument: str, named: str
):
    gateway.upstream.play(*said("never"))
    run = await codex(gateway, tmp_path, model, "-c", argument)
    assert run.status == 1
    assert f"'{named}'" in run.shown
    assert gateway.upstream.requests == []


async def test_codex_asks_again_where_an_input_broke_its_grammar(gateway: Gateway, tmp_path: Any):
    """A call that must not be run is never shown as done."""
    broken = "*** Begin Patch\n*** Add File: hello.txt\n+a\nno patch at all\n"
    gateway.upstream.play(*called("apply_patch", *in_pieces(wrapped(broken))))
    gateway.upstream.play(*said(ANSWER))
    run = await codex(gateway, tmp_path, "gpt-5.5")
    assert run.status == 0, run.shown
    assert ANSWER in run.shown
    assert not (run.folder / "hello.txt").exists()
    assert asked(gateway)["messages"] == asked(gateway, 0)["messages"]
