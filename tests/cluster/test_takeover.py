"""Processes whose responses live on a cluster: served by several, and taken over when one dies."""

import json

import pytest

from respool.demo_upstream import serving
from tests.frames import frames
from tests.respool.processes import all_of, get, replica, streaming
from tests.workers.conftest import server  # noqa: F401 - a fixture
from tests.workers.test_chaos import (  # noqa: F401 - once more, on this store
    test_a_translator_that_is_killed_is_taken_over_within_a_lease,
)

pytestmark = pytest.mark.slow


async def test_two_processes_serve_from_a_cluster(tmp_path, cluster, namespace):
    async with serving() as upstream:
        settings = {"UPSTREAM_URL": upstream, "REDIS_URL": cluster.url, "NAMESPACE": namespace}
        served = [replica(tmp_path, *roles, **settings) for roles in (("api",), ())]
        await all_of(*(one.start() for one in served))
        try:
            await all_of(*(one.ready() for one in served))
            door, home = served
            async with streaming(door.url) as answer:
                seen = [frame async for frame in frames(answer)]
            first = json.loads(seen[0].partition(b"data: ")[2])
            path = f"/v1/responses/{first['response']['id']}?stream=true&starting_after=3"
            assert (await get(home.url, path))[1].encode() == b"".join(seen[4:])
        finally:
            statuses = await all_of(*(one.stop() for one in served))
    assert seen[-2].startswith(b"event: response.completed\n")
    assert statuses == [0, 0]
    assert f"store redis+cluster://127.0.0.1:{cluster.primaries[0].port}," in door.log()
    assert not any("Traceback" in one.log() for one in served)
