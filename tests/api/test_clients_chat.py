"""Clients that speak Responses, in front of an upstream that speaks Chat: they see no difference."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from respool.demo_upstream import AFTER_CALL, BEFORE_CALL, HELLO, PATCH
from respool.demo_upstream import serving as serving_model
from streams.store import Store
from tests.api.gateway import Gateway, Listed, running
from tests.ingest.server import Server
from translator.protocol.upstream import Upstream

MODEL = "demo-fast"
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


@pytest.fixture
async def gateway(store: Store) -> AsyncIterator[Gateway]:
    """In front of the scripted model, which is spoken to in Chat."""
    async with serving_model() as url:
        listed = Listed(Upstream("main", url, "chat", custom_formats="validate"))
        async with running(store, Server(), upstreams=listed) as made:
            yield made


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0) as made:
        yield made


async def test_the_stream_helper_gives_text_usage_and_a_resume(client: AsyncOpenAI):
    async with client.responses.stream(model=MODEL, input="Say hello.") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert final.output_text == HELLO
    assert final.usage is not None
    assert final.usage.total_tokens > 12
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(texts) == HELLO
    whole = [e.to_dict() async for e in await client.responses.retrieve(final.id, stream=True)]
    half = len(whole) // 2
    resumed = await client.responses.retrieve(final.id, stream=True, starting_after=half)
    assert [e.to_dict() async for e in resumed] == whole[half + 1 :]


async def test_the_stream_helper_gives_a_call_and_the_turn_after_it(client: AsyncOpenAI):
    async with client.responses.stream(
        model=MODEL, input="Weather in Oslo?", tools=[WEATHER]
    ) as stream:
        pieces = [e.delta async for e in stream if e.type.endswith("arguments.delta")]
        first = await stream.get_final_response()
    message, call = first.output
    assert (message.type, call.type) == ("message", "function_call")
    assert first.output_text == BEFORE_CALL
    assert call.arguments == "".join(pieces) == '{"city": "Oslo"}'
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    async with client.responses.stream(
        model=MODEL, input=[output], previous_response_id=first.id, tools=[WEATHER]
    ) as stream:
        assert (await stream.get_final_response()).output_text == AFTER_CALL


async def test_the_stream_helper_gives_the_raw_input_of_a_custom_tool(client: AsyncOpenAI):
    tool: Any = {
        "type": "custom",
        "name": "apply_patch",
        "format": {"type": "grammar", "syntax": "regex", "definition": r"\*\*\* [\s\S]*"},
    }
    async with client.responses.stream(model=MODEL, input="Patch it", tools=[tool]) as stream:
        pieces = [e.delta async for e in stream if e.type.endswith("tool_call_input.delta")]
        final = await stream.get_final_response()
    call = final.output[1]
    assert call.type == "custom_tool_call"
    assert call.input == "".join(pieces) == PATCH


@pytest.mark.parametrize("streamed", [False, True], ids=["run", "run_streamed"])
async def test_the_tool_loop_of_openai_agents(client: AsyncOpenAI, streamed: bool):
    agents = pytest.importorskip("agents", reason="openai-agents is not installed")
    agents.set_tracing_disabled(True)
    asked = []

    def get_weather(city: str) -> str:
        """Weather of a place."""
        asked.append(city)
        return "rain"

    model = agents.OpenAIResponsesModel(model=MODEL, openai_client=client)
    agent = agents.Agent(
        name="a",
        instructions="Use the tool.",
        model=model,
        tools=[agents.function_tool(get_weather)],
    )
    if streamed:
        result = agents.Runner.run_streamed(agent, "Weather in Oslo?")
        kinds = [event.type async for event in result.stream_events()]
        assert "run_item_stream_event" in kinds
    else:
        result = await agents.Runner.run(agent, "Weather in Oslo?")
    assert asked == ["Oslo"]
    assert result.final_output == AFTER_CALL
    assert [type(item).__name__ for item in result.new_items] == [
        "MessageOutputItem",
        "ToolCallItem",
        "ToolCallOutputItem",
        "MessageOutputItem",
    ]
