"""What happens to bytes that never become a request."""

import asyncio
import gc
import json
import logging
import time
import weakref
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from respool import wire
from respool.http import Http, bind
from respool.wire import MAX_HEAD_BYTES
from streams import metrics
from tests.wait import wait_until

GET = b"GET / HTTP/1.1\r\nhost: x\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"


async def hello(request):
    return PlainTextResponse(f"{len(await request.body())}")


async def headers(request):
    return JSONResponse(list(request.headers))


@asynccontextmanager
async def serving(app):
    """The port on which it is served, and the connections that the server has."""
    listener = bind("127.0.0.1", 0)
    http = Http(app, listener, drain_s=0)
    running = asyncio.create_task(http.run())
    try:
        yield listener.getsockname()[1], http._server.server_state.connections
    finally:
        http.cut()
        await running


@pytest.fixture
async def port():
    routes = [Route("/", hello, methods=["GET", "POST"]), Route("/headers", headers)]
    async with serving(Starlette(routes=routes)) as (port, _connections):
        yield port


async def say(port, *pieces: bytes) -> bytes:
    """All that comes back until the server closes; the client stops sending when it does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.002)
    except ConnectionError:
        pass
    async with asyncio.timeout(5):
        try:
            answer = await reader.read()
        except ConnectionError:
            answer = bytes(reader._buffer)
    writer.close()
    return answer


def refused(answer: bytes) -> int:
    head, _, body = answer.partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert b"\r\nx-request-id: req_" in head
    assert b"\r\nconnection: close" in head
    return int(head.split()[1])


@pytest.mark.parametrize(
    "pieces",
    [
        [GET + b"a: ", *[b"x" * 8000] * 20],
        [GET, *[b"a: b\r\n" * 1000] * 30],
        [b"GET /", *[b"x" * 8000] * 20],
        [GET + b"a: " + b"x" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n"],
        [b"x" * 8000] * 20,
    ],
    ids=["one value", "many headers", "the path", "at once", "no HTTP"],
)
async def test_endless_headers_are_refused(port, pieces):
    assert refused(await say(port, *pieces)) in (400, 431)


async def test_headers_that_are_too_large_are_a_431(port):
    before = metrics.value("requests_refused_total", kind="too_large")
    assert refused(await say(port, GET + b"a: ", *[b"x" * 8000] * 9)) == 431
    assert metrics.value("requests_refused_total", kind="too_large") == before + 1


async def test_endless_trailers_and_chunk_extensions_end_the_connection(port):
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n"
    assert refused(await say(port, chunked + b"1;a=", *[b"x" * 8000] * 20)) == 431
    assert refused(await say(port, chunked + b"0\r\na: ", *[b"x" * 8000] * 20)) == 431


async def test_long_headers_a_long_body_and_many_requests_are_taken(port):
    header = b"a: " + b"x" * 60_000 + b"\r\n"
    body = [b"y" * 8000] * 50
    one = [POST + header + b"content-length: 400000\r\n\r\n", *body]
    last = GET + b"connection: close\r\n\r\n"
    answer = await say(port, *one, *one, *one, last)
    assert answer.count(b"HTTP/1.1 200") == 4
    assert answer.count(b"400000") == 3


@pytest.mark.parametrize(
    "raw",
    [
        POST + b"content-length: x\r\n\r\n",
        POST + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
async def test_what_is_no_http_is_a_400_in_openais_shape(port, raw):
    assert refused(await say(port, raw)) == 400


async def test_a_websocket_is_answered_without_advice_in_the_log(port, caplog):
    caplog.set_level(logging.DEBUG)
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET + upgrade + b"\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
    await writer.wait_closed()
    assert "uvicorn[standard]" not in caplog.text


UPGRADES = [
    b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
    b"UPGRADE: websocket\r\nConnection: keep-alive, upgrade\r\n",
    b"connection: upgrade\r\nupgrade: a\r\nx:\r\nupgrade: TLS/1.0\r\n",
]
LAST = GET + b"connection: close\r\n\r\n"
BODIES = {
    "fixed": (b"content-length: 7\r\n", b"GET / H"),
    "chunked": (b"transfer-encoding: chunked\r\n", b"3\r\nGET\r\n4\r\n / H\r\n0\r\n\r\n"),
}


def told(answer: bytes) -> list[bytes]:
    """The bodies of the answers, each of which is a 200 without line breaks of its own."""
    found = answer.split(b"HTTP/1.1 ")[1:]
    assert all(each.startswith(b"200 ") for each in found), answer
    return [each.rpartition(b"\r\n\r\n")[2] for each in found]


@pytest.mark.parametrize("upgrade", UPGRADES, ids=["h2c", "websocket", "two"])
@pytest.mark.parametrize("body", BODIES)
async def test_who_asks_for_an_upgrade_is_served_with_its_body_and_what_follows(
    port, upgrade, body
):
    framing, sent = BODIES[body]
    whole = (POST + upgrade + framing + b"\r\n" + sent) * 2 + GET + upgrade + b"\r\n" + LAST
    assert told(await say(port, whole)) == [b"7", b"7", b"0", b"0"]


@pytest.mark.parametrize("body", BODIES)
async def test_an_upgrade_is_ignored_wherever_its_request_is_cut(port, body):
    framing, sent = BODIES[body]
    whole = POST + UPGRADES[0] + framing + b"\r\n" + sent + LAST
    pieces = [whole[at : at + 1] for at in range(len(whole))]
    assert told(await say(port, *pieces)) == [b"7", b"0"]


async def test_a_body_that_an_upgrade_was_to_wait_for_is_asked_for_and_read(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(POST + UPGRADES[0] + b"expect: 100-continue\r\ncontent-length: 36\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(GET + b"x: 12345678\r\n\r\n" + LAST)
    async with asyncio.timeout(5):
        assert told(await reader.read()) == [b"36", b"0"]
    writer.close()


async def test_the_application_hears_of_the_upgrade_and_of_all_else(port):
    asked = b"GET /headers HTTP/1.1\r\nhost: x\r\na: b \r\n" + UPGRADES[0] + b"\r\n"
    names = json.loads(told(await say(port, asked + LAST))[0])
    assert names == ["host", "a", "connection", "http2-settings", "upgrade"]


@pytest.mark.parametrize("target", [b"/", b"x:443"])
async def test_a_tunnel_is_refused_and_nothing_in_it_is_a_request(port, target):
    connect = b"CONNECT " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n"
    assert refused(await say(port, connect + GET + b"\r\n")) == 400


@pytest.fixture
async def narrow():
    listener = bind("127.0.0.1", 0)
    app = Starlette(routes=[Route("/", hello, methods=["GET", "POST"])])
    http = Http(app, listener, drain_s=0, max_connections=2)
    running = asyncio.create_task(http.run())
    yield listener.getsockname()[1]
    http.cut()
    await running


async def test_one_connection_too_many_is_a_503_that_says_when(narrow):
    held = [await asyncio.open_connection("127.0.0.1", narrow) for _ in range(2)]
    for reader, writer in held:  # which also tells that the server has taken them
        writer.write(GET + b"\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    answer = await say(narrow, GET + b"\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in head
    assert b"\r\nconnection: close\r\n" in head
    assert json.loads(body)["error"]["code"] == "too_many_connections"
    held[0][1].close()
    await held[0][1].wait_closed()

    async def served() -> bool:
        return b" 200 " in (await say(narrow, GET + b"connection: close\r\n\r\n"))

    await wait_until(served)
    held[1][1].close()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET, GET + b"\r\n" + GET])
async def test_a_head_that_does_not_come_is_a_408_and_the_end(port, sent, monkeypatch):
    monkeypatch.setattr(wire, "HEAD_S", 0.1)
    answer = await say(port, sent)
    *served, last = answer.split(b"HTTP/1.1 ")
    assert refused(b"HTTP/1.1 " + last) == 408
    assert len(served) == 1 + sent.count(b"\r\n\r\n")


async def test_a_slow_head_behind_an_open_answer_does_not_cut_it(monkeypatch):
    monkeypatch.setattr(wire, "HEAD_S", 0.05)
    gate = asyncio.Event()

    async def slow(_request):
        await gate.wait()
        return PlainTextResponse("answer")

    listener = bind("127.0.0.1", 0)
    http = Http(Starlette(routes=[Route("/", slow)]), listener, drain_s=0)
    running = asyncio.create_task(http.run())
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    writer.write(GET + b"\r\n" + GET)
    fired = asyncio.get_running_loop().call_later(0.2, gate.set)
    async with asyncio.timeout(5):
        answer = await reader.read()
    assert fired.when() <= asyncio.get_running_loop().time()
    assert b"answer" in answer
    assert b" 408 " in answer
    writer.close()
    http.cut()
    await running


async def early(_scope, _receive, send):
    """Answers at once, whatever the body is."""
    body = b"no"
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 404, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


async def answered(reader) -> bytes:
    """Head and body of an answer of `early`."""
    async with asyncio.timeout(5):
        return await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2)


def gone_despite(writer, more: bytes, connections):
    """Whether the server has left, however often more is sent."""

    def gone() -> bool:
        if not writer.is_closing():
            writer.write(more)
        return not connections

    return gone


PART = POST + b"content-length: 1000\r\n\r\n"


async def test_a_blank_line_after_an_answer_holds_no_connection(monkeypatch):
    monkeypatch.setattr(wire, "HEAD_S", 0.1)
    async with serving(early) as (port, connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + b"\r\n")
        assert b"connection: close" not in await answered(reader)
        writer.write(b"\r\n")
        async with asyncio.timeout(5):
            assert refused(await reader.read()) == 408
        await wait_until(lambda: not connections)
        writer.close()


async def test_blank_lines_one_by_one_hold_none_either(monkeypatch):
    monkeypatch.setattr(wire, "HEAD_S", 0.1)
    async with serving(early) as (port, connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + b"\r\n")
        await answered(reader)
        await wait_until(gone_despite(writer, b"\r\n", connections))
        writer.close()


@pytest.mark.parametrize(
    ("head", "more"),
    [
        (PART, b""),
        (PART, b"x"),
        (POST + b"transfer-encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
    ],
    ids=["nothing", "byte by byte", "without end"],
)
async def test_a_body_that_does_not_end_holds_no_connection_once_it_is_answered(
    head, more, monkeypatch
):
    monkeypatch.setattr(wire, "LINGER_S", 0.1)
    async with serving(early) as (port, connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        assert b"\r\nconnection: close\r\n" in await answered(reader)
        await wait_until(gone_despite(writer, more, connections))
        writer.close()


async def test_who_sends_all_of_a_long_body_before_reading_still_gets_the_answer():
    body = 8 << 20
    async with serving(early) as (port, connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST + b"content-length: %d\r\n\r\n" % body)
        await wait_until(lambda: any(each._leaving for each in connections))
        writer.write(b"x" * body)
        async with asyncio.timeout(5):
            await writer.drain()
            assert b" 404 " in await answered(reader)
            assert await reader.read() == b""
        writer.close()
        await wait_until(lambda: not connections)  # long before the time is up


async def test_a_body_that_came_with_its_head_costs_no_connection():
    async with serving(early) as (port, _connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(PART + b"x" * 1000)
            assert b"connection: close" not in await answered(reader)
        writer.close()


async def test_nothing_behind_a_last_answer_is_served():
    gate, asked = asyncio.Event(), []

    async def slow(scope, receive, send):
        asked.append(scope)
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        while (await receive())["more_body"]:
            pass
        await gate.wait()
        await send({"type": "http.response.body", "body": b"no"})

    async with serving(slow) as (port, connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(PART)
        async with asyncio.timeout(5):
            assert b"\r\nconnection: close\r\n" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"x" * 1000 + GET + b"\r\n")
        await wait_until(lambda: any(each.pipeline for each in connections))
        gate.set()
        async with asyncio.timeout(5):
            assert await reader.read() == b"no"
        assert len(asked) == 1
        writer.close()


async def pieces(scope, _receive, send):
    """A body of unknown length, or of a known one for who asks so."""
    known = [(b"content-length", b"6")] if scope["path"] == "/known" else []
    await send({"type": "http.response.start", "status": 200, "headers": known})
    for piece in (b"one", b"", b"two"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.0\r\n",
        b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n",
        b"POST / HTTP/1.0\r\ncontent-length: 1000\r\n",
    ],
    ids=["plain", "keep-alive", "with a body that never comes"],
)
async def test_to_http_1_0_a_body_of_unknown_length_has_no_chunks_and_ends_with_the_connection(
    head,
):
    async with serving(pieces) as (port, _connections):
        head, _, body = (await say(port, head + b"\r\n")).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert head.endswith(b"\r\nconnection: close")
    assert body == b"onetwo"


async def test_to_http_1_0_a_known_length_is_told_and_a_head_is_nothing_but_a_head():
    async with serving(pieces) as (port, _connections):
        known = await say(port, b"GET /known HTTP/1.0\r\n\r\n")
        nothing = await say(port, b"HEAD / HTTP/1.0\r\n\r\n")
    assert b"\r\ncontent-length: 6\r\n" in known
    assert known.endswith(b"\r\n\r\nonetwo")
    assert nothing.endswith(b"\r\n\r\n")


async def test_to_http_1_1_the_same_body_has_chunks():
    async with serving(pieces) as (port, _connections):
        answer = await say(port, LAST)
    assert answer.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


# ---- clients that do not read


LARGE = 16 << 20
"""More than the kernel takes for a client that does not read."""


async def large(_request):
    return PlainTextResponse("x" * LARGE)


async def read_slowly(reader) -> tuple[float, int]:
    """Read a large answer to its end, the first half with pauses; how long that took, and its bytes."""
    began, got = time.monotonic(), 0
    while piece := await reader.read(1 << 18):
        got += len(piece)
        if got < LARGE // 2:
            await asyncio.sleep(0.02)
    return time.monotonic() - began, got


@pytest.fixture
async def wide():
    async with serving(Starlette(routes=[Route("/", large)])) as served:
        yield served


@pytest.mark.parametrize("end", ["keep-alive", "close"])
async def test_an_answer_that_nobody_reads_holds_no_connection_and_no_memory(
    wide, monkeypatch, end
):
    monkeypatch.setattr(wire, "STALL_S", 0.2)
    port, connections = wide
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**10)
    writer.write(GET + f"connection: {end}\r\n\r\n".encode())
    await wait_until(lambda: connections)
    await wait_until(lambda: not connections)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(LARGE)
    writer.close()


async def test_a_client_that_reads_slowly_gets_all_of_its_answer(wide, monkeypatch):
    monkeypatch.setattr(wire, "STALL_S", 0.2)
    port, _connections = wide
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**10)
    writer.write(GET + b"connection: close\r\n\r\n")
    took_s, got = await read_slowly(reader)
    assert took_s > wire.STALL_S
    assert got > LARGE
    writer.close()


# ---- requests that do not wait for answers


@asynccontextmanager
async def gated():
    """A server whose first answer waits for the gate."""
    gate = asyncio.Event()

    async def wait(_request):
        await gate.wait()
        return PlainTextResponse("ok")

    async with serving(Starlette(routes=[Route("/", wait)])) as (port, connections):
        yield port, connections, gate


async def test_a_few_hundred_requests_at_once_are_answered_and_read_no_faster_than_that():
    async with gated() as (port, connections, gate):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((GET + b"\r\n") * 500)
        await wait_until(lambda: any(len(each.pipeline) == 499 for each in connections))
        (connection,) = connections
        writer.write((GET + b"\r\n") * 900)
        gate.set()
        answers = b""
        async with asyncio.timeout(20):
            while answers.count(b"HTTP/1.1 200") < 1400:
                answers += await reader.read(1 << 10)
                assert len(connection.pipeline) < 900
        writer.close()


async def test_who_sends_thousands_before_the_first_answer_is_cut_off():
    async with gated() as (port, connections, _gate):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((GET + b"\r\n") * 20_000)
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                assert b"HTTP/1.1 200" not in await reader.read()
        await wait_until(lambda: not connections)
        writer.close()


async def test_a_refusal_breaks_into_no_answer_and_stands_for_none():
    async with gated() as (port, connections, _gate):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + b"\r\n")
        await wait_until(lambda: any(each.cycle for each in connections))
        writer.write((GET + b"\r\n") * 2_000)
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


async def test_a_client_that_reads_for_longer_than_a_connection_may_be_idle_gets_all(monkeypatch):
    monkeypatch.setattr("respool.http.KEEPALIVE_S", 0.1)
    async with serving(Starlette(routes=[Route("/", large)])) as (port, _connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**10)
        writer.write(GET + b"\r\n")
        took_s, got = await read_slowly(reader)
        assert took_s > 0.1
        assert got > LARGE
        writer.close()


async def test_a_connection_that_is_over_is_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        async with serving(early) as (port, connections):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(PART)
            await answered(reader)
            gone = weakref.ref(next(iter(connections)).cycle)
            writer.close()
            await writer.wait_closed()
            await wait_until(lambda: not connections and gone() is None)
    finally:
        gc.enable()
