"""The official clients and tools that the gateway runs: MCP servers, web search, and calls that a user approves."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response, ResponseFunctionWebSearch
from openai.types.responses.response_output_item import (
    McpApprovalRequest,
    McpCall,
    McpListTools,
)

from tests.api.tools.model import Part, Say, mcp_call, search
from tests.api.tools.rig import SEARCH, Rig

ANSWER: list[Part] = [Say("Done.")]
SOURCES: Any = "web_search_call.action.sources"


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{rig.gateway.url}/v1", api_key="k", max_retries=0) as made:
        yield made


async def asked(client: AsyncOpenAI, stream: bool, **fields: Any) -> tuple[Response, list[str]]:
    """The answer of one request, and the types of the events where they were streamed."""
    request = {"model": "m", "input": "hi", **fields}
    if not stream:
        return await client.responses.create(**request), []
    async with client.responses.stream(**request) as streamed:
        types = [event.type.removeprefix("response.") async for event in streamed]
        return await streamed.get_final_response(), types


async def test_an_mcp_tool(rig: Rig, client: AsyncOpenAI, stream: bool):
    rig.model.script([mcp_call("echo", "a"), mcp_call("fail", "it broke")], ANSWER)
    made, types = await asked(client, stream, tools=[rig.server()], parallel_tool_calls=True)
    listed, echo, failed, message = made.output
    assert isinstance(listed, McpListTools)
    assert {"echo", "look"} <= {tool.name for tool in listed.tools}
    assert isinstance(echo, McpCall)
    assert isinstance(failed, McpCall)
    assert (echo.server_label, echo.name, echo.arguments) == ("s", "echo", '{"text": "a"}')
    assert (echo.output, echo.error, echo.status) == ("a", None, "completed")
    assert (failed.output, failed.status) == (None, "failed")
    assert message.type == "message"
    assert made.output_text == "Done."
    kept = await client.responses.retrieve(made.id)
    assert [item.id for item in kept.output] == [item.id for item in made.output]
    if stream:
        own = [kind for kind in types if kind.startswith("mcp_")]
        assert own[:2] == ["mcp_list_tools.in_progress", "mcp_list_tools.completed"]
        assert sorted(own[2:]) == sorted(
            [
                *["mcp_call.in_progress", "mcp_call_arguments.delta"] * 2,
                *["mcp_call_arguments.done"] * 2,
                *("mcp_call.completed", "mcp_call.failed"),
            ]
        )


async def test_web_search_with_its_sources(rig: Rig, client: AsyncOpenAI, stream: bool):
    rig.model.script([search("fact"), search("more")], ANSWER)
    made, types = await asked(
        client, stream, tools=[{"type": "web_search"}], parallel_tool_calls=True, include=[SOURCES]
    )
    *searches, _ = made.output
    for item, query in zip(searches, ("fact", "more"), strict=True):
        assert isinstance(item, ResponseFunctionWebSearch)
        assert item.status == "completed"
        assert item.action.type == "search"
        assert item.action.query == query
        sources = [source.url for source in item.action.sources or []]
        assert sources == ["https://found.test/1", "https://found.test/2"]
    assert made.output_text == "Done."
    if stream:
        lives = ["in_progress", "searching", "completed"]
        for life in lives:
            assert types.count(f"web_search_call.{life}") == 2


@pytest.mark.parametrize("approve", [True, False], ids=["approved", "refused"])
async def test_an_approval(rig: Rig, client: AsyncOpenAI, stream: bool, approve: bool):
    rig.model.script([mcp_call("echo", "a")])
    tools = [rig.server(require_approval="always")]
    first, _ = await asked(client, stream, tools=tools)
    request = first.output[-1]
    assert isinstance(request, McpApprovalRequest)
    assert (request.server_label, request.name) == ("s", "echo")
    assert rig.mcp.calls == []
    rig.model.script(ANSWER)
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": request.id,
        "approve": approve,
    }
    made, types = await asked(
        client, stream, tools=tools, previous_response_id=first.id, input=[answer]
    )
    assert made.output_text == "Done."
    assert len(rig.mcp.calls) == int(approve)
    called = [item for item in made.output if isinstance(item, McpCall)]
    assert [(item.output, item.approval_request_id) for item in called] == (
        [("a", request.id)] if approve else []
    )
    assert ("mcp_call.completed" in types) == (approve and stream)


async def test_a_resumed_stream_has_the_tools_events(rig: Rig, client: AsyncOpenAI):
    rig.model.script([search("a"), mcp_call("echo", "b")], ANSWER)
    made, types = await asked(client, True, tools=[SEARCH, rig.server()], parallel_tool_calls=True)
    whole = [e async for e in await client.responses.retrieve(made.id, stream=True)]
    assert len(whole) == len({e.sequence_number for e in whole})
    assert {e.type.removeprefix("response.") for e in whole} <= set(types)
    half = len(whole) // 2
    resumed = await client.responses.retrieve(made.id, stream=True, starting_after=half)
    assert [e.to_dict() async for e in resumed] == [e.to_dict() for e in whole[half + 1 :]]


# ---- openai-agents


@pytest.fixture
def agents() -> Any:
    found = pytest.importorskip("agents", reason="openai-agents is not installed")
    found.set_tracing_disabled(True)
    return found


async def run(agents: Any, client: AsyncOpenAI, stream: bool, *tools: Any) -> tuple[Any, list[str]]:
    """An agent with these tools, run to its end; its items by their classes."""
    model = agents.OpenAIResponsesModel(model="m", openai_client=client)
    agent = agents.Agent(name="a", instructions="Use the tools.", model=model, tools=list(tools))
    if stream:
        result = agents.Runner.run_streamed(agent, "Go.")
        assert [event async for event in result.stream_events()]
    else:
        result = await agents.Runner.run(agent, "Go.")
    return result, [type(item).__name__ for item in result.new_items]


async def test_the_hosted_mcp_tool_of_openai_agents(
    rig: Rig, client: AsyncOpenAI, agents: Any, stream: bool
):
    rig.model.script([mcp_call("echo", "a")], ANSWER)
    tool = agents.HostedMCPTool(tool_config=rig.server())
    result, items = await run(agents, client, stream, tool)
    assert result.final_output == "Done."
    assert rig.mcp.calls == [("echo", {"text": "a"})]
    assert items == ["MCPListToolsItem", "ToolCallItem", "MessageOutputItem"]


@pytest.mark.parametrize("approve", [True, False], ids=["approved", "refused"])
async def test_approvals_of_openai_agents(
    rig: Rig, client: AsyncOpenAI, agents: Any, stream: bool, approve: bool
):
    """It answers each question in a turn of its own, with the whole history as input."""
    rig.model.script([mcp_call("echo", "a")], ANSWER)
    names = []

    def decide(request: Any) -> dict[str, Any]:
        names.append(request.data.name)
        return {"approve": approve} | ({} if approve else {"reason": "Not today."})

    tool = agents.HostedMCPTool(
        tool_config=rig.server(require_approval="always"), on_approval_request=decide
    )
    result, items = await run(agents, client, stream, tool)
    assert names == ["echo"]
    assert result.final_output == "Done."
    assert len(rig.mcp.calls) == int(approve)
    assert items[:3] == ["MCPListToolsItem", "MCPApprovalRequestItem", "MCPApprovalResponseItem"]
    (told,) = rig.model.asked().results.values()
    assert told == "a" if approve else "Not today." in told


async def test_the_web_search_tool_of_openai_agents(
    rig: Rig, client: AsyncOpenAI, agents: Any, stream: bool
):
    rig.model.script([search("fact")], ANSWER)
    result, items = await run(agents, client, stream, agents.WebSearchTool())
    assert result.final_output == "Done."
    assert items == ["ToolCallItem", "MessageOutputItem"]
    assert [asked["params"]["q"] for asked in rig.engine.asked] == ["fact"]
