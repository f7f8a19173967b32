"""A gateway with the debug page on, its tools at work, and a model that says what a test wants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from streams.store import Store
from tests.api.gateway import Listed, running
from tests.api.tools.model import Api, Model
from tests.api.tools.rig import Rig, tools_at_work
from tests.ingest.server import serving as upstream_serving
from tests.workers.tools.mcp_server import serving as mcp_serving
from tests.workers.tools.search_server import searching
from translator.protocol.upstream import Upstream
from workers.tools.session import loaded

TOOL_TIMEOUT_S = 20.0


@asynccontextmanager
async def stage(
    store: Store, *, api: Api = "responses", upstream_url: str = "", **settings: Any
) -> AsyncIterator[Rig]:
    """The gateway as a browser sees it: `rig.gateway.url` and `/debug`; `upstream_url` in place of a scripted model."""
    await loaded()
    async with upstream_serving() as upstream, mcp_serving() as mcp, searching() as engine:
        engine.hits = [
            {"title": f"Page {n}", "url": f"https://found.test/{n}", "content": f"Fact {n}."}
            for n in (1, 2)
        ]
        mcp.names = ["echo", "look"]
        url = upstream_url or upstream.url
        named = Upstream("main", url, api, api_key="up-key", custom_formats="validate")
        async with (
            tools_at_work(store, engine, TOOL_TIMEOUT_S),
            running(
                store,
                upstream,
                upstreams=Listed(named),
                gateway_tools=("web_search", "mcp"),
                debug_ui=True,
                **settings,
            ) as gateway,
        ):
            yield Rig(gateway, Model(upstream, api), mcp, engine)
