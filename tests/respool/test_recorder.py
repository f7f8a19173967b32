"""A server in front of an upstream that writes down what it sends, and one that plays that back."""

import asyncio
import json
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from respool.inspection import player as playing_module
from respool.inspection.player import exchanges_of_files, playing
from respool.inspection.recorder import record, recording
from respool.inspection.screen import Screen
from respool.inspection.tape import exchanges_of
from respool.unusable import Unusable
from streams import transcript
from streams.transcript import sealed
from tests.api.gateway import Listed, running
from tests.ingest.server import End, serving, text_stream
from tests.respool.processes import COMMAND, environment
from tests.wait import wait_until
from translator.protocol.upstream import Upstream

CASES = Path(__file__).parent.parent / "cases"
FRAMES = text_stream("The sky", " is", " blue.")
BODY = {"model": "m", "input": "hi", "stream": True}


@pytest.fixture
def store_url(valkey_url):
    """One kind of store is enough: what is tested stands in front of it."""
    return valkey_url


@asynccontextmanager
async def taped(upstream, path):
    """A recorder in front of an upstream, writing into a file."""
    with path.open("wb") as file:
        async with recording(upstream.url, file) as (url, writing):
            yield url, writing


async def ask(url, path="/responses", body=None, headers=None, method="POST"):
    """Status, content type and body; what breaks is told as a word."""
    async with aiohttp.ClientSession() as session:
        try:
            async with session.request(method, url + path, json=body, headers=headers) as reply:
                return reply.status, reply.content_type, await reply.read()
        except aiohttp.ClientError as error:
            return 0, type(error).__name__, b""


def read(path):
    return exchanges_of(transcript.read(path.read_bytes()))


# ---- recording


async def test_what_passes_is_written_down_and_passes_as_it_is(tmp_path):
    path = tmp_path / "up.respool"
    async with serving() as upstream, taped(upstream, path) as (url, _):
        gate = asyncio.Event()
        upstream.play(*FRAMES[:3], gate, *FRAMES[3:])
        headers = {"authorization": "Bearer sk-very-secret", "x-team": "blue"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/responses?key=sk-in-query", json=BODY, headers=headers) as reply,
        ):
            body = await reply.content.readany()
            asyncio.get_running_loop().call_later(0.06, gate.set)
            body += await reply.content.read()
        assert (reply.status, reply.content_type) == (200, "text/event-stream")
        assert body == b"".join(FRAMES)
        seen = upstream.requests[0]
        assert seen.path == "/v1/responses?key=sk-in-query"
        assert seen.headers["authorization"] == "Bearer sk-very-secret"
        assert seen.headers["x-team"] == "blue"
    text = path.read_text()
    assert "sk-very-secret" not in text
    assert "sk-in-query" not in text
    (exchange,) = read(path)
    assert (exchange.path, exchange.status, exchange.end) == ("/responses", 200, "eof")
    assert exchange.asked == BODY
    assert b"".join(data for _, data in exchange.chunks) == body
    assert exchange.chunks[-1][0] - exchange.chunks[0][0] >= 50
    assert exchange.headers == {"content-type": "text/event-stream"}


async def test_refusals_and_broken_answers_are_written_as_what_they_are(tmp_path):
    path = tmp_path / "up.respool"
    refusal = b'{"error":{"message":"Slow down."}}'
    async with serving() as upstream, taped(upstream, path) as (url, _):
        heads = {"content-type": "application/json", "retry-after": "3", "set-cookie": "a=secret"}
        upstream.play(refusal, status="429 Too Many Requests", headers=heads)
        upstream.play(*FRAMES[:3], End.RESET)
        upstream.play(*FRAMES)
        assert await ask(url, body=BODY) == (429, "application/json", refusal)
        assert (await ask(url, body=BODY))[0] == 0, "the client hears that it broke"
    refused, broken = read(path)
    assert (refused.status, refused.end, refused.headers["retry-after"]) == (429, "eof", "3")
    assert "set-cookie" not in refused.headers
    assert broken.end == "reset"
    assert b"".join(data for _, data in broken.chunks) == b"".join(FRAMES[:3])


async def test_an_upstream_that_is_not_there_is_a_502(tmp_path):
    path = tmp_path / "up.respool"
    async with serving() as upstream:
        pass
    async with taped(upstream, path) as (url, _):
        status, _, body = await ask(url, body=BODY)
    assert (status, b"could not be reached" in body) == (502, True)
    assert str(upstream.port).encode() not in body
    assert read(path)[0].end == "refused"


async def test_a_client_that_leaves_is_written_down(tmp_path):
    path = tmp_path / "up.respool"
    async with serving() as upstream, taped(upstream, path) as (url, writing):
        upstream.play(*FRAMES[:3], End.HANG)
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/responses", json=BODY) as reply,
        ):
            await reply.content.readany()
        await wait_until(upstream.requests[0].left.is_set)
        assert writing.exchanges == 1
    assert read(path)[0].end == "left"


async def test_the_command_ends_with_a_whole_file(tmp_path):
    async with serving() as upstream:
        upstream.play(*FRAMES)
        words = ("record", "--upstream", upstream.url, "up.respool")
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *words,
            cwd=tmp_path,
            env=environment({}),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            line = (await process.stdout.readline()).decode()
            url = line.strip().partition("RESPOOL_UPSTREAM_URL=")[2]
            assert url.endswith("/v1")
            assert (await ask(url, body=BODY))[0] == 200
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert (process.returncode, out, err) == (0, b"up.respool: 1 exchange\n", b"")
    assert len(read(tmp_path / "up.respool")) == 1


# ---- playing


async def test_a_recording_plays_back_byte_for_byte(tmp_path):
    path = tmp_path / "up.respool"
    ways = []
    async with serving() as upstream, taped(upstream, path) as (url, _):
        upstream.play(*FRAMES)
        upstream.play(b'{"error":{}}', status="500 Oops", headers={"content-type": "text/plain"})
        upstream.play(*FRAMES[:3], End.RESET)
        upstream.play(b'{"object":"list","data":[]}', headers={"content-type": "application/json"})
        upstream.play(*FRAMES)
        ways += [await ask(url, body={"n": n}) for n in (1, 2, 3)]
        ways.append(await ask(url, "/models", method="GET"))
    async with playing(read(path)) as (again, player):
        assert [await ask(again, body={"n": n}) for n in (1, 2, 3)] == ways[:3]
        assert await ask(again, "/models", method="GET") == ways[3]
        assert (await ask(again, "/nothing", body={}))[0] == 404
        assert player.played == [0, 1, 2, 3]


async def test_the_exchange_with_the_same_body_answers_and_then_the_next(tmp_path):
    path = tmp_path / "up.respool"
    async with serving() as upstream, taped(upstream, path) as (url, _):
        for n in range(4):
            upstream.play(b"data: %d\n\n" % n)
        for body in ({"a": 1}, {"a": 2}, {"a": 1}):
            await ask(url, body=body)
    async with playing(read(path)) as (again, player):
        for body in ({"a": 2}, {"a": 1}, {"other": 1}, {"a": 1}, {"a": 2}):
            await ask(again, body=body)
    assert player.played == [1, 0, 2, 0, 1], "equal first, then the next; then from the beginning"


async def test_the_pace_is_the_original_one_or_none():
    exchange = read_export("name-comes-last")[0]
    loop = asyncio.get_running_loop()
    took = []
    for speed in (1.0, None):
        async with playing([exchange], speed=speed) as (url, _):
            began = loop.time()
            _, _, body = await ask(url, body={})
            took.append(loop.time() - began)
        assert body == b"".join(data for _, data in exchange.chunks)
    assert took[0] >= exchange.ended_ms / 1000
    assert took[1] < took[0]


def read_export(name):
    return exchanges_of_files([str(CASES / f"{name}.respool")])


def test_an_export_is_the_upstreams_part_of_a_response():
    (text,) = read_export("text")
    assert (text.path, text.status, text.end, text.model) == ("/responses", 200, "eof", "m")
    (refused,) = read_export("refused-429")
    assert (refused.status, refused.headers["retry-after"]) == (429, "7")
    rounds = read_export("tool-times-out")
    assert [len(one.asked["input"]) for one in rounds] == sorted(
        len(o.asked["input"]) for o in rounds
    )
    assert len(rounds) == 3
    (chat,) = read_export("chat-reasoning")
    assert chat.path == "/chat/completions"
    (cancelled,) = read_export("cancelled")
    assert cancelled.end == "reset"


async def test_a_bug_of_production_is_a_test_in_one_command(store, tmp_path):
    """An export, served by the command itself, in front of which a gateway makes the same of it."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("upstream", str(CASES / "cut-by-a-proxy.respool"), "--json"),
        cwd=tmp_path,
        env=environment({}),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        url = json.loads(await process.stdout.readline())["url"]
        async with serving() as unused:
            upstreams = Listed(Upstream("main", url, "chat"))
            async with running(store, unused, upstreams=upstreams) as gateway:
                made = await gateway.made(input="Which quarter was the best?")
        process.terminate()
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert made["status"] == "failed"
    assert made["output"][0]["content"][0]["text"] == "Let me look at the numbers first."
    assert json.loads(out) == {"played": [0]}


def test_what_cannot_be_played_is_told(tmp_path):
    path = tmp_path / "x.respool"
    path.write_bytes(b"".join(sealed([transcript.header_line("upstream")])))
    with pytest.raises(Unusable, match="nothing to play"):
        exchanges_of_files([str(path)])
    lines = [transcript.header_line("upstream"), b'{"exchange":1,"at":0,"status":200}\n']
    path.write_bytes(b"".join(sealed(lines)))
    with pytest.raises(Unusable, match="as Respool writes one"):
        exchanges_of_files([str(path)])
    lines = [transcript.header_line("lunch")]
    path.write_bytes(b"".join(sealed(lines)))
    with pytest.raises(Unusable, match="not of a response"):
        exchanges_of_files([str(path)])


async def test_a_port_that_is_taken_is_told():
    (exchange,) = read_export("text")
    async with playing([exchange]) as (url, _):
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(Unusable, match=f"port {port}: "):
            async with playing_module.playing([exchange], port=port):
                raise AssertionError("it is taken")


@pytest.mark.parametrize("upstream", ["ftp://x/v1", "x", "http://user:word@x", "http://x/v1?a=b"])
async def test_an_upstream_that_none_can_be_is_told_before_a_file_is_made(upstream, tmp_path):
    with pytest.raises(Unusable, match=r"^--upstream: must "):
        await record(Screen(as_json=False), upstream, tmp_path / "x", port=0)
    assert not (tmp_path / "x").exists()
