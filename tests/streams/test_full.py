"""A server that has reached its maxmemory: nothing that grows is taken, and whatever ends something is."""

import asyncio

import pytest
from redis.exceptions import ResponseError

from streams.client import word_of
from streams.faults import StoreFull
from streams.scripts import hints
from streams.store import Store
from tests.servers import Served, serving
from tests.streams.rig import Rig
from tests.streams.test_tools import job, ran_out
from tests.wait import wait_until
from translator.protocol.entries import Kind


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("full") / "server") as one:
        yield one


@pytest.fixture
def store_url(served) -> str:
    return served.url


def fill(served: Served) -> None:
    """From now on it has less memory than it uses."""
    served.ask("CONFIG", "SET", "maxmemory", "100kb")


@pytest.fixture(autouse=True)
def empty_again(served):
    yield
    served.ask("CONFIG", "SET", "maxmemory", "0")


async def full(work) -> bool:
    """Whether the store refuses it for want of memory."""
    try:
        await work
    except StoreFull as error:
        return str(error) == "the store has no memory left"
    return False


async def test_what_grows_is_refused_and_leaves_no_trace(rig, served):
    await rig.running()
    await rig.append(1, ("frame", b"a"))
    before = await rig.everything()
    fill(served)
    assert await full(Rig(rig.store).create())
    assert await full(rig.append(2, ("frame", b"b")))
    assert await full(rig.append(2, ("frame", b"b"), ("round_end", b"{}")))
    assert await full(rig.commit(0, 1, 0, b"frame"))
    assert await full(rig.store.due.enter(rig.rid, at=1))
    assert await full(rig.do(hints.hint(rig.keys, "rounds", rig.rid)))
    assert await rig.everything() == before
    served.ask("CONFIG", "SET", "maxmemory", "0")
    assert (await rig.append(2, ("frame", b"b"))).first == 5


async def test_leases_are_kept_and_a_response_reaches_its_end(rig, served):
    await rig.running()
    await rig.append(1, ("frame", b"a"))
    await rig.commit(0, 1, 0, b"first")
    fill(served)
    assert not (await rig.beat_round()).cancelled
    assert (await rig.beat()).last == 4
    assert (await rig.append(2, ("round_end", b'{"how":"reset"}'))).first == 5
    assert (await rig.cancel()).entry.n == 6
    await rig.release()
    await rig.acquire("successor")
    done = await rig.finish(1, 1, b"failed", status="failed")
    assert (done.seq, done.dup) == (1, False)
    page = await rig.store.logs.read_output(rig.rid, -1)
    assert [frame.data for frame in page.frames] == [b"first", b"failed"]
    assert page.done
    assert set(await rig.lifetimes()) == {"st", "in", "out"}


async def test_a_dead_attempt_is_ended_and_what_is_due_is_found(rig, served):
    await rig.create()
    await rig.claim(lease_ms=0)
    await rig.store.due.enter(rig.rid, at=1)
    fill(served)
    assert await rig.store.due.take() == [rig.rid]
    assert (await rig.lose()).n == 4


async def test_calls_get_short_results_and_dead_ones_a_failed_one(rig, served):
    await rig.create(jobs=[job("1.0"), job("1.1")])
    fence = (await rig.claim_tool()).fence
    await ran_out(rig)
    fill(served)
    await rig.beat_tool(fence)
    assert await full(rig.tool_result("1.0", b"x" * 10_000))
    assert (await rig.tool_result("1.0", b'{"key":"1.0"}')).entry.kind == Kind.TOOL_RESULT
    assert [entry.kind for entry in (await rig.expire_tools()).entries] == [Kind.TOOL_RESULT]


async def test_a_reader_keeps_its_unstored_response(rig, served):
    await rig.create(store=False)
    fill(served)
    assert not (await rig.keep()).done
    assert (await rig.state()).reader > 0


async def test_a_worker_that_waits_for_hints_waits_on(store, served):
    """The group of a queue that nobody has used cannot be made now; that is no end of the role."""
    fill(served)
    taken = []
    store.work.register("rounds", lambda rid: taken.append(rid) or True)
    task = asyncio.create_task(store.work.take("rounds"))
    calls = store.writer.calls
    await wait_until(lambda: store.writer.calls > calls + 2)
    assert not task.done()
    served.ask("CONFIG", "SET", "maxmemory", "0")
    async with Store.open(served.url, store.keys.ns) as other:
        other.work.offer("rounds", "a")
        await wait_until(lambda: taken == ["a"])
    task.cancel()
    await asyncio.wait([task])


def test_servers_before_redis_7_wrap_what_a_command_in_a_script_met():
    for word in ("OOM", "READONLY", "MISCONF"):
        text = (
            f"Error running script (call to f_0a): @user_script:9: @user_script: 9: "
            f"-{word} command not allowed when used memory > 'maxmemory'."
        )
        assert word_of(ResponseError(text)) == word
    assert word_of(ResponseError("ERR unknown command 'x-OOM'")) == "ERR"
