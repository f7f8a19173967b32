import asyncio

import pytest

from api.delete import remove
from tests.api.gateway import DONE, Gateway, data_of
from tests.ingest.server import text_stream
from translator.protocol.errors import StoreError

TEXT = text_stream("a", "b")


async def test_a_deleted_response_is_gone_from_every_route(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made())["id"]
    reply = await gateway.ask("DELETE", f"/v1/responses/{rid}", headers={"accept": "*/*"})
    assert reply.json == {"id": rid, "object": "response", "deleted": True}
    assert await gateway.keys(rid) == []
    for method, path in (
        ("GET", ""),
        ("GET", "?stream=true"),
        ("GET", "/input_items"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ):
        again = await gateway.ask(method, f"/v1/responses/{rid}{path}")
        assert again.status == 404, (method, path)
    assert (await gateway.create(previous_response_id=rid)).error[
        "code"
    ] == "previous_response_not_found"
    assert await gateway.store.connections.command("ZSCORE", gateway.store.keys.due, rid) is None


async def test_what_is_not_there_may_be_removed_and_trouble_is_told(gateway: Gateway):
    gateway.upstream.play(*TEXT)
    rid = (await gateway.made())["id"]
    await asyncio.gather(*(remove(gateway.store, rid) for _ in range(3)))
    key, command = gateway.store.keys.state(rid), gateway.store.connections.command
    await command("SET", key, "x", "PX", 60_000)
    with pytest.raises(StoreError):
        await remove(gateway.store, rid)


async def test_a_running_response_is_stopped_and_its_readers_are_told(gateway: Gateway):
    gate = asyncio.Event()
    gateway.upstream.play(*TEXT[:4], gate)
    async with gateway.creating(stream=True, background=True) as live:
        await live.until(b'"delta":"a"')
        reply = await gateway.ask("DELETE", f"/v1/responses/{live.rid}")
        assert reply.json["deleted"] is True
        *_, error, done = await live.rest()
        assert data_of(error)["type"] == "error"
        assert done == DONE
    await asyncio.wait_for(gateway.upstream.requests[0].left.wait(), 2)
    assert await gateway.keys(live.rid) == []
