"""Sealing as it is served: one process works and seals, another one only answers; both tell the same before and after."""

import pytest

from respool.demo_upstream import serving
from tests.respool.processes import get, post, replica
from tests.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


async def sealed(url):
    """Whether a process has sealed a response."""
    return "respool_responses_sealed_total 1\n" in (await get(url, "/metrics"))[1]


async def test_what_a_process_sealed_every_process_reads(tmp_path):
    async with (
        serving() as upstream,
        replica(tmp_path, UPSTREAM_URL=upstream, SEAL_AFTER_S="1") as worker,
        replica(tmp_path, "api", UPSTREAM_URL=upstream, SEAL_AFTER_S="1") as door,
    ):
        _, response = await post(door.url)
        path = f"/v1/responses/{response['id']}"
        whole = (await get(worker.url, f"{path}?stream=true"))[1]
        count = whole.count("\n\n") - 1
        tails = [f"{path}?stream=true&starting_after={after}" for after in range(count)]
        asked = [path, f"{path}/input_items", *tails]
        before = [await get(door.url, one) for one in asked]
        assert {status for status, _ in before} == {200}
        assert not await sealed(worker.url), "not so soon"
        await wait_until(lambda: sealed(worker.url), 10)
        for replica_ in (worker, door):
            assert [await get(replica_.url, one) for one in asked] == before
        assert before[2][1] == whole.partition("\n\n")[2]
        assert "Traceback" not in worker.log() + door.log()
