"""The official client against a whole gateway: what its users do every day."""

import asyncio

import openai
import pytest
from openai import AsyncOpenAI

from tests.api.gateway import Gateway
from tests.ingest.server import text_stream

TEXT = text_stream("Hel", "lo", usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3})


@pytest.fixture
async def client(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0) as made:
        yield made


async def test_create_retrieve_items_chain_delete(client: AsyncOpenAI):
    made = await client.responses.create(model="m", input="hi")
    assert made.output_text == "Hello"
    assert made._request_id
    assert made.usage is not None
    assert made.usage.total_tokens == 3
    assert (await client.responses.retrieve(made.id)).to_dict() == made.to_dict()
    page = await client.responses.input_items.list(made.id, order="asc", limit=10)
    assert [item.type for item in page.data] == ["message"]
    chained = await client.responses.create(model="m", input="on", previous_response_id=made.id)
    assert chained.status == "completed"
    await client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)


async def test_the_pager_walks_through_all_input_items(client: AsyncOpenAI):
    items = [{"role": "user", "content": f"m{n}"} for n in range(7)]
    made = await client.responses.create(model="m", input=items)
    seen = [
        item.content[0].text
        async for item in client.responses.input_items.list(made.id, order="asc", limit=3)
    ]
    assert seen == [f"m{n}" for n in range(7)]


async def test_the_stream_helper_and_a_resume(client: AsyncOpenAI):
    async with client.responses.stream(model="m", input="hi") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert final.output_text == "Hello"
    assert events[0].type == "response.created"
    whole = [e.to_dict() async for e in await client.responses.retrieve(final.id, stream=True)]
    for after in (0, len(whole) // 2, len(whole) - 1):
        resumed = await client.responses.retrieve(final.id, stream=True, starting_after=after)
        assert [e.to_dict() async for e in resumed] == whole[after + 1 :]
    async with client.responses.stream(response_id=final.id, starting_after=3) as again:
        assert (await again.get_final_response()).to_dict() == final.to_dict()


async def test_background_poll_and_cancel(gateway: Gateway, client: AsyncOpenAI):
    gate = asyncio.Event()
    gateway.upstream.plays.clear()
    gateway.upstream.play(gate, *TEXT)
    made = await client.responses.create(model="m", input="hi", background=True)
    assert made.status == "queued"
    assert (await client.responses.cancel(made.id)).status == "cancelled"
    assert (await client.responses.cancel(made.id)).status == "cancelled"


async def test_errors_have_their_class_and_fields(client: AsyncOpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="m", input="x", previous_response_id="resp_x")
    assert (refused.value.code, refused.value.param) == (
        "previous_response_not_found",
        "previous_response_id",
    )
    with pytest.raises(openai.NotFoundError) as missing:
        await client.responses.retrieve("resp_unknown")
    assert missing.value.type == "invalid_request_error"
    assert missing.value.request_id
