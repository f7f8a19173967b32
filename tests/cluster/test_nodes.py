"""Writers, doorbells and work queues where every key may be at another node, and moves."""

import asyncio
import secrets

import pytest
import redis

from streams.client import connect
from streams.cluster import Place, place_of, slot_of
from streams.faults import StoreAway
from streams.scripts.refused import Reason
from streams.store import Store
from streams.writer import MAX_CALL_BYTES
from tests.servers import Nodes, Served, clustered, owner_of, serving
from tests.streams.rig import Rig, refused
from tests.streams.test_work import Taker, taking
from tests.streams.test_writer import frames_of, plain
from tests.wait import wait_for, wait_until
from translator.protocol.errors import LimitPassed, StoreError


def rid_at(store: Store, port: int, *, unlike: int | None = None) -> str:
    """The id of a response that lives at a node (and in another slot than `unlike`)."""
    while True:
        rid = f"resp_{secrets.token_hex(16)}"
        slot = slot_of(store.keys.state(rid))
        if slot != unlike and store.connections.owner(slot).port == port:
            return rid


def rigs_at_each(store: Store) -> list[Rig]:
    return [Rig(store, rid_at(store, place.port)) for place in store.connections.primaries]


async def test_responses_live_at_every_node_and_each_call_finds_its_own(store, cluster):
    rigs = rigs_at_each(store)
    assert len(rigs) == 3
    await asyncio.gather(*(rig.running() for rig in rigs))
    for rig in rigs:
        results = await asyncio.gather(
            *(rig.append(n, ("frame", b"%d" % n)) for n in range(1, 301))
        )
        assert [result.first for result in results] == list(range(4, 304))
        assert await refused(rig.append(400, ("frame", b"x"))) == Reason.GAP
    at = [node.ask("DBSIZE") for node in cluster.primaries]
    assert all(at), at
    assert store.writer.pending_bytes == 0
    assert store.writer.calls > store.writer.pipelines > 0


async def test_what_goes_to_another_node_waits_for_what_was_said_before(store, cluster):
    """A due entry stands before its response is created, and nobody hears of work that is not there yet."""
    due = store.connections.owner(slot_of(store.keys.due)).port
    away = next(node for node in cluster.primaries if node.port != due)
    rig = Rig(store, rid_at(store, away.port))
    order = []
    entered = store.due.enter(rig.rid, after_ms=1_000)
    entered.add_done_callback(lambda _: order.append("due"))
    creating = asyncio.ensure_future(rig.create())
    creating.add_done_callback(lambda _: order.append("created"))
    await asyncio.sleep(0)
    store.work.offer("rounds", rig.rid)
    await store.writer.drained()
    await wait_until(lambda: len(order) == 2)
    assert order == ["due", "created"]
    node = cluster.owner(slot_of(store.keys.due))
    node.ask("CLIENT", "PAUSE", 10_000, "WRITE")  # the due set's node takes nothing for now
    try:
        other = Rig(store, rid_at(store, away.port))
        entering = store.due.enter(other.rid, after_ms=1_000)
        creating = asyncio.ensure_future(other.create())
        assert await store.logs.state(rig.rid) is not None, "the others are not held up"
        await rig.cancel()
        assert not entering.done()
        assert await store.logs.state(other.rid) is None
    finally:
        node.ask("CLIENT", "UNPAUSE")
    await entering
    assert (await creating).last == 2


async def test_bells_and_hints_reach_processes_whatever_node_they_are_at(store, elsewhere):
    for rig in rigs_at_each(store):
        await rig.running()
        before = elsewhere.doorbell.rings
        async with elsewhere.hub.open(rig.rid, -1) as reader:
            for n in range(
                20
            ):  # the first ones may be found by polls, before the subscription stands
                reading = asyncio.ensure_future(anext(reader))
                await wait_until(lambda: elsewhere.doorbell.channels == 1)
                await rig.append(n + 1, ("frame", b"x"))
                await rig.commit(n, n + 1, n, b"frame")
                assert [frame.data for frame in await reading] == [b"frame"]
                if elsewhere.doorbell.rings > before:
                    break
            else:
                raise AssertionError("no bell was heard")
    for kind in ("rounds", "translate", "tools"):
        taker = Taker()
        elsewhere.work.register(kind, taker)
        async with taking(elsewhere, kind):
            store.work.offer(kind, "a")
            await wait_until(lambda taker=taker: taker.taken == ["a"])


async def test_the_due_set_is_one_for_all_nodes(store, elsewhere):
    rids = [rig.rid for rig in rigs_at_each(store)]
    for n, rid in enumerate(rids):
        await store.due.enter(rid, at=n + 1)
    assert await elsewhere.due.take() == rids
    for rid in rids:
        await store.due.drop(rid)


async def test_scripts_that_one_node_forgot_are_loaded_there_again(store, cluster):
    rigs = rigs_at_each(store)
    await asyncio.gather(*(rig.running() for rig in rigs))
    cluster.primaries[1].ask("SCRIPT", "FLUSH")
    results = await asyncio.gather(
        *(rig.append(n, ("frame", b"x")) for n in range(1, 20) for rig in rigs)
    )
    assert not any(result.dup for result in results)


async def test_a_call_that_no_pipeline_takes_is_refused_at_once(store):
    with pytest.raises(LimitPassed):
        await store.writer.do(plain("PING", size=MAX_CALL_BYTES))
    assert store.writer.pending_bytes == 0


async def test_what_waits_when_the_process_ends_fails_at_its_caller(store_url, namespace):
    results = []
    async with Store.open(store_url, namespace) as store:
        rig = await Rig(store).running()
        for n in range(1, 1_200):
            store.writer.submit(rig.appending(n, ("frame", b"x")), results.append)
    assert [result.first for result in results] == list(range(4, 1_203)), "all of it was written"


async def appending(rig: Rig, until: asyncio.Event) -> int:
    """Frames, one after the other, as long as a test goes on; how many."""
    n = 0
    while not until.is_set() or n < 20:
        n += 1
        result = await rig.append(n, ("frame", b"%d" % n))
        assert (result.first, result.dup) == (n + 3, False)
    return n


async def test_a_response_goes_on_while_its_slot_moves(store, elsewhere, cluster):
    """All that a move can say: ASK for what is not there, TRYAGAIN for what is there by half, MOVED at the end."""
    source = cluster.primaries[0]
    moving = await Rig(store, rid_at(store, source.port)).running()
    slot = slot_of(moving.keys.state(moving.rid))
    beside = await Rig(store, rid_at(store, source.port, unlike=slot)).running()
    to = cluster.others(source)[0]
    over = asyncio.Event()
    writers = [asyncio.ensure_future(appending(rig, over)) for rig in (moving, beside)]
    translator = Rig(elsewhere, moving.rid)  # what it asks for stands in nobody's way here
    translator.lease = moving.lease
    try:
        assert cluster.begin_move(slot, to) == (source, to)
        begun = asyncio.ensure_future(translator.commit(0, 1, 0, b"first"))  # makes a key
        cluster.move_keys(slot, source, to, moving.keys.input(moving.rid))
        claimed = asyncio.ensure_future(translator.acquire("again", lease_ms=0))
        assert await asyncio.wait_for(beside.beat(), 2), "others of this node are not held up"
        assert not begun.done()
        assert not claimed.done()
        cluster.move_keys(slot, source, to)
        assert await moving.beat(), "followed to where it is asked for"
        cluster.end_move(slot, source, to)
        assert (await begun).seq == 0
        assert await refused(claimed) == Reason.LEASED
        await moving.commit(1, 2, 1, b"second")
        await wait_until(lambda: store.connections.owner(slot).port == to.port)
    finally:
        over.set()
    counts = await asyncio.gather(*writers)
    for rig, count in zip((moving, beside), counts, strict=True):
        assert await frames_of(rig) == [b"%d" % n for n in range(1, count + 1)]
    page = await store.logs.read_output(moving.rid, -1)
    assert [frame.data for frame in page.frames] == [b"first", b"second"]
    move_back(cluster, slot, to, source)
    await moving.delete()


def move_back(cluster: Nodes, slot: int, source: Served, to: Served) -> None:
    """The cluster is the whole session's."""
    cluster.begin_move(slot, to)
    cluster.move_keys(slot, source, to)
    cluster.end_move(slot, source, to)
    wait_for(lambda: all(owner_of(node, slot) == to.port for node in cluster.primaries), 5)


async def test_slots_that_move_all_at_once_are_followed(store, cluster):
    """Valkey 9 copies slots beside their life and hands them over in one step: nothing but MOVED is heard of it."""
    source = cluster.primaries[1]
    if "MIGRATESLOTS" not in str(source.ask("CLUSTER", "HELP")):
        pytest.skip("the server has no such command")
    rig = await Rig(store, rid_at(store, source.port)).running()
    slot = slot_of(rig.keys.state(rig.rid))
    over = asyncio.Event()
    writing = asyncio.ensure_future(appending(rig, over))
    try:
        for came_from, to in ((source, cluster.primaries[2]), (cluster.primaries[2], source)):
            whole = ("SLOTSRANGE", slot, slot, "NODE", cluster.id_of(to))
            came_from.ask("CLUSTER", "MIGRATESLOTS", *whole)
            await wait_until(lambda to=to: cluster.owner(slot) is to, 10)
            await wait_until(lambda to=to: store.connections.owner(slot).port == to.port)
    finally:
        over.set()
    written = await writing  # the last append has its answer
    assert await frames_of(rig) == [b"%d" % n for n in range(1, written + 1)]


async def test_a_slot_that_never_ends_to_move_fails_its_responses_alone(
    store_url, namespace, cluster
):
    async with Store.open(store_url, namespace, retry_for_s=0.5) as store:
        source = cluster.primaries[1]
        rig = await Rig(store, rid_at(store, source.port)).running()
        slot = slot_of(rig.keys.state(rig.rid))
        beside = await Rig(store, rid_at(store, source.port, unlike=slot)).running()
        _, to = cluster.begin_move(slot, cluster.others(source)[0])
        cluster.move_keys(slot, source, to, rig.keys.input(rig.rid))
        with pytest.raises(StoreAway, match=r"TRYAGAIN|ASK"):
            await rig.append(1, ("frame", b"x"))
        assert (await beside.append(1, ("frame", b"x"))).first == 4
        cluster.move_keys(slot, source, to)
        cluster.end_move(slot, source, to)
        assert (await rig.append(1, ("frame", b"x"))).first == 4
        move_back(cluster, slot, to, source)


async def test_a_cluster_that_is_down_for_a_moment_is_waited_for(store, cluster):
    """A slot that nobody serves takes the whole cluster down, unless it is told otherwise."""
    node = cluster.primaries[2]
    rig = await Rig(store, rid_at(store, node.port)).running()
    slot = slot_of(rig.keys.state(rig.rid))
    before = store.writer.trouble_at
    node.ask("CLUSTER", "DELSLOTS", slot)
    appending = asyncio.ensure_future(rig.append(1, ("frame", b"x")))
    try:
        await wait_until(lambda: store.writer.trouble_at > before)
        with pytest.raises(redis.exceptions.ClusterDownError):
            node.ask("GET", rig.keys.state(rig.rid))
        assert not appending.done()
    finally:
        node.ask("CLUSTER", "ADDSLOTS", slot)
    result = await appending
    assert (result.first, result.dup) == (4, False)
    await wait_until(cluster.agree)


async def test_work_and_due_move_with_their_slots(store, elsewhere, cluster):
    taker = Taker()
    elsewhere.work.register("rounds", taker)
    slots = [slot_of(store.keys.work("rounds")), slot_of(store.keys.due)]
    async with taking(elsewhere):
        store.work.offer("rounds", "before")
        await wait_until(lambda: taker.taken == ["before"])
        await store.due.enter("r", at=1)
        homes = [cluster.owner(slot) for slot in slots]
        for slot, home in zip(slots, homes, strict=True):
            source, to = cluster.begin_move(slot, cluster.others(home)[0])
            cluster.move_keys(slot, source, to)
            cluster.end_move(slot, source, to)
        store.work.offer("rounds", "after")
        await wait_until(lambda: taker.taken == ["before", "after"])
        assert await elsewhere.due.take() == ["r"]
        await store.due.drop("r")
    for slot, home in zip(slots, homes, strict=True):
        move_back(cluster, slot, cluster.owner(slot), home)


async def test_a_plain_server_is_no_cluster(tmp_path):
    with (
        serving(tmp_path / "one") as one,
        pytest.raises(StoreError, match="refused a command: ERR"),
    ):
        await connect(f"redis+cluster://127.0.0.1:{one.port}")


async def test_any_seed_that_lives_is_enough(cluster):
    places = ",".join(("127.0.0.1:1", *(f"127.0.0.1:{node.port}" for node in cluster.primaries)))
    connections = await connect(f"redis+cluster://{places}")
    assert [place.port for place in connections.primaries] == sorted(
        node.port for node in cluster.primaries
    )
    await connections.close()
    with pytest.raises(StoreAway):
        await connect("redis+cluster://127.0.0.1:1,127.0.0.1:2")


def test_a_node_that_does_not_know_its_name_is_where_it_was_asked():
    said_by = Place("10.0.0.1", 7000)
    names = [place_of(name, 7001, said_by).host for name in (b"", None, b"?", b"other.test")]
    assert names == ["10.0.0.1"] * 3 + ["other.test"]


@pytest.mark.slow
async def test_a_node_that_dies_is_succeeded_by_its_replica(tmp_path, aside):
    with clustered(tmp_path, replicas=True, timeout_ms=1000) as nodes:
        async with (
            Store.open(nodes.url, aside, retry_for_s=20) as store,
            Store.open(nodes.url, aside, retry_for_s=20) as elsewhere,
        ):
            dying = nodes.owner(slot_of(store.keys.work("rounds")))
            taker = Taker()
            elsewhere.work.register("rounds", taker)
            rig = await Rig(store, rid_at(store, dying.port)).running()
            beside = await Rig(store, rid_at(store, nodes.others(dying)[0].port)).running()
            assert (await rig.append(1, ("frame", b"a"))).first == 4
            dying.followed_by(nodes.replicas[nodes.primaries.index(dying)])
            async with taking(elsewhere):
                dying.kill()
                going_on = asyncio.ensure_future(rig.append(2, ("frame", b"b")))
                assert (await asyncio.wait_for(beside.append(1, ("frame", b"x")), 3)).first == 4
                result = await going_on
                assert (result.first, result.dup) == (5, False)
                assert await frames_of(rig) == [b"a", b"b"]
                store.work.offer("rounds", "after")
                await wait_until(lambda: "after" in taker.taken, 10)
