"""A response that is deleted between two steps of a request that has found it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass

import pytest

from api.delete import remove
from streams.scripts.call import Script
from streams.scripts.inputs import READ as READ_INPUT
from streams.scripts.outputs import LAST
from streams.scripts.sealing import READ as READ_SEAL
from streams.store import Store
from tests.api.gateway import Gateway, Reply, running
from tests.ingest.server import Server, text_stream
from tests.streams.proxy import Proxy, proxied
from tests.wait import wait_until
from tests.workers.team import seal

LAST_STEPS = pytest.mark.parametrize("step", [LAST, READ_SEAL], ids=["as they are", "packed"])
"""What reads the last frame: of logs as they are, and of packed ones."""


@dataclass
class Deleting:
    """A gateway, what stands between it and its store, and another process's store."""

    gateway: Gateway
    proxy: Proxy
    elsewhere: Store

    async def finished(self, *, packed: bool) -> str:
        """A background response that has ended."""
        self.gateway.upstream.play(*text_stream("a"))
        rid: str = (await self.gateway.made(background=True))["id"]
        await self.gateway.until(rid, "completed")
        if packed:
            await seal(self.gateway.store, rid)
        return rid

    async def before(self, step: Script, rid: str, asking: Awaitable[Reply]) -> Reply:
        """The answer to a request, whose response is deleted just before it takes this step."""
        sha = step.sha.encode()
        self.proxy.seen, self.proxy.held = b"", sha
        asked = asyncio.ensure_future(asking)
        await wait_until(lambda: sha in self.proxy.seen)
        await remove(self.elsewhere, rid)
        self.proxy.held = b""
        return await asked


@pytest.fixture
def roles() -> bool:
    """Whether anybody works on what is created."""
    return True


@pytest.fixture
async def scene(
    valkey_url: str, upstream: Server, aside: str, *, roles: bool
) -> AsyncIterator[Deleting]:
    async with (
        proxied(valkey_url) as (proxy, url),
        Store.open(url, aside) as store,
        Store.open(valkey_url, aside) as elsewhere,
        running(store, upstream, roles=roles) as gateway,
    ):
        yield Deleting(gateway, proxy, elsewhere)


@LAST_STEPS
@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/cancel")])
async def test_whoever_asks_for_it_is_told_that_there_is_none(scene, step, method, path):
    rid = await scene.finished(packed=step is READ_SEAL)
    asking = scene.gateway.ask(method, f"/v1/responses/{rid}{path}")
    reply = await scene.before(step, rid, asking)
    assert (reply.status, reply.error["code"]) == (404, None)


@pytest.mark.parametrize("roles", [False])
async def test_so_is_who_asks_for_one_that_has_not_begun(scene):
    rid = (await scene.gateway.made(background=True))["id"]
    reply = await scene.before(READ_INPUT, rid, scene.gateway.get(rid))
    assert (reply.status, reply.error["code"]) == (404, None)


@LAST_STEPS
async def test_whoever_continues_it_is_told_that_there_is_none(scene, step):
    rid = await scene.finished(packed=step is READ_SEAL)
    asking = scene.gateway.create(previous_response_id=rid)
    reply = await scene.before(step, rid, asking)
    assert (reply.status, reply.error["code"]) == (400, "previous_response_not_found")
    assert reply.error["param"] == "previous_response_id"


@LAST_STEPS
async def test_whoever_refers_to_its_items_is_told_which(scene, step):
    rid = await scene.finished(packed=False)
    (item,) = (await scene.gateway.get(rid)).json["output"]
    if step is READ_SEAL:
        await seal(scene.gateway.store, rid)
    naming = {"type": "item_reference", "id": item["id"]}
    reply = await scene.before(step, rid, scene.gateway.create(input=[naming]))
    assert (reply.status, reply.error["param"]) == (400, "input[0].id")


@LAST_STEPS
async def test_whoever_repeats_its_create_makes_it_anew(scene, step):
    scene.gateway.upstream.play(*text_stream("a"))
    body = {"model": "m", "input": "hi", "background": True}
    key = {"Idempotency-Key": "k"}
    first = await scene.gateway.ask("POST", "/v1/responses", body, headers=key)
    rid = first.json["id"]
    await scene.gateway.until(rid, "completed")
    if step is READ_SEAL:
        await seal(scene.gateway.store, rid)
    asking = scene.gateway.ask("POST", "/v1/responses", body, headers=key)
    reply = await scene.before(step, rid, asking)
    assert (reply.status, reply.json["status"]) == (200, "queued")
