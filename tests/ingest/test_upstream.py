import asyncio
import gzip
import json
import socket
import zlib

import pytest

from ingest.decoding import STEP_BYTES
from ingest.refusal import RoundError
from ingest.upstream import Answer, UpstreamClient
from tests.ingest.server import End, Server, text_stream
from translator.protocol.entries import RoundEnd
from translator.protocol.upstream import Upstream

pytestmark = pytest.mark.anyio

KEY = "sk-upstream-secret-0001"


def upstream(url: str, key: str | None = KEY) -> Upstream:
    return Upstream(id="main", base_url=url, api="responses", api_key=key)


async def everything(answer: Answer) -> bytes:
    body = b""
    while chunk := await answer.read():
        body += chunk
    return body


async def outcome(url: str, **options: float) -> bytes | RoundEnd:
    """What one request brings: the whole body, or how it failed."""
    async with UpstreamClient(**options) as client:
        try:
            async with client.open(upstream(url), "responses", b"{}") as answer:
                return await everything(answer)
        except RoundError as failure:
            return failure.end


async def test_the_stored_body_goes_up_with_our_key_and_nothing_else(server: Server) -> None:
    server.play(b"data: [DONE]\n\n", headers={"set-cookie": "a=b; path=/"})
    async with UpstreamClient() as client:
        for _ in range(2):
            async with client.open(upstream(server.url), "responses", b'{"x":1}') as answer:
                assert await everything(answer) == b"data: [DONE]\n\n"
    first, second = server.requests
    assert first.path == "/v1/responses"
    assert first.body == b'{"x":1}'
    assert first.headers == {
        "host": f"127.0.0.1:{server.port}",
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "user-agent": "respool",
        "authorization": f"Bearer {KEY}",
        "content-length": "7",
    }
    assert second.headers == first.headers  # no cookie either
    assert second.connection == first.connection  # kept alive once the body has ended


async def test_an_upstream_without_a_key_gets_no_authorization_and_chat_its_own_path(
    server: Server,
) -> None:
    server.play(b"data: [DONE]\n\n")
    async with (
        UpstreamClient() as client,
        client.open(upstream(server.url + "/", None), "chat", b"{}") as answer,
    ):
        await everything(answer)
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].path == "/v1/chat/completions"


async def test_bytes_come_as_soon_as_they_are_there(server: Server) -> None:
    go_on = asyncio.Event()
    server.play(b"data: 1\n\n", go_on, b"data: 2\n\n")
    async with (
        UpstreamClient() as client,
        client.open(upstream(server.url), "responses", b"{}") as answer,
    ):
        assert await answer.read() == b"data: 1\n\n"
        go_on.set()
        assert await answer.read() == b"data: 2\n\n"
        assert await answer.read() == b""


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("Deflate", lambda raw: zlib.compress(raw, wbits=-15)),
        ("identity", lambda raw: raw),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_a_compressed_body_is_decoded_although_none_was_asked_for(
    server: Server, encoding: str, pack, size: int
) -> None:
    raw = b"".join(text_stream("a" * 100, "b"))
    packed = pack(raw)
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    server.play(*pieces, headers={"content-encoding": encoding})
    assert await outcome(server.url) == raw


async def test_a_compressed_bomb_is_given_out_in_pieces(server: Server) -> None:
    bomb = gzip.compress(bytes(8 * 1024 * 1024))
    server.play(bomb, headers={"content-encoding": "gzip"})
    async with (
        UpstreamClient() as client,
        client.open(upstream(server.url), "responses", b"{}") as answer,
    ):
        assert len(await answer.read()) == STEP_BYTES


@pytest.mark.parametrize(
    ("steps", "headers", "how", "code"),
    [
        ([b"data: 1\n\n", End.CUT], {}, "reset", "upstream_error"),
        ([b"data: 1\n\n", End.RESET], {}, "reset", "upstream_error"),
        ([b"data: 1", End.CUT], {"content-length": "900"}, "reset", "upstream_error"),
        ([gzip.compress(b"data: 1\n\n")[:-4]], {"content-encoding": "gzip"}, "reset", None),
        ([b"no gzip"], {"content-encoding": "gzip"}, "reset", "upstream_protocol_error"),
        ([b"x"], {"content-encoding": "br"}, "http", "upstream_protocol_error"),
        ([b"x"], {"content-encoding": "zstd"}, "http", "upstream_protocol_error"),
    ],
)
async def test_a_body_that_breaks_off_is_a_failed_round(
    server: Server, steps, headers, how: str, code: str | None
) -> None:
    server.play(*steps, headers=headers)
    end = await outcome(server.url)
    assert isinstance(end, dict)
    assert end["how"] == how
    assert end["error"]["status"] == 502
    assert end["error"]["code"] == (code or "upstream_error")


async def test_an_upstream_that_is_not_there_is_refused() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound, not listening
        end = await outcome(f"http://127.0.0.1:{sock.getsockname()[1]}/v1")
    assert end == {
        "how": "refused",
        "error": {
            "status": 502,
            "message": "The upstream could not be reached.",
            "type": "server_error",
            "code": "upstream_error",
            "param": None,
        },
    }


@pytest.mark.parametrize("url", ["http://:80/v1", "ftp://127.0.0.1/v1", "http://a:b@127.0.0.1/v1"])
async def test_an_address_that_is_none_is_an_upstream_that_cannot_be_reached(url: str) -> None:
    end = await outcome(url)
    assert isinstance(end, dict)
    assert end["how"] in ("refused", "reset")
    assert end["error"]["status"] == 502


async def test_a_connection_that_is_not_taken_in_time_is_a_time_out() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = []
        for _ in range(3):  # fill the backlog: the kernel then drops what comes
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)
        end = await outcome(f"http://127.0.0.1:{address[1]}/v1", connect_timeout_s=0.1)
        for filler in fillers:
            filler.close()
    assert isinstance(end, dict)
    assert end["how"] == "timeout"
    assert (end["error"]["status"], end["error"]["code"]) == (504, "upstream_timeout")


@pytest.mark.parametrize(
    ("raw_head", "how", "code"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "http", "upstream_protocol_error"),
        (
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            "http",
            None,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "http", None),
        (b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n", "http", None),
    ],
)
async def test_an_answer_that_is_none_of_ours_is_a_bad_gateway(
    server: Server, raw_head: bytes, how: str, code: str | None
) -> None:
    server.play(End.CUT, raw_head=raw_head)
    end = await outcome(server.url)
    assert isinstance(end, dict)
    assert end["how"] == how
    assert end["error"]["status"] == 502
    assert end["error"]["code"] == (code or "upstream_protocol_error")
    assert len(server.requests) == 1  # a redirect is not followed


async def test_a_connection_closed_before_the_answer_is_a_reset(server: Server) -> None:
    server.play(End.RESET, raw_head=b"HTTP/1.1 20")
    end = await outcome(server.url)
    assert isinstance(end, dict)
    assert end["how"] == "reset"


async def test_a_refusal_keeps_status_message_and_retry_after_without_host_and_key(
    server: Server,
) -> None:
    message = f"Slow down, {KEY} at 127.0.0.1:{server.port} (see http://internal/limits)"
    body = json.dumps({"error": {"message": message, "type": "requests", "code": "slow_down"}})
    server.play(body.encode(), status="429 Too Many Requests", headers={"retry-after": "7"})
    end = await outcome(server.url)
    assert isinstance(end, dict)
    assert end["retry_after"] == "7"
    assert end["error"]["status"] == 429
    assert end["error"]["type"] == "requests"
    assert end["error"]["code"] == "slow_down"
    said = end["error"]["message"]
    assert said.startswith("Slow down")
    assert KEY not in said
    assert "127.0.0.1" not in said
    assert "internal" not in said


async def test_a_compressed_refusal_is_read_and_a_broken_one_has_a_plain_message(
    server: Server,
) -> None:
    body = gzip.compress(b'{"error": {"message": "too long"}}')
    for headers, said, steps in (
        ({"content-encoding": "gzip"}, "too long", [body]),
        ({"content-encoding": "br"}, "The upstream refused the request with status 400.", [body]),
        ({}, "The upstream refused the request with status 400.", [b'{"error', End.CUT]),
        ({}, "The upstream refused the request with status 400.", [b" " * 200_000 + body]),
    ):
        server.plays.clear()
        server.play(*steps, status="400 Bad Request", headers=headers)
        end = await outcome(server.url)
        assert isinstance(end, dict)
        assert end["error"]["message"] == said


async def test_leaving_in_the_middle_closes_the_connection(server: Server) -> None:
    server.play(b"data: 1\n\n", End.HANG)
    async with UpstreamClient() as client:
        async with client.open(upstream(server.url), "responses", b"{}") as answer:
            await answer.read()
        async with asyncio.timeout(1):
            await server.requests[0].left.wait()


async def test_lingering_keeps_the_connection_of_an_upstream_that_ends_at_once(
    server: Server,
) -> None:
    go_on = asyncio.Event()
    server.play(b"data: [DONE]\n\n", go_on)
    async with UpstreamClient() as client:
        for _ in range(2):
            async with client.open(upstream(server.url), "responses", b"{}") as answer:
                await answer.read()
                asyncio.get_running_loop().call_soon(go_on.set)
                await answer.linger()
    assert [seen.connection for seen in server.requests] == [0, 0]


@pytest.mark.parametrize("steps", [[End.HANG], [b"x" * 200_000, End.HANG], [End.RESET]])
async def test_lingering_is_short_and_bounded(server: Server, steps) -> None:
    server.play(b"data: [DONE]\n\n", *steps)
    async with UpstreamClient() as client:
        async with client.open(upstream(server.url), "responses", b"{}") as answer:
            await answer.read()
            async with asyncio.timeout(2):
                await answer.linger()
        async with asyncio.timeout(1):
            await server.requests[0].left.wait()


async def test_a_client_that_was_not_entered_says_so(server: Server) -> None:
    with pytest.raises(RuntimeError):
        async with UpstreamClient().open(upstream(server.url), "responses", b"{}"):
            raise AssertionError


@pytest.mark.parametrize(
    ("steps", "headers", "said"),
    [
        ([b'{"error": {"message": "too long"}}', End.HANG], {}, "too long"),
        ([b'{"error": {"mess', End.HANG], {}, None),
        ([End.HANG], {}, None),
        ([gzip.compress(b'{"error": 1}')[:-4]], {"content-encoding": "gzip"}, None),
        ([gzip.compress(b" " * 200_000_000, 1), End.HANG], {"content-encoding": "gzip"}, None),
    ],
)
async def test_the_status_of_a_refusal_is_kept_though_its_body_never_ends(
    server: Server, monkeypatch, steps, headers, said: str | None
) -> None:
    monkeypatch.setattr("ingest.upstream.ERROR_BODY_S", 0.2)
    server.play(*steps, status="503 Busy", headers={"retry-after": "7", **headers})
    async with asyncio.timeout(2):
        end = await outcome(server.url)
    assert isinstance(end, dict)
    assert (end["how"], end["error"]["status"], end["retry_after"]) == ("http", 503, "7")
    assert end["error"]["message"] == (said or "The upstream refused the request with status 503.")
