"""The role on real stores: jobs go in by the scripts, results come out of the log."""

import asyncio
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streams.faults import StoreAway
from streams.scripts import tools as scripts
from streams.scripts.responses import cancel, create, delete
from streams.store import Store
from tests.wait import wait_until
from tests.workers.tools.test_job import job_data
from translator.protocol.entries import Kind
from workers.sweep import Sweeper
from workers.tools import carry
from workers.tools import role as role_module
from workers.tools.carry import ToolLimits
from workers.tools.registry import Registry, ToolSettings
from workers.tools.role import Tools

ROOT = Path(__file__).parents[3]
TOKEN = "S2-secret-token"


def limits(**changes) -> ToolLimits:
    given = {"lease_ms": 1_000, "timeout_s": 5.0, "concurrency": 5, "max_in_bytes": 1 << 26}
    return ToolLimits(**(given | changes))


@asynccontextmanager
async def working(
    store: Store, mcp=None, engine=None, *, max_open=64, **changes
) -> AsyncIterator[Tools]:
    given = limits(**changes)
    settings = ToolSettings(
        given.timeout_s,
        provider="searxng" if engine else None,
        url=engine.url if engine else None,
        mcp_allowed_hosts=mcp.host if mcp else None,
    )
    async with Tools(store, Registry(settings), given, max_open=max_open) as role:
        task = asyncio.create_task(role.run())
        try:
            yield role
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def made(store: Store, *jobs: bytes, url: str = "", run_ms=60_000) -> str:
    rid = f"resp_{secrets.token_hex(16)}"
    spec = {"servers": [{"url": url, "authorization": TOKEN, "headers": {}}]}
    await store.writer.do(
        create(
            store.keys,
            rid,
            tenant="",
            store=True,
            background=False,
            request_data=b"{}",
            round_body=b"{}",
            run_ms=run_ms,
            retention_ms=60_000,
            jobs=[(json.loads(data)["key"], data) for data in jobs],
            secrets=json.dumps(spec).encode(),
        )
    )
    return rid


def calling(slot: int, name: str, **arguments) -> bytes:
    again = arguments.pop("again", False)
    return job_data(
        f"1.{slot}", server=0, name=name, arguments=json.dumps(arguments), idempotent=again
    )


async def results(store: Store, rid: str) -> dict[str, dict]:
    entries = await store.logs.read_input(rid, 0, 1000)
    found = [json.loads(e.data) for e in entries if e.kind in (Kind.TOOL_RESULT, Kind.TOOLS_LISTED)]
    assert len({result["key"] for result in found}) == len(found), "two results of one job"
    return {result["key"]: result for result in found}


async def all_results(store: Store, rid: str, count: int, within_s: float = 8) -> dict[str, dict]:
    async def there() -> bool:
        return len(await results(store, rid)) >= count

    await wait_until(there, within_s)
    return await results(store, rid)


async def test_a_call_is_run_and_its_result_is_in_the_log(store, mcp):
    rid = await made(store, calling(0, "echo", text="hello"), url=mcp.url)
    async with working(store, mcp):
        store.work.offer("tools", rid)
        result = (await all_results(store, rid, 1))["1.0"]
    now = await store.logs.now()
    assert now - 10_000 < result.pop("started") <= result.pop("ended") <= now + 1_000
    assert result == {
        "key": "1.0",
        "ok": True,
        "content": "hello",
        "output": None,  # what the model is told is shown
        "error": None,
        "sources": [],
    }
    assert (await store.logs.state(rid)).jobs == 0


async def test_a_hint_in_the_queue_is_found_by_whoever_has_room(store, mcp):
    rid = await made(store, calling(0, "echo"), url=mcp.url)
    store.work.offer("tools", rid)  # nobody here does such work yet
    async with working(store, mcp):
        assert (await all_results(store, rid, 1))["1.0"]["ok"]


async def test_calls_of_both_tools_overlap_and_a_list_is_an_entry_of_its_own(store, mcp, engine):
    engine.hits, engine.delay_s = [{"title": "t", "url": "https://a.test"}], 0.3
    look = job_data("1.1", tool="web_search", arguments='{"query":"q"}', idempotent=True)
    rid = await made(
        store,
        job_data("list.0", kind="list", server=0),
        calling(0, "sleep", s=0.3),
        look,
        url=mcp.url,
    )
    async with working(store, mcp, engine):
        store.work.offer("tools", rid)
        found = await all_results(store, rid, 3)
    assert [tool["name"] for tool in found["list.0"]["tools"]] == ["echo", "look"]
    assert found["list.0"]["error"] is None
    one, two = found["1.0"], found["1.1"]
    assert one["started"] < two["ended"]
    assert two["started"] < one["ended"]
    assert two["sources"] == ["https://a.test"]
    assert two["results"] == [{"title": "t", "url": "https://a.test"}]
    assert two["output"] is None


async def test_never_more_than_five_run_and_the_sixth_starts_when_any_finishes(store, mcp):
    slow = calling(0, "wait")
    rid = await made(store, slow, *(calling(i, "sleep", s=0.1) for i in range(1, 12)), url=mcp.url)
    async with working(store, mcp):
        store.work.offer("tools", rid)
        found = await all_results(store, rid, 11)
        assert "1.0" not in found, "the first call is still waiting: it blocked nobody"
        mcp.gate.set()
        await all_results(store, rid, 12)
    assert mcp.most == 5


async def test_the_five_are_counted_over_all_processes(store, mcp, store_url, namespace):
    rid = await made(store, *(calling(i, "wait") for i in range(12)), url=mcp.url)
    async with (
        Store.open(store_url, namespace) as other,
        working(store, mcp, max_open=3) as one,
        working(other, mcp, max_open=3) as two,
    ):
        for near in (store, other):
            near.work.offer("tools", rid)
        await wait_until(lambda: mcp.running == 5)
        mcp.gate.set()
        assert len(await all_results(store, rid, 12)) == 12
        await wait_until(lambda: not one._calls and not two._calls)
    assert mcp.most == 5


async def test_a_process_takes_only_so_many(store, mcp):
    rids = [await made(store, calling(0, "wait"), url=mcp.url) for _ in range(3)]
    async with working(store, mcp, max_open=2) as role:
        for rid in rids:
            store.work.offer("tools", rid)
        await wait_until(lambda: mcp.running == 2)
        assert not role.take(rids[0])
        mcp.gate.set()
        for rid in rids:
            await all_results(store, rid, 1)


async def test_a_failure_leaves_its_siblings_alone(store, mcp):
    bad = job_data("1.4", server=0, name="echo", arguments="[1]")
    alien = job_data("1.5", server=7, name="echo")
    unknown = job_data("1.6", tool="shell")
    no_search = job_data("1.7", tool="web_search", arguments='{"query":"q"}')
    rid = await made(
        store,
        calling(0, "fail"),
        calling(1, "echo", text="fine"),
        calling(2, "sleep", s=60),
        calling(3, "raise"),
        bad,
        alien,
        unknown,
        no_search,
        url=mcp.url,
    )
    async with working(store, mcp, timeout_s=1.0):
        store.work.offer("tools", rid)
        found = await all_results(store, rid, 8)
    assert [key for key, result in found.items() if result["ok"]] == ["1.1"]
    for key, result in found.items():
        if key != "1.1":
            assert set(json.loads(result["content"])) == {"error"}
            assert result["output"] is None
    assert found["1.0"]["error"]["type"] == "mcp_tool_execution_error"
    assert found["1.2"]["error"] == {
        "type": "http_error",
        "code": 504,
        "message": "The call took longer than 1 s.",
    }
    assert 1_000 <= found["1.2"]["ended"] - found["1.2"]["started"] < 2_500
    assert found["1.3"]["error"]["type"] == "mcp_protocol_error"
    assert found["1.4"]["error"]["code"] == -32602
    assert found["1.7"]["error"] is None
    assert ("echo", {}) not in mcp.calls


async def test_a_list_that_fails_says_why(store, mcp):
    rid = await made(store, job_data("list.0", kind="list", server=0), url="https://localhost/")
    async with working(store, mcp):
        store.work.offer("tools", rid)
        found = await all_results(store, rid, 1)
    assert found["list.0"]["tools"] == []
    assert "public" in found["list.0"]["error"]


async def test_a_result_that_is_too_large_for_the_response_is_a_failed_one(store, mcp):
    rid = await made(store, calling(0, "big", bytes=100_000), url=mcp.url)
    async with working(store, mcp, max_in_bytes=10_000):
        store.work.offer("tools", rid)
        found = await all_results(store, rid, 1)
    assert carry.FULL_TEXT in found["1.0"]["content"]


async def test_no_secret_is_in_a_result_or_in_the_log(store, mcp, caplog):
    caplog.set_level(logging.INFO, logger="workers")
    rid = await made(
        store,
        calling(0, "echo", text=f"you sent {TOKEN}"),
        calling(1, "fail", text=f"bad {TOKEN}"),
        url=mcp.url,
    )
    async with working(store, mcp):
        store.work.offer("tools", rid)
        found = await all_results(store, rid, 2)
    assert found["1.0"]["content"] == "you sent ***"
    assert found["1.1"]["error"]["content"] == [{"type": "text", "text": "bad ***"}]
    assert TOKEN not in json.dumps(found)
    assert TOKEN not in "\n".join(record.getMessage() for record in caplog.records)


async def test_a_slow_call_keeps_its_claim_over_several_leases(store, mcp):
    rid = await made(store, calling(0, "sleep", s=1.0, again=True), url=mcp.url)
    async with working(store, mcp, lease_ms=300):
        store.work.offer("tools", rid)
        await all_results(store, rid, 1)
    assert len(mcp.calls) == 1


@pytest.mark.parametrize("how", ["cancel", "delete"])
async def test_a_call_that_nobody_wants_any_more_is_let_go(store, mcp, how):
    rid = await made(store, calling(0, "wait"), url=mcp.url)
    async with working(store, mcp) as role:
        store.work.offer("tools", rid)
        await wait_until(lambda: mcp.running == 1)
        call = (
            cancel(store.keys, rid, reason="client") if how == "cancel" else delete(store.keys, rid)
        )
        await store.writer.do(call)
        await wait_until(lambda: not role._calls)
    assert await results(store, rid) == {}


async def test_the_first_result_wins_whoever_is_late(store, mcp):
    rid = await made(store, calling(0, "wait", again=True), url=mcp.url)
    async with working(store, mcp) as role:
        store.work.offer("tools", rid)
        await wait_until(lambda: mcp.running == 1)
        await store.writer.do(
            scripts.tool_result(
                store.keys,
                rid,
                key="1.0",
                data=b'{"key":"1.0","by":"other"}',
                kind=Kind.TOOL_RESULT,
            )
        )
        mcp.gate.set()
        await wait_until(lambda: not role._calls)
    assert (await results(store, rid))["1.0"]["by"] == "other"


async def test_a_hint_for_a_response_without_work_is_harmless(store, mcp):
    rid = await made(store)
    async with working(store, mcp) as role:
        for one in (rid, "resp_none"):
            store.work.offer("tools", one)
        await asyncio.sleep(0)
        await wait_until(lambda: not role._calls)
    assert await results(store, rid) == {}


# ---- processes that end


async def test_a_drain_lets_calls_end(store, mcp):
    rid = await made(store, calling(0, "sleep", s=0.3), url=mcp.url)
    async with working(store, mcp) as role:
        store.work.offer("tools", rid)
        await wait_until(lambda: mcp.running == 1)
        await role.drain(5)
        assert (await results(store, rid))["1.0"]["ok"]
        assert not store.work.registered("tools")


async def test_a_drain_gives_back_what_may_run_again_and_fails_the_rest(store, mcp):
    rid = await made(store, calling(0, "wait", again=True), calling(1, "wait"), url=mcp.url)
    async with working(store, mcp, lease_ms=60_000) as role:
        store.work.offer("tools", rid)
        await wait_until(lambda: mcp.running == 2)
        await role.drain(0.05)
        assert not role._calls
    found = await results(store, rid)
    assert list(found) == ["1.1"]
    assert found["1.1"]["error"]["message"] == carry.STOPPED_TEXT
    mcp.gate.set()
    async with working(store, mcp):  # the hint that the drain left is enough
        assert (await all_results(store, rid, 2))["1.0"]["ok"]


async def test_a_worker_that_vanishes_costs_one_lease(store, mcp):
    """Its claims run out: what may run again does, the sweeper fails the rest."""
    rid = await made(store, calling(0, "wait", again=True), calling(1, "wait"), url=mcp.url)
    async with working(store, mcp, lease_ms=300):
        store.work.offer("tools", rid)
        await wait_until(lambda: mcp.running == 2)
    mcp.gate.set()
    await store.due.enter(rid, after_ms=0)
    sweeper = asyncio.create_task(Sweeper(store, lease_ms=300).run())
    try:
        async with working(store, mcp, lease_ms=300):
            found = await all_results(store, rid, 2)
    finally:
        sweeper.cancel()
        await asyncio.gather(sweeper, return_exceptions=True)
    assert found["1.0"]["ok"]
    assert (found["1.1"]["ok"], found["1.1"]["failed"]) == (False, "worker lost")
    assert len(mcp.calls) == 3


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_kill_9_in_the_middle_of_five_calls_leaves_one_result_each(valkey_url, mcp, tmp_path):
    namespace = f"kill-{secrets.token_hex(4)}"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RESPOOL_")}
    given = {
        "REDIS_URL": valkey_url,
        "NAMESPACE": namespace,
        "LEASE_S": "2",  # whoever lives renews it, however busy the machine is
        "MCP_ALLOWED_HOSTS": mcp.host,
        "PORT": "0",
        "UPSTREAM_URL": "http://127.0.0.1:9/v1",
    }
    env = (
        kept
        | {f"RESPOOL_{name}": value for name, value in given.items()}
        | {"PYTHONPATH": str(ROOT)}
    )
    command = (sys.executable, "-m", "respool", "serve", "--role", "tools")

    async def start():
        return await asyncio.create_subprocess_exec(
            *command,
            cwd=tmp_path,
            env=env,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async with Store.open(valkey_url, namespace) as store:
        jobs = [calling(i, "wait", again=i < 3) for i in range(5)]
        rid = await made(store, *jobs, url=mcp.url)
        await store.due.enter(rid, after_ms=0)
        first = await start()
        second = None
        try:
            await wait_until(lambda: mcp.running == 5, 20)
            first.send_signal(signal.SIGKILL)
            await first.wait()
            mcp.gate.set()
            second = await start()
            found = await all_results(store, rid, 5, within_s=20)
        finally:
            for process in (first, second):
                if process is not None and process.returncode is None:
                    process.terminate()
                    await process.wait()
            await store.writer.do(delete(store.keys, rid))
            for key in await store.connections.command("KEYS", f"{namespace}:*"):
                await store.connections.command("DEL", key)
    assert {key for key, result in found.items() if result["ok"]} == {"1.0", "1.1", "1.2"}
    assert {found[f"1.{i}"]["failed"] for i in (3, 4)} == {"worker lost"}
    assert len(mcp.calls) == 8


# ---- what goes wrong inside


class Broken(Registry):
    """A tool with a bug of its own."""

    def __init__(self, error) -> None:
        super().__init__(ToolSettings(5))
        self.error = error

    async def run(self, *_):
        if isinstance(self.error, BaseException):
            raise self.error
        return self.error


async def test_a_bug_in_a_tool_is_its_calls_failure_and_shows_nothing(store, caplog):
    rid = await made(store, calling(0, "x"))
    async with Tools(store, Broken(KeyError(TOKEN)), limits()) as role:
        role.take(rid)
        found = await all_results(store, rid, 1)
    assert carry.BROKEN_TEXT in found["1.0"]["content"]
    assert "KeyError" in caplog.text
    assert TOKEN not in caplog.text


async def test_a_result_that_is_no_json_is_a_failed_one(store):
    rid = await made(store, calling(0, "x"))
    async with Tools(store, Broken(carry.Outcome(True, "\ud800")), limits()) as role:
        role.take(rid)
        found = await all_results(store, rid, 1)
    assert "cannot be written" in found["1.0"]["content"]


async def test_a_store_that_is_away_leaves_the_call_to_others(store, caplog):
    rid = await made(store, calling(0, "x"))
    async with Tools(store, Broken(StoreAway("gone")), limits()) as role:
        role.take(rid)
        await wait_until(lambda: not role._calls)
    assert await results(store, rid) == {}
    assert "has no result" in caplog.text


async def test_a_heartbeat_that_is_lost_is_not_the_end(store, mcp, monkeypatch):
    rid = await made(store, calling(0, "sleep", s=0.5), url=mcp.url)
    do, failed = store.writer.do, []

    async def flaky(call):
        if call.script is scripts.HEARTBEAT and not failed:
            failed.append(call)
            raise StoreAway("for a moment")
        return await do(call)

    monkeypatch.setattr(store.writer, "do", flaky)
    async with working(store, mcp, lease_ms=300):
        store.work.offer("tools", rid)
        assert (await all_results(store, rid, 1))["1.0"]["ok"]
    assert failed


async def test_a_role_that_is_left_lets_its_calls_go(store, mcp, monkeypatch):
    monkeypatch.setattr(role_module, "STOP_S", 0.01)
    rid = await made(store, calling(0, "wait"), url=mcp.url)
    async with working(store, mcp) as role:
        role.take(rid)
        await wait_until(lambda: mcp.running == 1)
    assert not role._calls
