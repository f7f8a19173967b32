"""A store that is not there when the process starts."""

import asyncio
import json
import signal
import time

import pytest

from respool.arrival import Arrival
from respool.demo_upstream import serving as scripted
from streams.client import connect
from streams.faults import StoreAway
from tests.respool.processes import get, post, replica, respool
from tests.servers import free_port, serving

pytestmark = pytest.mark.timeout(90)
UPSTREAM = "http://127.0.0.1:1/v1"


async def answers(url):
    """The answer of /readyz, once there is one."""
    async with asyncio.timeout(15):
        while True:
            try:
                return await get(url, "/readyz")
            except OSError:
                await asyncio.sleep(0.02)


async def test_a_process_waits_for_its_store_and_says_so(tmp_path):
    port = free_port()
    async with scripted() as upstream:
        served = replica(
            tmp_path, UPSTREAM_URL=upstream, REDIS_URL=f"redis://:opensesame@127.0.0.1:{port}"
        )
        await served.start()
        try:
            status, body = await answers(served.url)
            assert (status, json.loads(body)["problems"]) == (503, ["the store is away"])
            assert (await get(served.url, "/healthz"))[0] == 200
            assert "respool_requests_total" in (await get(served.url, "/metrics"))[1]
            status, body = await post(served.url)
            assert (status, body["error"]["code"]) == (503, "store_unavailable")
            options = ("--requirepass", "opensesame", "--save", "")
            with serving(tmp_path / "server", *options, port=port, password="opensesame"):
                await served.ready()
                assert (await post(served.url))[0] == 200
                assert await served.stop() == 0
        finally:
            await served.stop()
    log = served.log()
    assert "the store is away: waiting up to 60 s for it" in log
    assert "opensesame" not in log
    assert "Traceback" not in log


async def test_a_signal_ends_the_wait(tmp_path):
    served = replica(tmp_path, UPSTREAM_URL=UPSTREAM, REDIS_URL="redis://127.0.0.1:1")
    await served.start()
    await answers(served.url)
    began = time.monotonic()
    served.signal(signal.SIGTERM)
    assert await served.wait() == 0
    assert time.monotonic() - began < 3
    assert "Traceback" not in served.log()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://:wrong@127.0.0.1:{}", "the store does not take our user or password"),
        ("redis+cluster://:right@127.0.0.1:{}", "the store refused a command: ERR"),
    ],
)
def test_what_waiting_does_not_mend_is_told_at_once(tmp_path, url, said):
    given = ("--requirepass", "right", "--save", "")
    with serving(tmp_path / "server", *given, password="right") as server:
        address = url.format(server.port)
        ended = respool(tmp_path, "serve", UPSTREAM_URL=UPSTREAM, PORT="0", REDIS_URL=address)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    shown = address.replace(":wrong@", "").replace(":right@", "")
    assert ended.stderr == f"respool: {shown}: {said}\n"


async def test_the_wait_has_an_end(caplog):
    tries, waits = [], []

    async def open_store():
        tries.append(1)
        await connect("redis://127.0.0.1:1")

    arrival = Arrival(open_store, 0.35)
    with pytest.raises(StoreAway):
        await arrival.wait(asyncio.Event(), lambda: waits.append(1))
    assert len(waits) == 1
    # At once, after 0.1 s and 0.2 s more; a machine that stalls meanwhile has no time for the last.
    assert 2 <= len(tries) <= 3
    assert arrival.problem == "the store is away"
    assert caplog.messages == ["the store is away: waiting up to 0.35 s for it"]
