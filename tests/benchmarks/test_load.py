"""Upstreams that do not do what they should: nothing of it is left uncounted, and nobody waits for ever."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from benchmarks import load as loads
from benchmarks.load import Load, Way, run

pytestmark = pytest.mark.anyio
LOAD = Load(2, 3, 0)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy"


def delta(stamp):
    return b'data: {"type":"x","delta":"t=%d;"}\n\n' % stamp


@asynccontextmanager
async def saying(*pieces, closing=True):
    """A server that says these to everybody."""
    over = asyncio.Event()

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
        if not closing:
            await over.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        try:
            yield [f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"]
        finally:
            over.set()


async def test_frames_that_come_are_counted_wherever_they_are_cut():
    whole = b"".join(map(delta, (1, 2, 3)))
    async with saying(HEAD, whole[:50], whole[50:]) as bases:
        figures = await run(bases, LOAD)
    assert (figures.frames, figures.faults()) == (6, [])


async def test_a_frame_that_is_missing_or_comes_twice_is_a_fault():
    async with saying(HEAD, *map(delta, (1, 3, 3))) as bases:
        figures = await run(bases, LOAD)
    assert figures.faults() == ["2 frames lost", "2 frames repeated"]


async def test_a_stream_without_what_it_must_have_is_a_fault():
    async with saying(HEAD, *map(delta, (1, 2, 3))) as bases:
        figures = await run(bases, replace(LOAD, expects=b"event: of ours\n"))
    assert len(figures.errors) == 2


@pytest.mark.parametrize("way", Way)
async def test_refusals_and_broken_connections_lose_every_frame(way):
    load = replace(LOAD, way=way)
    for said in ((REFUSED,), ()):
        async with saying(*said) as bases:
            figures = await run(bases, load, rid="resp_1")
        assert figures.lost == 6
        assert len(figures.errors) == 2


async def test_what_takes_too_long_is_given_up_and_counts_as_lost(monkeypatch):
    monkeypatch.setattr(loads, "LONGEST_S", 0.1)
    async with saying(HEAD, delta(1), closing=False) as bases:
        figures = await run(bases, LOAD)
    assert figures.faults()[0] == "6 frames lost"
    assert "given up" in figures.errors[0]
