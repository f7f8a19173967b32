"""A primary that dies: sentinels name another one, and the log goes on without a hole."""

import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams.client import connect
from streams.embedded import find_server
from streams.scripts.refused import Refused
from streams.store import Store
from tests.streams.rig import Rig
from tests.wait import wait_until
from translator.protocol.errors import StoreError


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(folder: Path, port: int, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    folder.mkdir()
    process = subprocess.Popen(
        (str(find_server()), *options, "--port", str(port), "--dir", str(folder)),
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def answers(port: int, *command: str) -> object:
    """The reply of a server that may not be there yet."""
    try:
        connections = await connect(f"redis://127.0.0.1:{port}/0")
    except StoreError:
        return None
    try:
        return await connections.link().call(*command)
    finally:
        await connections.close()


@pytest.fixture
async def watched(tmp_path) -> AsyncIterator[tuple["subprocess.Popen[bytes]", str]]:
    """A primary with a replica and a sentinel; the primary's process, and the URL."""
    one, two, watch = free_port(), free_port(), free_port()
    configuration = tmp_path / "sentinel.conf"
    configuration.write_text(
        f"sentinel monitor main 127.0.0.1 {one} 1\n"
        "sentinel down-after-milliseconds main 300\n"
        "sentinel failover-timeout main 2000\n"
    )
    quiet = ("--save", "", "--repl-diskless-sync-delay", "0")
    with (
        server(tmp_path / "one", one, *quiet) as primary,
        server(tmp_path / "two", two, *quiet, "--replicaof", f"127.0.0.1 {one}"),
    ):

        async def replicated() -> bool:
            info = await answers(two, "INFO", "replication")
            return isinstance(info, bytes) and b"master_link_status:up" in info

        await wait_until(replicated)
        with server(tmp_path / "watch", watch, str(configuration), "--sentinel"):

            async def known() -> bool:
                return bool(await answers(watch, "SENTINEL", "REPLICAS", "main"))

            await wait_until(known)
            yield primary, f"redis+sentinel://127.0.0.1:{watch}/main"


@pytest.mark.slow
async def test_a_failover_is_waited_out_and_leaves_no_hole(watched):
    primary, url = watched
    async with Store.open(url, "failover", retry_for_s=15) as store:
        rig = await Rig(store).running()
        assert (await rig.append(1, *(("frame", b"%d" % n) for n in range(1, 101)))).first == 4
        await store.connections.command("WAIT", 1, 1_000)
        primary.kill()
        result = await rig.append(101, ("frame", b"after"))
        assert (result.first, result.dup) == (104, False)
        assert [entry.n for entry in await rig.log()] == list(range(1, 105))
        await rig.commit(0, 1, 0, b"a")
        assert (await rig.state()).seq == 0


@pytest.mark.parametrize(
    "url", ["redis+sentinel://localhost:26379", "redis+sentinel://localhost/", "redis+sentinel://"]
)
async def test_a_sentinel_url_names_its_service(url):
    with pytest.raises(ValueError, match="names its service"):
        await connect(url)


async def test_sentinels_that_are_not_there_are_told():
    with pytest.raises(StoreError, match="away"):
        await connect("rediss+sentinel://user:p%40ss@127.0.0.1:1,127.0.0.1:2/main/3")


async def test_entries_that_a_failover_lost_are_a_gap_and_not_a_hole(store):
    """The new primary has an older state: the producer's next number does not continue it."""
    rig = await Rig(store).running()
    await rig.append(1, ("frame", b"a"))
    older = await rig.everything()
    await rig.append(2, ("frame", b"b"))
    state = {name: value for name, value in older[0].items() if name in (b"fr", b"in", b"in_bytes")}
    command = store.connections.command
    await command("HSET", rig.keys.state(rig.rid), *(x for pair in state.items() for x in pair))
    await command("XDEL", rig.keys.input(rig.rid), "5-1")
    with pytest.raises(Refused, match="GAP"):
        await rig.append(3, ("frame", b"c"))
