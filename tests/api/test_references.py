"""Items that are only named: the AI SDK refers to earlier text and reasoning by id, without a chain."""

import json
from typing import Any

from tests.api.gateway import Gateway
from tests.ingest.server import text_stream


async def turn(gateway: Gateway, *input_items: Any, **fields: Any) -> Any:
    return await gateway.create(input=list(input_items), **fields)


USER = {"role": "user", "content": "and now?"}


async def test_a_reference_is_replaced_by_the_item_it_names(gateway: Gateway):
    gateway.upstream.play(*text_stream("Hello"))
    first = await gateway.made()
    said = first["output"][0]
    reply = await turn(gateway, {"type": "item_reference", "id": said["id"]}, USER)
    assert reply.status == 200, reply.body
    sent = json.loads(gateway.upstream.requests[-1].body)["input"]
    assert [item["role"] for item in sent] == ["assistant", "user"]
    listed = (await gateway.get(reply.json["id"], "/input_items?order=asc")).json["data"]
    assert listed[0]["content"][0]["text"] == "Hello"


async def test_an_input_item_can_be_referred_to_as_well(gateway: Gateway):
    gateway.upstream.play(*text_stream("Hello"))
    first = await gateway.made(input="remember me")
    (item,) = (await gateway.get(first["id"], "/input_items")).json["data"]
    reply = await turn(gateway, {"id": item["id"]}, USER)
    assert reply.status == 200, reply.body
    assert b"remember me" in gateway.upstream.requests[-1].body


async def test_a_reference_into_the_chain_adds_nothing(gateway: Gateway):
    gateway.upstream.play(*text_stream("Hello"))
    first = await gateway.made()
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    reply = await turn(gateway, reference, USER, previous_response_id=first["id"])
    assert reply.status == 200, reply.body
    assert gateway.upstream.requests[-1].body.count(b"Hello") == 1


async def test_what_cannot_be_found_or_is_not_ones_own_is_refused_alike(gateway: Gateway):
    gateway.upstream.play(*text_stream("Hello"))
    unstored = await gateway.made(store=False)
    stored = await gateway.made()
    foreign = f"msg_{'a' * 48}"
    swapped = stored["output"][0]["id"][:-1] + "z"
    messages = set()
    for ident in ("msg_whatever", foreign, unstored["output"][0]["id"], swapped):
        reply = await turn(gateway, {"type": "item_reference", "id": ident}, USER)
        assert reply.status == 400
        assert reply.error["param"] == "input[0].id"
        messages.add(reply.error["message"])
    assert len(messages) == 1


async def test_references_into_too_many_responses_are_refused_before_anything_is_read(
    gateway: Gateway,
):
    references = [
        {"type": "item_reference", "id": f"msg_{number:048x}"}
        for number in range(1 << 64, (1 << 64) * 66, 1 << 64)
    ]
    reply = await turn(gateway, *references, USER)
    assert reply.status == 400
    assert "64 responses" in reply.error["message"]
