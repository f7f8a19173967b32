import asyncio
import json

import pytest

from tests.api.gateway import Gateway
from tests.ingest.server import End, text_stream

TEXT = text_stream("answer")


async def test_the_next_turn_brings_earlier_input_and_output_in_order(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    first = await gateway.made(input="one", instructions="be brief")
    second = await gateway.made(input="two", previous_response_id=first["id"])
    await gateway.made(input="three", previous_response_id=second["id"])
    sent = json.loads(gateway.upstream.requests[-1].body)
    said = [item["content"][0]["text"] for item in sent["input"]]
    assert said == ["one", "answer", "two", "answer", "three"]
    assert "instructions" not in sent
    assert "previous_response_id" not in sent
    assert sent["store"] is False
    assert second["previous_response_id"] == first["id"]


@pytest.mark.parametrize("unknown", ["resp_missing", "resp_" + "0" * 32, "x:{y}:st", ""])
async def test_an_unknown_previous_response_is_a_400_of_its_own(gateway: Gateway, unknown):
    reply = await gateway.create(previous_response_id=unknown)
    assert reply.status == 400
    if unknown:
        assert reply.error["code"] == "previous_response_not_found"
    assert reply.error["param"] == "previous_response_id"
    assert gateway.upstream.requests == []


async def test_what_was_not_stored_cannot_be_continued(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made(store=False))["id"]
    reply = await gateway.create(previous_response_id=rid)
    assert (reply.status, reply.error["code"]) == (400, "previous_response_not_found")


async def test_a_turn_that_is_running_failed_or_cancelled_cannot_be_continued(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], End.CUT)
    gateway.upstream.play(gate)
    failed = await gateway.made()
    running = await gateway.made(background=True)
    for rid, statuses in (
        (failed["id"], {"failed"}),
        (running["id"], {"queued", "in_progress"}),
    ):
        reply = await gateway.create(previous_response_id=rid)
        assert (reply.status, reply.error["param"]) == (400, "previous_response_id")
        assert reply.error["code"] is None
        assert any(status in reply.error["message"] for status in statuses)
    await gateway.ask("POST", f"/v1/responses/{running['id']}/cancel")
    reply = await gateway.create(previous_response_id=running["id"])
    assert (reply.status, "cancelled" in reply.error["message"]) == (400, True)


async def test_a_turn_whose_log_is_lost_cannot_be_continued(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made())["id"]
    keys, command = gateway.store.keys, gateway.store.connections.command
    await command("DEL", keys.output(rid))
    reply = await gateway.create(previous_response_id=rid)
    assert (reply.status, reply.error["param"]) == (400, "previous_response_id")
    await command("DEL", keys.input(rid))
    reply = await gateway.create(previous_response_id=rid)
    assert reply.error["code"] == "previous_response_not_found"
