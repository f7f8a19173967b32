"""A rolling upgrade to code that folds otherwise: what runs ends with a clear failure, never with two codes' frames.

The second version is this one with a patch that its environment brings: another way to name items.
"""

import json
import os
import signal
from pathlib import Path

import pytest

from respool import demo_upstream
from respool.demo_upstream import serving
from tests.frames import frames
from tests.respool.processes import get, post, replica, streaming
from tests.wait import wait_until
from workers.translate_end import MESSAGE

pytestmark = pytest.mark.timeout(90)

PATCH = """
import translator.ids as ids

before = ids.item_id
ids.item_id = lambda *args, **named: before(*args, **named) + "ff"
"""
ROOT = Path(__file__).parents[2]


def event(frame):
    return json.loads(frame.partition(b"data: ")[2])


async def counted(served, series):
    """A figure of a process."""
    text = (await get(served.url, "/metrics"))[1]
    return f"\n{series} 1\n" in text


async def test_a_response_that_another_version_cannot_continue_fails_clearly_and_alone(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(demo_upstream, "HELLO", "Hello " * 400)  # 20 s at the model's pace
    (tmp_path / "sitecustomize.py").write_text(PATCH)
    async with serving() as upstream:
        settings = {"UPSTREAM_URL": upstream}
        async with (
            replica(tmp_path, "api", "ingest", **settings) as door,
            replica(tmp_path, "translate", **settings) as old,
        ):
            early = (await post(door.url))[1]
            async with streaming(door.url) as answer:
                incoming = frames(answer)
                seen = [await anext(incoming) for _ in range(6)]
                new = replica(tmp_path, "translate", **settings)
                path = os.pathsep.join((str(tmp_path), str(ROOT)))
                new._settings["PYTHONPATH"] = path  # not one of ours: without the prefix
                async with new:
                    old.signal(signal.SIGTERM)
                    seen += [frame async for frame in incoming]
                    assert await old.wait() == 0
                    rid = event(seen[0])["response"]["id"]
                    stored = (await get(door.url, f"/v1/responses/{rid}?stream=true"))[1]
                    final = json.loads((await get(door.url, f"/v1/responses/{rid}"))[1])
                    late = (await post(door.url))[1]
                    earlier = (await get(door.url, f"/v1/responses/{early['id']}"))[1]
                    failed = 'respool_folds_failed_total{reason="Diverged"}'
                    await wait_until(lambda: counted(new, failed))
                    assert await counted(new, 'respool_responses_ended_total{status="failed"}')
                log = new.log()
    # one stream, whole: the old version's frames and an end that closes what they had opened
    assert b"".join(seen) == stored.encode()
    events = [event(frame) for frame in seen[:-1]]
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    ids = {one["item_id"] for one in events if "item_id" in one}
    assert len(ids) == 1
    assert not ids.pop().endswith("ff")
    last = events[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": "server_error", "message": MESSAGE}
    assert final == last["response"]
    assert [item["status"] for item in final["output"]] == ["incomplete"]
    assert f"{rid} cannot be continued: the fold does not give the frames that were" in log
    # what begins under the new version, and what had ended under the old, is well
    assert (late["status"], late["output"][0]["id"][-2:]) == ("completed", "ff")
    assert json.loads(earlier) == early
