"""A create that is repeated with its Idempotency-Key joins the response of the first."""

import asyncio
from typing import Any

import pytest

from api.delete import remove
from api.idempotency import MAX_CHARS
from streams import metrics
from streams.scripts.idempotency import bind
from streams.store import Store
from tests.api.gateway import DONE, Gateway, Reply, data_of, running
from tests.ingest.server import End, Play, text_stream
from tests.streams.proxy import proxied
from tests.wait import wait_until


async def create(gateway: Gateway, key: str = "k-1", headers: Any = (), **fields: Any) -> Reply:
    body = {"model": "m", "input": "hi", **fields}
    asked = {"Idempotency-Key": key, **dict(headers)}
    return await gateway.ask("POST", "/v1/responses", body, headers=asked)


def requests_of(gateway: Gateway) -> int:
    return len(gateway.upstream.requests)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_repeat_gets_the_same_response_and_the_model_is_asked_once(
    gateway: Gateway, stream: bool
) -> None:
    gateway.upstream.play(*text_stream("a"))
    first = await create(gateway, stream=stream)
    again = await create(gateway, stream=stream)
    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    assert requests_of(gateway) == 1


async def test_repeats_that_come_at_once_are_one_response(gateway: Gateway) -> None:
    gateway.upstream.play(*text_stream("a"))
    replies = await asyncio.gather(*(create(gateway, stream=True) for _ in range(8)))
    assert {reply.body for reply in replies} == {replies[0].body}
    assert replies[0].frames[-1] == DONE
    assert requests_of(gateway) == 1


async def test_a_repeat_joins_a_response_that_runs(gateway: Gateway) -> None:
    gateway.upstream.play(*text_stream("a", "b")[:4], End.HANG)
    body = {"model": "m", "input": "hi", "stream": True}
    headers = {"Idempotency-Key": "k"}
    async with (
        gateway.live("POST", "/v1/responses", body, headers=headers) as one,
        gateway.live("POST", "/v1/responses", body, headers=headers) as other,
    ):
        await one.until(b"output_text.delta")
        await other.until(b"output_text.delta")
        assert one.rid == other.rid
    assert requests_of(gateway) == 1


async def test_a_repeated_background_create_tells_how_far_it_is(gateway: Gateway) -> None:
    gateway.upstream.play(*text_stream("a"))
    first = (await create(gateway, background=True)).json
    assert first["status"] == "queued"
    await gateway.until(first["id"], "completed")
    again = (await create(gateway, background=True)).json
    assert (again["id"], again["status"]) == (first["id"], "completed")


async def test_another_body_under_the_key_is_refused(gateway: Gateway) -> None:
    gateway.upstream.play(*text_stream("a"))
    assert (await create(gateway)).status == 200
    reply = await create(gateway, input="else")
    assert reply.status == 400
    assert reply.error["code"] == "idempotency_key_reused"
    assert "k-1" not in reply.error["message"]
    assert requests_of(gateway) == 1


async def test_without_a_key_nothing_is_joined(gateway: Gateway) -> None:
    gateway.upstream.play(*text_stream("a"))
    one, other = await gateway.create(), await gateway.create()
    assert one.json["id"] != other.json["id"]


@pytest.mark.parametrize("key", ["", "x" * (MAX_CHARS + 1)])
async def test_a_key_that_is_none_is_refused(gateway: Gateway, key: str) -> None:
    assert (await create(gateway, key=key)).status == 400


async def test_a_request_that_is_refused_leaves_its_key_free(gateway: Gateway) -> None:
    gateway.upstream.play(*text_stream("a"))
    shell = [{"type": "shell"}]
    assert (await create(gateway, tools=shell)).status == 400
    assert (await create(gateway)).status == 200


async def test_what_the_upstream_refused_may_be_tried_again(gateway: Gateway) -> None:
    gateway.upstream.play(b'{"error": {"message": "slow down"}}', status="429 Too Many Requests")
    gateway.upstream.play(*text_stream("a"))
    assert (await create(gateway)).status == 429
    assert (await create(gateway)).status == 200
    assert requests_of(gateway) == 2


REFUSED = b'{"error": {"message": "slow down"}}'


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("stored", [True, False])
async def test_what_the_upstream_refused_is_refused_to_all_who_wait_for_it(
    store, namespace, valkey_url, upstream, *, stream: bool, stored: bool
) -> None:
    """In whichever process: the response goes when the first of them has heard."""
    gate, joined = asyncio.Event(), metrics.value("responses_joined_total")
    upstream.play(gate, REFUSED, status="429 Too Many Requests", headers={"retry-after": "7"})
    async with (
        proxied(valkey_url) as (proxy, url),
        Store.open(url, namespace) as second,
        running(store, upstream) as one,
        running(second, upstream, roles=False) as other,
    ):
        asking = [
            asyncio.ensure_future(create(gateway, stream=stream, store=stored))
            for gateway in (one, other) * 4
        ]
        await wait_until(lambda: metrics.value("responses_joined_total") == joined + 7)
        proxy.held = (await one.only()).encode()  # the others look when it is gone
        gate.set()
        await asyncio.gather(*asking[::2])
        proxy.held = b""
        replies = await asyncio.gather(*asking)
        said = {(r.status, r.error["message"], r.headers.get("retry-after")) for r in replies}
        assert said == {(429, "slow down", "7")}
        assert not {r.headers.get("x-should-retry") for r in replies} - {None}
        assert requests_of(one) == 1
        upstream.plays[:] = [Play(list(text_stream("a")))]
        assert (await create(other, stream=stream, store=stored)).status == 200


async def test_a_refusal_says_nothing_of_a_later_run_under_its_key(
    gateway: Gateway, store_url, namespace
) -> None:
    gate = asyncio.Event()
    gateway.upstream.play(REFUSED, status="429 Too Many Requests")
    gateway.upstream.play(*text_stream("a")[:4], gate)
    assert (await create(gateway)).status == 429
    asking = asyncio.ensure_future(create(gateway))
    await wait_until(lambda: requests_of(gateway) == 2)
    rid = await gateway.only()
    async with Store.open(store_url, namespace) as elsewhere:
        await remove(elsewhere, rid)
    reply = await asking
    assert (reply.status, reply.error["code"]) == (500, "response_lost")


async def test_a_key_whose_response_was_never_made_makes_it_under_the_same_id(
    gateway: Gateway,
) -> None:
    gateway.upstream.play(*text_stream("a"))
    first = await create(gateway)
    rid = first.json["id"]
    await gateway.ask("DELETE", f"/v1/responses/{rid}")
    replies = await asyncio.gather(*(create(gateway) for _ in range(4)))
    assert {reply.json["id"] for reply in replies} == {rid}
    assert requests_of(gateway) == 2


@pytest.mark.parametrize("stream", [True, False])
async def test_who_left_an_unstored_response_and_comes_again_gets_a_run_of_its_own(
    gateway: Gateway, stream: bool, caplog
) -> None:
    """As an SDK does whose patience ends: the run that it left was cancelled with it."""
    caplog.set_level("INFO")
    gateway.upstream.play(*text_stream("a")[:4], asyncio.Event())
    gateway.upstream.play(*text_stream("b"))
    asking = asyncio.create_task(create(gateway, store=False, stream=stream))
    await wait_until(lambda: gateway.upstream.requests)
    asking.cancel()
    await asyncio.wait_for(gateway.upstream.requests[0].left.wait(), 2)
    again = await create(gateway, store=False, stream=stream)
    response = data_of(again.frames[-2])["response"] if stream else again.json
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "b"
    assert requests_of(gateway) == 2
    began = [line.split()[-1] for line in caplog.messages if " began " in line]
    assert len(set(began)) == 2, "nothing of the first run may come into the second"


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_an_unstored_response_does_not_end_it_for_the_others(
    store, store_url, namespace, upstream, *, stream: bool
) -> None:
    """As where a proxy asks again for a client whose first connection it gives up."""
    gate, joined = asyncio.Event(), metrics.value("responses_joined_total")
    upstream.play(*text_stream("a")[:4], gate, *text_stream("a")[4:])
    async with (
        Store.open(store_url, namespace) as second,
        running(store, upstream) as one,
        running(second, upstream, roles=False) as other,
    ):
        leaving = asyncio.create_task(create(one, store=False, stream=stream))
        await wait_until(lambda: upstream.requests)
        rid = await one.only()
        asking = [
            asyncio.ensure_future(create(gateway, store=False, stream=stream))
            for gateway in (one, other)
        ]
        await wait_until(lambda: metrics.value("responses_joined_total") == joined + 2)
        await wait_until(lambda: are_reading(store, rid, 3))
        leaving.cancel()
        await wait_until(lambda: are_reading(store, rid, 2))
        gate.set()
        for reply in await asyncio.gather(*asking):
            response = data_of(reply.frames[-2])["response"] if stream else reply.json
            assert response["status"] == "completed"
        assert requests_of(one) == 1


async def are_reading(store: Store, rid: str, count: int) -> bool:
    readers = await store.connections.command("HGET", store.keys.state(rid), "readers")
    return len(readers.split(b",")) == count


async def test_each_tenant_has_its_own_keys(store, upstream) -> None:
    keys = {"key-a": "a", "key-b": "b"}
    upstream.play(*text_stream("a"))
    async with running(store, upstream, api_keys=keys) as gateway:
        one = await create(gateway, headers={"authorization": "Bearer key-a"})
        other = await create(gateway, headers={"authorization": "Bearer key-b"}, input="else")
        assert (one.status, other.status) == (200, 200)
        assert one.json["id"] != other.json["id"]


async def test_a_key_lives_as_long_as_its_response_may(gateway: Gateway) -> None:
    gateway.upstream.play(*text_stream("a"))
    await create(gateway)
    (key,) = await gateway.store.connections.command("KEYS", f"{gateway.store.keys.ns}:idem:*")
    settings = gateway.context.settings
    left_ms = await gateway.store.connections.command("PTTL", key)
    assert 0 < left_ms <= (settings.max_run_s + settings.retention_s) * 1000
    assert b"k-1" not in key


async def test_two_that_bind_a_key_agree(store) -> None:
    def binding(rid: str, digest: str) -> Any:
        return store.writer.do(bind(store.keys, "t", "k", rid=rid, digest=digest, ttl_ms=60_000))

    first, second = await asyncio.gather(binding("resp_a", "d1"), binding("resp_b", "d2"))
    assert first == second
    assert (first.rid, first.digest) in {("resp_a", "d1"), ("resp_b", "d2")}
