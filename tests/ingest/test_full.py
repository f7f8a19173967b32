"""A store that has no memory left for what an upstream says: the round ends in the log, and says why."""

import asyncio

import pytest

from ingest.upstream import UpstreamClient
from tests.ingest.made import entries, made
from tests.ingest.server import Server, text_stream
from tests.ingest.test_run import Runner, end_of
from tests.servers import serving
from tests.wait import wait_until

TEXT = text_stream("a", "b")


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path / "server") as one:
        yield one


@pytest.fixture
def store_url(served) -> str:
    return served.url


@pytest.mark.parametrize("rest", [TEXT[4:5], TEXT[4:]], ids=["in the middle", "with its end"])
async def test_a_round_ends_although_the_store_is_full(store, served, server: Server, rest):
    """Whether the upstream goes on, or has said its last word in the batch that is refused."""
    gate = asyncio.Event()
    server.play(*TEXT[:4], gate, b"".join(rest), *([asyncio.Event()] if rest != TEXT[4:] else []))
    rid = await made(store)

    async def begun() -> bool:
        return len(await entries(store, rid)) == 8  # request, round, attempt, opened, frames

    async with UpstreamClient() as client:
        running = asyncio.ensure_future(Runner(store, client, server).run(rid))
        await wait_until(begun)
        served.ask("CONFIG", "SET", "maxmemory", "100kb")
        gate.set()
        log = await asyncio.wait_for(running, 5)
    assert [kind for kind, _ in log] == ["attempt", "opened", *["frame"] * 4, "round_end"]
    end = end_of(log)
    assert end["error"]["code"] == "store_full"
    assert end["error"]["message"] == "The store of this gateway is full."
    served.ask("CONFIG", "SET", "maxmemory", "0")
