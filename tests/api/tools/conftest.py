import functools
from collections.abc import AsyncIterator

import pytest

from streams.store import Store
from tests.api.tools.model import Api
from tests.api.tools.rig import Equip, Rig, equipped
from tests.api.tools.ways import WAYS, Way
from tests.ingest.server import Server
from tests.stores import url_of
from tests.workers.tools import mcp_server, search_server
from workers.tools.session import loaded


@pytest.fixture
async def mcp() -> AsyncIterator[mcp_server.Tools]:
    """An MCP server that lists all it can do."""
    await loaded()
    async with mcp_server.serving() as tools:
        tools.names = [name.removeprefix("do_") for name in dir(tools) if name.startswith("do_")]
        tools.names.remove("page_1")
        yield tools


@pytest.fixture
async def engine() -> AsyncIterator[search_server.Engine]:
    """A search engine that finds two pages, whatever it is asked."""
    async with search_server.searching() as running:
        running.hits = [
            {"title": f"Page {n}", "url": f"https://found.test/{n}", "content": f"Fact {n}."}
            for n in (1, 2)
        ]
        yield running


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> Way:
    """The kind of the store, what the upstream speaks, and how the client wants its answer."""
    return request.param


@pytest.fixture
def store_url(way: Way, request: pytest.FixtureRequest) -> str:
    """As everywhere, but of one kind a way."""
    return url_of(way[0], request)


@pytest.fixture
def api(way: Way) -> Api:
    return way[1]


@pytest.fixture
def stream(way: Way) -> bool:
    return way[2] == "stream"


@pytest.fixture
def equip(
    store: Store, upstream: Server, mcp: mcp_server.Tools, engine: search_server.Engine
) -> Equip:
    """Makes a gateway with tools; `equipped` says what a test may choose."""
    return functools.partial(equipped, store, upstream, mcp, engine)


@pytest.fixture
async def rig(equip: Equip, api: Api) -> AsyncIterator[Rig]:
    """A gateway with tools, in front of an upstream of each dialect."""
    async with equip(api) as made:
        yield made
