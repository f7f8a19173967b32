"""A primary that dies: sentinels name another one, and the log goes on without a hole."""

import pytest

from streams.client import connect
from streams.scripts.refused import Refused
from streams.store import Store
from tests.servers import Watched, watched
from tests.streams.rig import Rig
from translator.protocol.errors import StoreError


@pytest.mark.slow
async def test_a_failover_is_waited_out_and_leaves_no_hole(tmp_path):
    with watched(tmp_path) as sentinel:
        await lost_primary(sentinel)


async def lost_primary(sentinel: Watched) -> None:
    async with Store.open(sentinel.url, "failover", retry_for_s=40) as store:
        rig = await Rig(store).running()
        assert (await rig.append(1, *(("frame", b"%d" % n) for n in range(1, 101)))).first == 4
        sentinel.one.followed_by(sentinel.two)
        sentinel.one.kill()
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
    state = {
        name: value for name, value in dict(older[0]).items() if name in (b"fr", b"in", b"in_bytes")
    }
    command = store.connections.command
    await command("HSET", rig.keys.state(rig.rid), *(x for pair in state.items() for x in pair))
    await command("XDEL", rig.keys.input(rig.rid), "5-1")
    with pytest.raises(Refused, match="GAP"):
        await rig.append(3, ("frame", b"c"))
