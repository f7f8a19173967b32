"""Regression cases: every export in `tests/cases/` is folded again, and served again by a whole gateway.

Drop a file of `respool export` there and it runs. Folded again it must give its own frames, byte for byte. Served again
means: a scripted upstream plays its upstream's part, recorded results stand in for the tool servers, and the client must
be shown the same events, ids and times aside. What cannot be played (a cancel of somebody's, a lost process, a silence)
is only folded.
"""

import asyncio
import json
import secrets
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from respool.inspection.account import payload
from respool.inspection.contrast import plain
from respool.inspection.evidence import of_file
from respool.inspection.player import playing
from respool.inspection.tape import exchanges_of
from streams import recording, transcript
from streams.scripts import tools
from streams.scripts.refused import Refused
from tests.api.gateway import DONE, Listed, Reply, running
from tests.ingest.server import Server
from translator.protocol.entries import Kind
from translator.protocol.json import loads
from translator.protocol.upstream import Upstream
from translator.refold import Identical, compare, refold

CASES = sorted(Path(__file__).with_name("cases").glob("*.respool*"))
UNPLAYABLE = {"lost", "timeout", "refused"}
LEASE_MS = 5_000


@pytest.fixture
def store_url(valkey_url):
    """A real server; fakeredis would add nothing here."""
    return valkey_url


def test_there_are_cases():
    assert len(CASES) >= 8


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_a_case_is_folded_to_its_own_frames(path):
    found = of_file(str(path))
    stored = [frame.data for frame in found.frames]
    result = compare(refold(found.rid, found.entries), stored, whole=found.state.done)
    assert isinstance(result, Identical), result


def unplayable(found):
    """Why a case can only be folded, or nothing."""
    if found.request["history"]:
        return "it goes on from a response that is not there"
    for entry in found.entries:
        if entry.kind == Kind.CANCEL:
            return "somebody has cancelled it"
        if entry.kind == Kind.ROUND_END and loads(entry.data)["how"] in UNPLAYABLE:
            return f"an attempt ended as {loads(entry.data)['how']}"
    return ""


@asynccontextmanager
async def recorded_tools(store, found):
    """In place of tool servers: a worker that answers each job of any response as it was answered then."""
    kinds = (Kind.TOOL_RESULT, Kind.TOOLS_LISTED)
    results = {loads(e.data)["key"]: e for e in found.entries if e.kind in kinds}

    async def work():
        while True:
            for key in await store.connections.command("KEYS", f"{store.keys.ns}:*:jobs"):
                rid = key.decode().partition("{")[2].partition("}")[0]
                await answer(rid)
            await asyncio.sleep(0.005)

    async def answer(rid):
        try:
            while True:
                token = secrets.token_hex(8)  # a claim that is repeated gets the same job again
                call = tools.claim_tool(store.keys, rid, token=token, lease_ms=LEASE_MS, limit=9)
                claim = await store.writer.do(call)
                entry = results[claim.key]
                done = tools.tool_result(
                    store.keys, rid, key=claim.key, data=entry.data, kind=entry.kind
                )
                await store.writer.do(done)
        except Refused:
            return  # nothing is free: it was answered, or has ended

    async with asyncio.TaskGroup() as group:
        task = group.create_task(work())
        yield
        task.cancel()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
async def test_a_case_is_served_again_with_the_same_events(path, store):
    found = of_file(str(path))
    if reason := unplayable(found):
        pytest.skip(reason)
    exchanges = exchanges_of(transcript.read(path.read_bytes()))
    request = found.request
    said = request["upstream"]
    async with playing(exchanges) as (url, player), recorded_tools(store, found):
        upstream = Upstream(
            said["id"],
            url,
            said["api"],
            custom_formats=said["custom_formats"],
            reasoning_history=said.get("reasoning_history", "none"),
        )
        async with running(
            store,
            Server(),
            upstreams=Listed(upstream),
            limits=request["limits"],
            gateway_tools=("web_search", "mcp"),
        ) as gateway:
            body = {**request["request"], "input": request["input"], "stream": True}
            reply: Reply = await gateway.ask("POST", "/v1/responses", body)
            if reply.status != 200:  # refused by the upstream before anything was public
                error = payload(found.frames[-1].data)["response"]["error"]
                assert reply.error["message"] == error["message"]
                return
            *frames, done = reply.frames
            assert done == DONE
            rid = json.loads(frames[0].partition(b"\ndata: ")[2])["response"]["id"]
            again = await recording.read(store.logs, rid)
    assert [frame.data for frame in again.frames] == frames
    assert isinstance(compare(refold(rid, again.entries), frames), Identical)
    shown = [plain(payload(frame.data)) for frame in found.frames]
    assert [plain(payload(frame)) for frame in frames] == shown
    assert player.played == list(range(len(exchanges)))
