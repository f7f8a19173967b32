"""What `respool serve` says of itself at /metrics, read by Prometheus' own parser."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from respool import __version__
from respool.demo_upstream import serving
from respool.process import open_files, resident_bytes
from tests.frames import frames
from tests.respool.processes import get, post, replica, streaming

pytestmark = pytest.mark.timeout(90)


async def figures(served):
    """Every sample: value by name and labels."""
    text = (await get(served.url, "/metrics"))[1]
    return text, {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_stream_is_seen_in_the_figures_and_its_tenant_and_id_are_not(tmp_path):
    key = {"authorization": "Bearer opensesame"}
    async with (
        serving() as upstream,
        replica(tmp_path, UPSTREAM_URL=upstream, API_KEYS="acme=opensesame") as served,
    ):
        _, before = await figures(served)
        status, _ = await post(served.url)  # without a key
        assert status == 401
        async with streaming(served.url, headers=key) as answer:
            incoming = frames(answer)
            seen = [await anext(incoming) for _ in range(8)]
            _, running = await figures(served)
            seen += [frame async for frame in incoming]
        text, after = await figures(served)
    assert seen[-1] == b"data: [DONE]\n\n"

    def rose(*what):
        name = (f"respool_{what[0]}", *what[1:])
        return after[name] - before[name]

    assert rose("public_frames_total") == len(seen) - 1
    assert rose("upstream_frames_total") > 5
    assert rose("responses_ended_total", "completed") == 1
    assert rose("responses_created_total", "stream") == 1
    assert rose("requests_refused_total", "key") == 1
    assert rose("rounds_ended_total", "ok") == 1
    assert rose("translations_acquired_total", "anew") == 1
    assert rose("store_round_trips_total", "write") > 3
    for once in ("first_frame_seconds", "upstream_first_frame_seconds"):
        assert rose(f"{once}_count") == 1
    for often in ("append_lag_seconds", "frame_lag_seconds", "store_round_trip_seconds"):
        assert rose(f"{often}_count") > 1
        assert 0 <= rose(f"{often}_sum") < 5
    assert (running["respool_readers",], after["respool_readers",]) == (1, 0)
    assert [running["respool_leases_held", of] for of in ("translate", "round", "tool")] == [
        1,
        1,
        0,
    ]
    assert [after["respool_leases_held", of] for of in ("translate", "round", "tool")] == [0, 0, 0]
    assert after["respool_work_waiting", "rounds"] == after["respool_due_overdue",] == 0
    assert after["respool_build_info", __version__, "api,ingest,tools,translate"] == 1
    assert after["respool_process_resident_memory_bytes",] > 20e6
    assert not [word for word in ("acme", "resp_", "opensesame", "demo") if word in text]


async def test_a_worker_shows_only_the_leases_of_its_role_and_the_stores_figures(tmp_path):
    async with replica(tmp_path, "translate") as served:
        _, found = await figures(served)
    assert [key for key in found if key[0] == "respool_leases_held"] == [
        ("respool_leases_held", "translate")
    ]
    assert found["respool_due_responses",] == 0


def test_what_a_system_does_not_tell_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr("respool.process.SELF", tmp_path)
    assert resident_bytes() is None
    assert open_files() is None
