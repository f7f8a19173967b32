"""Bounds of one response, met through HTTP: it ends, alone, with a word that says why, and its neighbour does not notice."""

import asyncio
import resource
import secrets
import socket
import time
from pathlib import Path

import pytest

from streams.store import Store
from tests.api.gateway import DONE, Gateway, data_of, running
from tests.ingest.server import End, Server, event, text_stream
from workers.sweep import Sweeper

ROOM = {"max_rounds": 10, "max_attempts": 2}


def delta(text: str) -> bytes:
    at = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
    return event("response.output_text.delta", delta=text, logprobs=[], **at)


async def fails(gateway: Gateway, words: str) -> dict:
    """A stream that ends as failed; the next one is served."""
    reply = await gateway.create(stream=True)
    assert reply.status == 200
    *_, last, done = reply.frames
    assert done == DONE
    response = data_of(last)["response"]
    assert response["status"] == "failed"
    assert words in response["error"]["message"]
    assert response["error"]["code"] == "server_error"
    assert (await gateway.get(response["id"])).json == response
    gateway.upstream.plays[:] = []
    gateway.upstream.play(*text_stream("fine"))
    assert (await gateway.made())["status"] == "completed"
    return response


async def test_an_upstream_without_end_meets_the_bound_of_the_input_log(store, upstream: Server):
    # Nothing of it is public, so it is the input log that fills.
    noise = event("response.in_progress", response={"id": "x", "padding": "x" * 900})
    upstream.play(*text_stream("a")[:3], *[noise] * 200, End.HANG)
    async with running(store, upstream, limits=ROOM | {"max_response_bytes": 60_000}) as gateway:
        response = await fails(gateway, "larger than this gateway stores")
        log = await gateway.store.logs.state(response["id"])
        assert log is not None
        assert log.in_bytes < 64_000


async def test_what_the_client_gets_has_the_same_bound(store, upstream: Server):
    # A public frame is longer than the upstream's own, so it is the output log that fills.
    upstream.play(*text_stream("a")[:3], *[delta("x")] * 400, End.HANG)
    limits = ROOM | {"max_response_bytes": 60_000}
    async with running(store, upstream, limits=limits) as gateway:
        await fails(gateway, "larger than")


async def test_tiny_frames_are_counted(store, upstream: Server):
    upstream.play(*text_stream("a")[:3], b"data: {}\n\n" * 1_000, End.HANG)
    async with running(store, upstream, max_frames=300) as gateway:
        response = await fails(gateway, "more events than one response may hold")
        log = await gateway.store.logs.state(response["id"])
        assert log is not None
        assert log.last <= 301


async def test_one_frame_has_a_bound(store, upstream: Server, monkeypatch):
    monkeypatch.setattr("translator.protocol.sse.Blocks.__init__.__defaults__", (10_000,))
    upstream.play(*text_stream("a")[:4], b"data: " + b"x" * 20_000, End.HANG)
    async with running(store, upstream) as gateway:
        await fails(gateway, "bytes")


async def test_a_run_has_a_bound(store, upstream: Server):
    upstream.play(*text_stream("a")[:4], End.HANG)
    async with running(store, upstream, max_run_s=0.2) as gateway:
        sweeper = asyncio.create_task(Sweeper(store, lease_ms=100).run())
        try:
            await fails(gateway, "longer than a run may")
        finally:
            sweeper.cancel()
            await asyncio.gather(sweeper, return_exceptions=True)


STALLED = 500
BURST = [delta(f"{n:05d}" + "x" * 1_000) for n in range(2_000)]
"""2.5 MB as public frames: many times what waits on the way to a client that does not read."""


def resident() -> int:
    """Bytes of memory that this process holds (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def stall(gateway: Gateway, path: str) -> socket.socket:
    """A client that asks for a stream, reads its status, and never reads again."""
    loop = asyncio.get_running_loop()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setblocking(False)
    await loop.sock_connect(client, ("127.0.0.1", int(gateway.url.rpartition(":")[2])))
    await loop.sock_sendall(client, f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    assert b" 200 " in await loop.sock_recv(client, 16)
    return client


async def read_a_burst(gateway: Gateway, stalled: int) -> tuple[float, int]:
    """This process's time until one client has the whole stream, and the memory that it took, beside some that stall.

    Its own time: what other programs take of the machine is no delay of ours.
    """
    gate = asyncio.Event()
    gateway.upstream.plays[:] = []
    gateway.upstream.play(*text_stream("a")[:3], gate, *BURST, End.CLEAN)
    path = f"/v1/responses/{(await gateway.made(background=True))['id']}?stream=true"
    clients: list[socket.socket] = []
    try:
        clients += [await stall(gateway, path) for _ in range(stalled)]
        async with gateway.live("GET", path) as live:
            await live.until(b"response.in_progress")
            held, began = resident(), time.process_time()
            gate.set()
            frames = await live.rest()
            took_s, grown = time.process_time() - began, resident() - held
    finally:
        for client in clients:
            client.close()
    assert sum(b"response.output_text.delta" in frame for frame in frames) == len(BURST)
    return took_s, grown


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(90)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
async def test_500_readers_that_stall_cost_bounded_memory_and_delay_nobody(valkey_url, upstream):
    """A reader is a cursor into the log, not a queue: what nobody takes is read from the log by nobody."""
    async with (
        Store.open(valkey_url, f"stalled-{secrets.token_hex(4)}") as store,
        running(store, upstream, max_in_flight=STALLED + 10, patience_s=60) as gateway,
    ):
        alone_s, _ = await read_a_burst(gateway, 0)
        beside_s, grown = await read_a_burst(gateway, STALLED)
        # In queues it would be 1.2 GB, in pages of the log half a GB. What waits for each is a batch or two (64 KiB each).
        assert grown < STALLED * 300_000
        # Each of them is served once, until its socket is full; after that it costs nothing.
        assert beside_s < alone_s + 5
