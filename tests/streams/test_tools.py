"""Jobs with create and commit; claim_tool, heartbeat_tool, release_tool, tool_result, expire_tools."""

import asyncio
import json

import pytest

from streams.scripts import tools
from streams.scripts.refused import Reason
from tests.streams.rig import refused, refused_unchanged
from tests.wait import wait_until
from translator.protocol.entries import Entry, Kind


def job(key: str, *, again: bool = False, kind: str = "call") -> tuple[str, bytes]:
    data = {"key": key, "kind": kind, "tool": "mcp", "idempotent": again, "arguments": '{"a":"é"}'}
    return key, json.dumps(data).encode()


def calls(count: int, **changes) -> list[tuple[str, bytes]]:
    return [job(f"1.{slot}", **changes) for slot in range(count)]


LOST = "The worker that ran this call was lost."
LIST = job("list.0", kind="list")


async def created(rig, *jobs, **changes):
    await rig.create(jobs=jobs, **changes)
    return rig


async def ran_out(rig, by: str = "dead", **changes):
    """A claim whose lease is over."""
    claimed = await rig.claim_tool(by, lease_ms=1, **changes)
    await wait_until(lambda: over(rig, claimed.t + 1))
    return claimed


async def over(rig, moment: int) -> bool:
    return await rig.store.logs.now() > moment


# ---- jobs come with create and commit


async def test_jobs_and_secrets_come_with_the_response_and_live_as_long(rig):
    await created(rig, LIST, job("list.1", kind="list"), round_body=None, secrets=b'{"s":1}')
    state = await rig.state()
    assert (state.jobs, state.rstate, state.last) == (2, "", 1)
    lives = await rig.lifetimes()
    assert set(lives) == {"st", "in", "sec", "jobs"}
    assert max(lives.values()) - min(lives.values()) < 1000
    assert await rig.do(tools.read_secrets(rig.keys, rig.rid)) == b'{"s":1}'


async def test_a_repeated_create_with_jobs_changes_nothing(rig):
    await created(rig, LIST, secrets=b"s")
    await rig.claim_tool()
    before = await rig.everything()
    assert (await rig.create(jobs=[LIST], secrets=b"s")).dup
    assert await rig.everything() == before


async def test_a_response_without_jobs_has_neither_key(rig):
    await rig.create()
    assert set(await rig.lifetimes()) == {"st", "in"}
    assert await rig.do(tools.read_secrets(rig.keys, rig.rid)) == b""
    assert await refused_unchanged(rig, rig.claim_tool()) == [Reason.NOTHING]


async def test_a_commit_adds_jobs_in_its_own_step(rig):
    await rig.running()
    await rig.commit(0, 3, 0, b"a", b"b", jobs=calls(2))
    assert (await rig.state()).jobs == 2
    lives = await rig.lifetimes()
    assert abs(lives["jobs"] - lives["st"]) < 1000
    await rig.commit(3, 3, 2, b"c", jobs=[job("2.0")])
    taken = [(await rig.claim_tool(f"w{i}")).key for i in range(3)]
    assert taken == ["1.0", "1.1", "2.0"]
    page = await rig.store.logs.read_output(rig.rid, -1)
    assert [frame.data for frame in page.frames] == [b"a", b"b", b"c"]


async def test_a_job_that_is_there_already_stays_as_it_was(rig):
    await rig.running()
    await rig.commit(0, 3, 0, b"a", jobs=calls(1))
    await rig.claim_tool()
    await rig.commit(3, 3, 1, b"b", jobs=[job("1.0", again=True), job("1.1")])
    assert (await rig.state()).jobs == 2
    assert (await rig.claim_tool("other")).key == "1.1"
    await rig.commit(3, 3, 2, b"c", jobs=[job("1.0", again=True)])
    assert (await rig.state()).jobs == 2


async def test_a_repeated_or_refused_commit_adds_no_job(rig):
    await rig.running()
    await rig.commit(0, 3, 0, b"a", jobs=calls(1))
    before = await rig.everything()
    assert (await rig.commit(0, 3, 0, b"a", jobs=calls(1))).dup
    assert await refused(rig.commit(0, 3, 1, b"b", jobs=calls(9))) is Reason.CURSOR
    assert await rig.everything() == before


async def test_the_terminal_commit_takes_jobs_and_secrets_away(rig):
    await created(rig, *calls(2), secrets=b"s")
    await rig.acquire()
    held = await rig.claim_tool()
    await rig.finish(0, 0, b"end", jobs=[job("2.0")])
    assert set(await rig.lifetimes()) == {"st", "in", "out"}
    assert (await rig.state()).jobs == 0
    assert (
        await refused_unchanged(
            rig, rig.claim_tool("x"), rig.tool_result("1.0"), rig.expire_tools()
        )
        == [Reason.DONE] * 3
    )
    assert (await rig.beat_tool(held.fence)).done
    assert await refused(rig.release_tool(held.fence)) is Reason.FENCED


async def test_a_delete_takes_them_too(rig):
    await created(rig, *calls(1), secrets=b"s")
    held = await rig.claim_tool()
    await rig.delete()
    assert await rig.lifetimes() == {}
    assert [
        await refused(call)
        for call in (
            rig.claim_tool("x"),
            rig.beat_tool(held.fence),
            rig.release_tool(held.fence),
            rig.tool_result("1.0"),
            rig.expire_tools(),
        )
    ] == [Reason.MISSING] * 5


# ---- claims


async def test_a_claim_gives_the_first_job_and_tells_of_the_rest(rig):
    await created(rig, *calls(3))
    claimed = await rig.claim_tool("tok")
    assert (claimed.key, claimed.data, claimed.fence) == ("1.0", calls(1)[0][1], "1.0:tok")
    assert (claimed.free, claimed.dup) == (2, False)
    assert (await rig.claim_tool("b")).key == "1.1"


async def test_a_repeated_claim_is_the_same_claim(rig):
    await created(rig, *calls(2))
    first = await rig.claim_tool("tok")
    before = await rig.everything()
    again = await rig.claim_tool("tok")
    assert again.dup
    assert (again.key, again.fence, again.data, again.free) == ("1.0", first.fence, first.data, 1)
    assert await rig.everything() == before


async def test_five_run_and_the_sixth_starts_when_any_of_them_has_its_result(rig):
    await created(rig, *calls(7))
    for i in range(5):
        await rig.claim_tool(f"w{i}")
    assert await refused_unchanged(rig, rig.claim_tool("w5")) == [Reason.LEASED]
    await rig.tool_result("1.3")
    assert (await rig.claim_tool("w5")).key == "1.5"
    assert await refused(rig.claim_tool("w6")) is Reason.LEASED
    for slot in (0, 1, 2, 4, 5):
        await rig.tool_result(f"1.{slot}")
    assert (await rig.claim_tool("w6")).key == "1.6"
    assert await refused(rig.claim_tool("w7")) is Reason.NOTHING


async def test_a_claim_that_ran_out_is_given_again_only_where_the_job_may_run_twice(rig):
    await created(rig, job("1.0"), job("1.1", again=True), LIST)
    for name in "abc":
        await ran_out(rig, name)
    assert [(await rig.claim_tool(f"new {i}")).key for i in range(2)] == ["1.1", "list.0"]
    assert await refused(rig.claim_tool("x")) is Reason.NOTHING


async def test_a_claim_that_ran_out_frees_its_place_of_the_five(rig):
    await created(rig, *calls(2))
    await ran_out(rig, limit=1)
    assert (await rig.claim_tool("next", limit=1)).key == "1.1"


async def test_a_job_that_kills_its_workers_is_not_given_for_ever(rig):
    await created(rig, *calls(1, again=True))
    for name in "ab":
        await ran_out(rig, name, max_tries=2)
    assert await refused(rig.claim_tool("c", max_tries=2)) is Reason.NOTHING
    expired = await rig.expire_tools(max_tries=2)
    assert [entry.kind for entry in expired.entries] == [Kind.TOOL_RESULT]


async def test_nothing_is_begun_for_a_cancelled_response(rig):
    await created(rig, *calls(2))
    held = await rig.claim_tool()
    await rig.cancel()
    assert await refused_unchanged(rig, rig.claim_tool("x")) == [Reason.NOTHING]
    assert (await rig.beat_tool(held.fence)).cancelled


async def test_a_heartbeat_keeps_a_claim(rig):
    await created(rig, *calls(1, again=True))
    held = await rig.claim_tool(lease_ms=200)
    alive = await rig.beat_tool(held.fence, lease_ms=100_000)
    assert (alive.cancelled, alive.done) == (False, False)
    await wait_until(lambda: over(rig, held.t + 200))
    assert await refused(rig.claim_tool("x")) is Reason.NOTHING


async def test_only_the_holder_beats_or_gives_back(rig):
    await created(rig, *calls(1, again=True))
    first = await ran_out(rig)
    second = await rig.claim_tool("second")
    fences = (first.fence, "1.0:", "1.9:second", "1.0:dea", "garbage", "")
    beats = [rig.beat_tool(fence) for fence in fences]
    backs = [rig.release_tool(fence) for fence in fences]
    assert set(await refused_unchanged(rig, *beats, *backs)) == {Reason.FENCED}
    await rig.tool_result("1.0")
    assert await refused_unchanged(
        rig, rig.beat_tool(second.fence), rig.release_tool(second.fence)
    ) == [Reason.FENCED, Reason.FENCED]


async def test_what_is_given_back_may_be_taken_at_once(rig):
    await created(rig, *calls(1))
    held = await rig.claim_tool()
    await rig.release_tool(held.fence)
    assert (await rig.claim_tool("next")).key == "1.0"


# ---- results


async def test_the_first_result_wins_and_a_later_one_changes_nothing(rig):
    await created(rig, *calls(2))
    one = await rig.tool_result("1.0", b'{"first":1}')
    assert (one.n, one.dup, one.left) == (3, False, 1)
    assert one.entry == Entry(3, Kind.TOOL_RESULT, one.t, b'{"first":1}')
    assert (await rig.log())[2:] == [one.entry]
    before = await rig.everything()
    two = await rig.tool_result("1.0", b'{"second":1}')
    assert (two.n, two.t, two.dup, two.left) == (3, one.t, True, 1)
    assert await rig.everything() == before
    assert (await rig.state()).jobs == 1


async def test_two_workers_with_the_same_result_leave_one_entry(rig, elsewhere):
    await created(rig, *calls(1))
    both = [
        store.writer.do(
            tools.tool_result(rig.keys, rig.rid, key="1.0", data=b"%d" % i, kind=Kind.TOOL_RESULT)
        )
        for i, store in enumerate((rig.store, elsewhere))
    ]
    ends = await asyncio.gather(*both)
    assert sorted(end.dup for end in ends) == [False, True]
    assert len(await rig.log()) == 3


async def test_a_list_is_an_entry_of_its_own_kind(rig):
    await created(rig, LIST)
    end = await rig.tool_result("list.0", b'{"tools":[]}', kind=Kind.TOOLS_LISTED)
    assert (await rig.log())[-1] == Entry(3, Kind.TOOLS_LISTED, end.t, b'{"tools":[]}')


async def test_a_result_of_a_job_that_nobody_gave_is_refused(rig):
    await created(rig, *calls(1))
    assert await refused_unchanged(rig, rig.tool_result("9.9")) == [Reason.GAP]


async def test_a_log_that_is_full_takes_a_short_result_only(rig):
    await created(rig, *calls(1))
    long = b"x" * (tools.ALWAYS_FITS + 1)
    assert await refused_unchanged(rig, rig.tool_result("1.0", long, max_in_bytes=100)) == [
        Reason.TOO_LARGE
    ]
    assert not (await rig.tool_result("1.0", long[:-1], max_in_bytes=100)).dup


# ---- the sweeper's part


async def test_dead_claims_that_must_not_run_again_get_a_failed_result(rig):
    await created(rig, job("1.0"), job("1.1", again=True), job("1.2"), job("1.3"))
    for name in "ab":
        await ran_out(rig, name)
    live = await rig.claim_tool("live", lease_ms=50_000, limit=9)
    assert live.key == "1.1"
    expired = await rig.expire_tools()
    assert [json.loads(entry.data)["key"] for entry in expired.entries] == ["1.0"]
    assert expired.next_at > live.t + 40_000
    assert expired.free == 2
    assert (await rig.log())[-1:] == expired.entries
    assert (await rig.state()).jobs == 3
    result = json.loads(expired.entries[0].data)
    assert (result["ok"], result["failed"]) == (False, "worker lost")
    assert json.loads(result["content"]) == {"error": LOST}
    again = await rig.expire_tools()
    assert (again.entries, again.free) == ([], 2)
    late = await rig.tool_result("1.0", b'{"late":1}')
    assert late.dup


async def test_a_list_whose_workers_all_died_has_an_error(rig):
    await created(rig, LIST)
    await ran_out(rig, max_tries=1)
    (entry,) = (await rig.expire_tools(max_tries=1)).entries
    assert entry.kind == Kind.TOOLS_LISTED
    assert json.loads(entry.data) == {"key": "list.0", "tools": [], "error": LOST}


async def test_jobs_that_no_worker_takes_fail_once_they_have_waited_too_long(rig):
    await created(rig, LIST, job("1.0"), job("1.1"))
    patient = await rig.expire_tools(wait_ms=60_000)
    assert (patient.entries, patient.free) == ([], 3)
    await asyncio.sleep(0.005)  # the server's clock must have moved on
    ended = await rig.expire_tools(wait_ms=1)
    assert [(entry.kind, json.loads(entry.data)["key"]) for entry in ended.entries] == [
        (Kind.TOOLS_LISTED, "list.0"),
        (Kind.TOOL_RESULT, "1.0"),
        (Kind.TOOL_RESULT, "1.1"),
    ]
    assert "No tool worker" in json.loads(ended.entries[0].data)["error"]
    assert "No tool worker" in json.loads(ended.entries[1].data)["error"]["message"]
    state = await rig.state()
    assert (state.jobs, len(state.results)) == (0, 2)
    assert (await rig.expire_tools(wait_ms=1)).entries == []


async def test_jobs_wait_as_long_as_one_of_theirs_runs(rig):
    await created(rig, job("1.0"), job("1.1"))
    assert (await rig.claim_tool("live", lease_ms=50_000, limit=1)).key == "1.0"
    await asyncio.sleep(0.005)
    waiting = await rig.expire_tools(wait_ms=1)
    assert (waiting.entries, waiting.free) == ([], 1)


async def test_there_is_nothing_to_end_while_all_live(rig):
    await created(rig, *calls(2))
    await rig.claim_tool()
    before = await rig.everything()
    expired = await rig.expire_tools()
    assert (expired.entries, expired.free) == ([], 1)
    assert await rig.everything() == before


@pytest.mark.parametrize("jobs", [1, 128])
async def test_as_many_jobs_as_a_round_has_are_claimed_in_order(rig, jobs):
    await created(rig, *calls(jobs))
    keys = [(await rig.claim_tool(f"w{i}", limit=1000)).key for i in range(jobs)]
    assert keys == [f"1.{i}" for i in range(jobs)]
