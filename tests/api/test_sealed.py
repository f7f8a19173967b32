"""Everything that can be asked of a finished response, before, while and after it is sealed, from two replicas."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams.store import Store
from tests.api.gateway import Gateway, running
from tests.ingest.server import event, text_stream
from tests.workers.team import seal
from tests.workers.tools.search_server import searching
from tests.workers.tools.test_role import working

TEXT = text_stream("a", "b", "c", "d")
PAGE = {"title": "A page", "url": "https://a.test/", "content": "what the search found"}


def call_stream(name: str, arguments: str) -> list[bytes]:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name}
    done = {**item, "arguments": arguments, "status": "completed"}
    response = {"id": "resp_up", "status": "completed", "output": [done]}
    return [
        event("response.created", response={**response, "status": "in_progress", "output": []}),
        event("response.output_item.added", output_index=0, item={**item, "arguments": ""}),
        event("response.output_item.done", output_index=0, item=done),
        event("response.completed", response=response),
    ]


@pytest.fixture
async def replicas(store, store_url, namespace, upstream) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two api processes; one of them brings the runners."""
    tools = {"gateway_tools": frozenset({"web_search"})}
    async with (
        Store.open(store_url, namespace) as second,
        running(store, upstream, **tools) as one,
        running(second, upstream, roles=False, **tools) as other,
    ):
        yield one, other


async def answers(gateway: Gateway, rid: str) -> list[tuple[int, bytes]]:
    """What every route that reads says of a response."""
    frames = (await gateway.get(rid, "?stream=true")).frames
    last = len(frames) - 2  # [DONE] is no event
    queries = ["", "/input_items", "/input_items?order=asc&limit=1", "?stream=true&sse_ids=true"]
    queries += [f"?stream=true&starting_after={after}" for after in range(last + 2)]
    replies = [await gateway.get(rid, query) for query in queries]
    for after in range(last + 1):
        headers = {"Last-Event-ID": str(after)}
        replies.append(await gateway.get(rid, "?stream=true", headers=headers))
    replies.append(await gateway.ask("POST", f"/v1/responses/{rid}/cancel"))
    return [(reply.status, reply.body) for reply in replies]


async def test_every_answer_is_the_same_before_and_after(replicas, upstream):
    upstream.play(*TEXT)
    one, other = replicas
    rid = (await one.made(background=True, input="say it"))["id"]
    await one.until(rid, "completed")
    before = await answers(one, rid)
    assert {status for status, _ in before} == {200, 400, 204}
    assert await answers(other, rid) == before
    await seal(one.store, rid)
    assert {key.rpartition(b":")[2] for key in await one.keys(rid)} == {b"st", b"seal"}
    for replica in (one, other):
        assert await answers(replica, rid) == before


async def test_answers_that_are_asked_for_meanwhile_are_the_same_too(replicas, upstream):
    upstream.play(*TEXT)
    one, other = replicas
    rid = (await one.made(background=True))["id"]
    await one.until(rid, "completed")
    before = await answers(one, rid)
    asking = [asyncio.create_task(answers(replica, rid)) for replica in (one, other) * 3]
    await asyncio.sleep(0)
    await seal(one.store, rid)
    assert [await task for task in asking] == [before] * 6


async def test_a_stream_that_is_half_way_ends_as_it_would_have(replicas, upstream, monkeypatch):
    """Its client has had some frames from the log; the rest comes from the seal."""
    upstream.play(
        *text_stream(*["a", "few", "more", "words", "than", "one", "page", "of", "frames", "holds"])
    )
    one, other = replicas
    rid = (await one.made())["id"]
    whole = (await one.get(rid, "?stream=true")).body
    monkeypatch.setattr("streams.logs.LONG_PAGE", 3)
    read, gate, waiting = other.store.logs.read_on, asyncio.Event(), asyncio.Event()

    async def slow(rid: str, page: Any, after: int) -> Any:
        if after > 5:
            waiting.set()
            await gate.wait()
        return await read(rid, page, after)

    monkeypatch.setattr(other.store.logs, "read_on", slow)
    monkeypatch.setattr("streams.feed.Feed.take", lambda *_: [])
    async with other.live("GET", f"/v1/responses/{rid}?stream=true") as live:
        await waiting.wait()
        await seal(one.store, rid)
        gate.set()
        await live.rest()
    assert live.body == whole


async def test_a_next_turn_knows_what_a_sealed_one_said_and_what_its_calls_gave(replicas, upstream):
    one, other = replicas
    async with searching() as engine, working(one.store, engine=engine):
        engine.hits = [PAGE]
        for steps in (call_stream("web_search", '{"query":"q"}'), TEXT, TEXT):
            upstream.play(*steps)
        first = await one.made(input="look", tools=[{"type": "web_search"}])
        search, said = first["output"]
        assert search["type"] == "web_search_call"
        asked: list[dict[str, Any]] = [
            {"input": "and?", "previous_response_id": first["id"]},
            {"input": [search, {"type": "item_reference", "id": said["id"]}, user("and?")]},
        ]
        before = [await sent(one, body) for body in asked]
        assert b"what the search found" in json.dumps(before[0]).encode()
        await seal(one.store, first["id"])
        for replica in (one, other):
            assert [await sent(replica, body) for body in asked] == before


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def sent(gateway: Gateway, body: dict[str, Any]) -> Any:
    """The conversation that the model is told, but for the id that this turn's own message gets."""
    reply = await gateway.create(**body)
    assert reply.status == 200, reply.body
    told = json.loads(gateway.upstream.requests[-1].body)["input"]
    del told[-1]["id"]
    return told


async def test_a_delete_leaves_nothing_of_a_sealed_response(replicas, upstream):
    upstream.play(*TEXT)
    one, other = replicas
    rid = (await one.made())["id"]
    await seal(one.store, rid)
    assert (await other.get(rid, "?stream=true")).status == 200
    assert (await one.ask("DELETE", f"/v1/responses/{rid}")).status == 200
    assert await one.keys(rid) == []
    for replica in (one, other):
        for query in ("", "?stream=true", "?stream=true&starting_after=2", "/input_items"):
            assert (await replica.get(rid, query)).status == 404


async def test_a_damaged_seal_says_that_the_events_are_lost(replicas, upstream):
    upstream.play(*TEXT)
    one, _ = replicas
    rid = (await one.made())["id"]
    await seal(one.store, rid)
    await one.store.connections.command("SETRANGE", one.store.keys.seal(rid), 60, b"?" * 20)
    for query in ("", "?stream=true", "/input_items"):
        reply = await one.get(rid, query)
        assert (reply.status, reply.error["code"]) == (410, "events_lost")
    reply = await one.create(previous_response_id=rid)
    assert (reply.status, reply.error["param"]) == (400, "previous_response_id")
