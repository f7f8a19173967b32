"""Group commit: grouping, order, each call's own error, and connections that break."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streams import metrics
from streams import writer as writing
from streams.client import connect
from streams.faults import StoreAway
from streams.scripts.call import Call, Script
from streams.scripts.refused import Reason, Refused
from streams.store import Store
from streams.writer import MAX_CALL_BYTES, MAX_PIPELINE_BYTES, RETRY_FOR_S, Writer
from tests.streams.proxy import Proxy, proxied
from tests.streams.rig import Rig
from tests.wait import wait_until
from translator.protocol.errors import LimitPassed, StoreError


def plain(*command: str | bytes | int, rid: str = "r", size: int = 0) -> Call[object]:
    return Call(rid, None, command, (), lambda reply: reply, size=size)


async def frames_of(rig: Rig) -> list[bytes]:
    return [entry.data for entry in await rig.log() if entry.kind == "frame"]


@asynccontextmanager
async def standing(valkey_url: str, retry_for_s: float) -> AsyncIterator[tuple[Proxy, Rig]]:
    """A proxy before the real server, a store behind it that is so patient, and a rig in it."""
    async with (
        proxied(valkey_url) as (proxy, url),
        Store.open(url, "behind-proxy", retry_for_s=retry_for_s) as store,
    ):
        rig = await Rig(store).running()
        yield proxy, rig
        proxy.away = proxy.mute = False
        proxy.losing = 0
        await rig.delete()


@pytest.fixture
async def behind(valkey_url):
    """Patient for half a second."""
    async with standing(valkey_url, 0.5) as both:
        yield both


@pytest.fixture
async def patient(valkey_url):
    """As patient as a gateway."""
    async with standing(valkey_url, RETRY_FOR_S) as both:
        yield both


async def test_calls_that_come_together_leave_together(store):
    rigs = [Rig(store) for _ in range(100)]
    await asyncio.gather(*(rig.create() for rig in rigs))
    before = store.writer.pipelines
    await asyncio.gather(*(rig.claim() for rig in rigs))
    assert store.writer.pipelines - before <= 2 * len(store.connections.servers())


async def test_calls_of_one_response_are_carried_out_in_order(rig):
    await rig.running()
    results = await asyncio.gather(*(rig.append(n, ("frame", b"%d" % n)) for n in range(1, 1_301)))
    assert [result.first for result in results] == list(range(4, 1_304))
    assert await frames_of(rig) == [b"%d" % n for n in range(1, 1_301)]
    assert rig.store.writer.pending_bytes == 0


async def test_each_call_gets_its_own_refusal(store):
    good, bad = await Rig(store).running(), await Rig(store).running()
    results = await asyncio.gather(
        good.append(1, ("frame", b"a")),
        bad.append(7, ("frame", b"a")),
        good.append(2, ("frame", b"b")),
        Rig(store).claim(),
        return_exceptions=True,
    )
    assert [results[0].first, results[2].first] == [4, 5]
    assert [(type(r), r.reason) for r in (results[1], results[3])] == [
        (Refused, Reason.GAP),
        (Refused, Reason.MISSING),
    ]
    assert bad.rid in str(results[1])


async def test_an_error_that_no_script_says_is_a_store_error_without_its_text(store, namespace):
    key = f"{namespace}:text"
    await store.writer.do(plain("SET", key, "secret", "PX", 60_000))
    with pytest.raises(StoreError, match=r"^the store refused a command: (WRONGTYPE|error)$"):
        await store.writer.do(plain("XLEN", key))
    with pytest.raises(StoreError, match="refused a command: ERR"):
        await store.writer.do(plain("NONSENSE", "secret"))


async def test_pending_bytes_are_those_without_a_reply(store):
    seen = []
    for _ in range(3):
        store.writer.submit(
            plain("PING", size=1_000), lambda _: seen.append(store.writer.pending_bytes)
        )
    assert store.writer.pending_bytes >= 3_000
    await store.writer.drained()
    assert len(seen) == 3
    assert store.writer.pending_bytes == 0


async def test_a_call_made_by_a_reply_is_counted_like_any_other(store):
    seen = []

    def once_more(_: object) -> None:
        store.writer.submit(
            plain("PING", size=1_000), lambda _: seen.append(store.writer.pending_bytes)
        )

    store.writer.submit(plain("PING", size=1_000), once_more)
    await wait_until(lambda: seen)
    await store.writer.drained()
    assert seen[0] >= 1_000
    assert store.writer.pending_bytes == 0


async def test_large_calls_are_spread_over_pipelines(store, namespace):
    value = b"x" * 1_000_000
    before = store.writer.pipelines
    calls = [
        plain("SET", f"{namespace}:{n}", value, "PX", 60_000, size=len(value)) for n in range(9)
    ]
    await asyncio.gather(*(store.writer.do(call) for call in calls))
    assert 3 <= store.writer.pipelines - before < 9


async def test_a_call_that_no_pipeline_takes_is_refused_at_once(store):
    with pytest.raises(LimitPassed):
        await store.writer.do(plain("PING", size=MAX_CALL_BYTES))
    assert store.writer.pending_bytes == 0


async def test_a_large_call_is_written_in_pieces_and_stands_in_its_order(store, namespace):
    key, value = f"{namespace}:large", bytes(range(256)) * (MAX_PIPELINE_BYTES // 200)
    assert len(value) > MAX_PIPELINE_BYTES
    calls = [
        plain("SET", key, value, "PX", 60_000, size=len(value)),
        plain("APPEND", key, value, size=len(value)),
        plain("STRLEN", key),
        plain("GETRANGE", key, len(value) - 2, len(value) + 1),
    ]
    replies = await asyncio.gather(*map(store.writer.do, calls))
    assert replies == [b"OK", 2 * len(value), 2 * len(value), b"\xfe\xff\x00\x01"]


async def test_a_large_call_whose_reply_is_lost_is_written_again(patient):
    proxy, rig = patient
    await rig.finish(0, 0, b"end")
    packer = await rig.packed()
    proxy.losing = 1
    large = packer.value() + bytes(MAX_PIPELINE_BYTES)
    assert await rig.seal(packer, value=large) is True, "it was there already"


async def test_a_callback_that_raises_is_reported_and_harms_nobody(store):
    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))

    def broken(_: object) -> None:
        raise RuntimeError("bug")

    store.writer.submit(plain("PING"), broken)
    assert await store.writer.do(plain("ECHO", "on")) == b"on"
    assert [str(report["exception"]) for report in reports] == ["bug"]


async def test_a_caller_that_leaves_does_not_take_its_call_back(rig):
    await rig.running()
    task = asyncio.create_task(rig.append(1, ("frame", b"a")))
    await asyncio.sleep(0)
    task.cancel()
    await rig.store.writer.drained()
    assert await frames_of(rig) == [b"a"]


async def test_scripts_that_the_server_forgot_are_loaded_again_in_order(rig):
    await rig.running()
    await rig.store.connections.command("SCRIPT", "FLUSH")
    results = await asyncio.gather(
        *(rig.append(n, ("frame", b"%d" % n)) for n in range(1, 6)),
        rig.store.writer.do(plain("PING", rid=rig.rid)),
    )
    assert [result.first for result in results[:5]] == [4, 5, 6, 7, 8]
    assert not any(result.dup for result in results[:5])


async def test_a_server_that_keeps_no_scripts_fails_that_call_alone(store):
    unknown = object.__new__(Script)
    unknown.name, unknown.source, unknown.sha = "unknown", "", "0" * 40
    lost = Call("lost", unknown, ("k",), (), lambda reply: reply)
    results = await asyncio.gather(
        store.writer.do(lost), store.writer.do(plain("ECHO", "on")), return_exceptions=True
    )
    assert isinstance(results[0], StoreAway)
    assert results[1] == b"on"


async def test_lost_replies_cost_nothing_but_time(patient):
    proxy, rig = patient
    results, sequence = [], 0
    counted = metrics.value("repeats_total", script="append")
    for n in range(1, 31):
        proxy.losing = n % 3 == 0
        results.append(await rig.append(n, ("frame", b"%d" % n)))
        proxy.losing = n % 4 == 0
        await rig.commit(n - 1, n, sequence, b"%d" % n, b"x")
        sequence += 2
    assert [result.first for result in results] == list(range(4, 34))
    assert (repeats := sum(result.dup for result in results)) >= 5
    assert metrics.value("repeats_total", script="append") == counted + repeats
    assert await frames_of(rig) == [b"%d" % n for n in range(1, 31)]
    page = await rig.store.logs.read_output(rig.rid, -1)
    assert [frame.seq for frame in page.frames] == list(range(60))


async def test_lost_replies_in_the_middle_of_a_pipeline_keep_the_order(patient):
    proxy, rig = patient
    proxy.losing = 2
    await asyncio.gather(*(rig.append(n, ("frame", b"%d" % n)) for n in range(1, 700)))
    assert await frames_of(rig) == [b"%d" % n for n in range(1, 700)]


async def test_a_short_outage_is_waited_out(patient):
    proxy, rig = patient
    proxy.away = True
    proxy.cut()
    appending = asyncio.create_task(rig.append(1, ("frame", b"a")))
    await asyncio.sleep(0.1)
    assert not appending.done()
    proxy.away = False
    assert (await appending).first == 4


async def test_who_drops_the_connection_between_two_replies_gives_nobody_anothers_reply(valkey_url):
    """As whoever watches the sentinels does: what is sent next goes over a new connection, the replies are the old one's."""
    connections = await connect(valkey_url)
    writer = Writer(connections)
    running = asyncio.create_task(writer.run())
    dropping, replies = [], {}

    def replied(n: int, reply: object) -> None:
        replies[n] = reply
        if n == writing.BREATH - 1:
            dropping.append(asyncio.ensure_future(writer._link.drop()))
            submit(1_000)

    def submit(n: int) -> None:
        writer.submit(plain("ECHO", n), lambda reply: replied(n, reply))

    for n in range(2 * writing.BREATH):
        submit(n)
    await writer.drained()
    assert len(replies) == 2 * writing.BREATH + 1
    assert all(reply == b"%d" % n for n, reply in replies.items())
    running.cancel()
    await asyncio.wait([running, *dropping])
    await connections.close()


async def test_a_long_outage_reaches_every_caller_and_the_writer_works_on_afterwards(behind):
    proxy, rig = behind
    proxy.away = True
    proxy.cut()
    calls = (rig.append(n, ("frame", b"x")) for n in range(1, 4))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [StoreAway] * 3
    with pytest.raises(StoreAway):
        await rig.append(1, ("frame", b"x"))
    assert rig.store.writer.pending_bytes == 0
    proxy.away = False
    assert (await rig.append(1, ("frame", b"a"))).first == 4


async def test_in_a_long_outage_calls_fail_fast(behind):
    proxy, rig = behind
    proxy.away = True
    proxy.cut()
    with pytest.raises(StoreAway):
        await rig.beat()
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(StoreAway):
        await rig.beat()
    assert loop.time() - started < 0.2


async def test_a_server_that_says_nothing_is_left(behind, monkeypatch):
    monkeypatch.setattr(writing, "ANSWER_TIMEOUT_S", 0.2)
    proxy, rig = behind
    proxy.mute = True
    appending = asyncio.create_task(rig.append(1, ("frame", b"a")))
    await asyncio.sleep(0.3)
    proxy.mute = False
    assert (await appending).dup


async def test_a_slow_trickle_is_no_silence(behind, monkeypatch):
    """The limit is for one pipeline, not for a connection that is never quiet."""
    monkeypatch.setattr(writing, "ANSWER_TIMEOUT_S", 0.3)
    _, rig = behind
    pipelines = rig.store.writer.pipelines

    async def busy(number: int) -> None:
        for n in range(8):
            await rig.store.writer.do(plain("PING", rid=f"{number}.{n}"))
            await asyncio.sleep(0.02 * number)

    await asyncio.gather(*(busy(number) for number in range(1, 5)))
    assert rig.store.writer.pipelines > pipelines


async def test_a_reply_that_passes_by_itself_is_waited_for(rig):
    """A replica that will be primary again in a moment: the server says READONLY meanwhile."""
    await rig.running()
    script = (
        "return redis.error_reply(redis.call('INCR', KEYS[1]) < 3 and 'BUSY wait' or 'REFUSED GAP')"
    )
    key = f"{rig.keys.ns}:tries"
    call = Call("busy", None, ("EVAL", script, 1, key), (), lambda reply: reply)
    with pytest.raises(Refused):
        await rig.do(call)
    assert await rig.store.connections.command("GET", key) == b"3"
    await rig.store.connections.command("DEL", key)


async def test_a_reply_that_never_passes_fails_its_call_alone(store_url, namespace):
    async with Store.open(store_url, namespace, retry_for_s=0.05) as store:
        busy = Call(
            "b", None, ("EVAL", "return redis.error_reply('BUSY wait')", 0), (), lambda reply: reply
        )
        results = await asyncio.gather(
            store.writer.do(busy), store.writer.do(plain("ECHO", "on")), return_exceptions=True
        )
        assert isinstance(results[0], StoreError)
        assert "BUSY" in str(results[0])
        assert results[1] == b"on"


async def test_what_waits_when_the_process_ends_fails_at_its_caller(store_url):
    connections = await connect(store_url)
    writer = Writer(connections)
    running = asyncio.create_task(writer.run())
    await writer.do(plain("PING"))
    waiting = asyncio.create_task(writer.do(plain("PING")))
    running.cancel()
    await asyncio.wait([running])
    assert await wait_until(waiting.done)
    result = (await asyncio.gather(waiting, return_exceptions=True))[0]
    assert result == b"PONG" or isinstance(result, StoreAway)
    await connections.close()
