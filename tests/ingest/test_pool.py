"""Connections are opened where a name leads, kept for a while, and never given out when they are over."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ingest import pool as pools
from ingest.connection import Connection
from ingest.pool import Origin, Pool
from ingest.refusal import RoundError
from ingest.upstream import UpstreamClient
from tests.ingest.server import Connection as Served
from tests.ingest.server import End, Server
from tests.tls import certificates, encrypted, needs_openssl
from tests.wait import wait_until
from translator.protocol.upstream import Upstream

pytestmark = pytest.mark.anyio

HEAD = b"POST /v1/responses HTTP/1.1\r\ncontent-length: 2\r\n\r\n"


@pytest.fixture(
    params=[("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
    ids=["asyncio", "uvloop"],
    scope="module",
)
def anyio_backend(request) -> object:
    """Their transports differ."""
    return request.param


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    made = Pool()
    yield made
    made.close()


def origin(server: Server) -> Origin:
    return Origin(tls=False, host="127.0.0.1", port=server.port)


async def used(pool: Pool, server: Server) -> Connection:
    """A connection with one whole answer behind it."""
    connection = await pool.take(origin(server))
    assert (await connection.ask(HEAD, b"{}")).status == 200
    while await connection.read():
        pass
    return connection


async def test_a_connection_is_kept_for_the_next_request(pool: Pool, server: Server) -> None:
    server.play(b"data: 1\n\n")
    for _ in range(3):
        pool.give_back(origin(server), await used(pool, server))
    assert [seen.connection for seen in server.requests] == [0, 0, 0]


async def test_two_at_once_have_a_connection_each(pool: Pool, server: Server) -> None:
    server.play(b"data: 1\n\n")
    both = [await used(pool, server), await used(pool, server)]
    assert [seen.connection for seen in server.requests] == [0, 1]
    for connection in both:
        pool.give_back(origin(server), connection)
    await used(pool, server)
    assert server.requests[-1].connection == 1  # the one that was used last is the freshest


async def test_one_that_the_upstream_closed_is_not_given_out(pool: Pool, server: Server) -> None:
    server.play(b"data: 1\n\n")
    connection = await used(pool, server)
    pool.give_back(origin(server), connection)
    served: Served = server.connections[0]
    served.transport.close()
    await wait_until(lambda: not connection.reusable)
    await used(pool, server)
    assert server.requests[-1].connection == 1


async def test_one_that_was_closed_a_moment_ago_is_not_given_out(
    pool: Pool, server: Server
) -> None:
    server.play(b"data: 1\n\n")
    connection = await used(pool, server)
    pool.give_back(origin(server), connection)
    connection.close()  # its loss is told in the next turn of the event loop
    await used(pool, server)
    assert server.requests[-1].connection == 1


async def test_an_idle_one_is_closed_before_the_upstream_does(
    pool: Pool, server: Server, monkeypatch
) -> None:
    monkeypatch.setattr(pools, "KEEPALIVE_S", 0.01)
    server.play(b"data: 1\n\n")
    pool.give_back(origin(server), await used(pool, server))
    async with asyncio.timeout(5):
        await server.requests[0].left.wait()
    await used(pool, server)
    assert server.requests[-1].connection == 1


async def test_one_in_the_middle_of_an_answer_is_not_kept(pool: Pool, server: Server) -> None:
    server.play(b"data: 1\n\n", End.HANG)
    connection = await pool.take(origin(server))
    await connection.ask(HEAD, b"{}")
    pool.give_back(origin(server), connection)
    async with asyncio.timeout(5):
        await server.requests[0].left.wait()


async def test_what_a_round_left_unread_is_not_told_to_the_next(pool: Pool, server: Server) -> None:
    server.play(b"data: theirs\n\n" * 10_000)
    connection = await pool.take(origin(server))
    await connection.ask(HEAD, b"{}")
    await connection.deliver(lambda _: False)
    await wait_until(lambda: connection.ended)
    pool.give_back(origin(server), connection)
    server.plays.clear()
    server.play(b"data: ours\n\n")
    other = await pool.take(origin(server))
    await other.ask(HEAD, b"{}")
    assert await other.read() == b"data: ours\n\n"
    assert server.requests[-1].connection == 1


async def test_a_closed_pool_keeps_none(pool: Pool, server: Server) -> None:
    server.play(b"data: 1\n\n")
    idle, busy = await used(pool, server), await used(pool, server)
    pool.give_back(origin(server), idle)
    pool.close()
    pool.give_back(origin(server), busy)
    async with asyncio.timeout(5):
        for seen in server.requests:
            await seen.left.wait()


async def answered(url: str) -> bytes | str:
    """The body of an answer, or the words in which its failure is told."""
    async with UpstreamClient() as client:
        try:
            upstream = Upstream(id="main", base_url=url, api="responses")
            async with client.open(upstream, "responses", b"{}") as answer:
                return await answer.read()
        except RoundError as failure:
            return failure.message


async def test_a_name_is_looked_up(server: Server) -> None:
    server.play(b"data: 1\n\n")
    assert await answered(f"http://localhost:{server.port}/v1") == b"data: 1\n\n"
    assert server.requests[0].headers["host"] == f"localhost:{server.port}"


async def test_replicas_behind_one_name_have_their_turns(server: Server, monkeypatch) -> None:
    """The resolver's own order may be the same each time (RFC 6724)."""
    server.play(b"data: 1\n\n")
    other = Server()
    other.play(b"data: 2\n\n")
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Served(other), "127.0.0.2", server.port)
    names = ("replicas.test", "others.test")  # each has turns of its own
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, server.port))
        for host in ("127.0.0.1", "127.0.0.2")
    ]

    def lookup(host: str, *_: object, flags: int = 0, **__: object) -> list[object]:
        assert host in names
        if flags:
            raise socket.gaierror
        return found

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    made = Pool()
    async with listening:
        for _ in range(4):
            for name in names:
                connection = await made.take(Origin(tls=False, host=name, port=server.port))
                await connection.ask(b"POST /%b HTTP/1.1\r\n\r\n" % name.encode(), b"")
                connection.close()
    for one in (server, other):
        assert [seen.path.strip("/") for seen in one.requests] == [names[0], names[1]] * 2


async def test_a_name_without_an_answer_keeps_nobody_from_another(
    server: Server, monkeypatch
) -> None:
    server.play(b"data: 1\n\n")
    real, given_up, asked = socket.getaddrinfo, threading.Event(), []

    def lookup(host: str, *rest: object, flags: int = 0, **more: object) -> object:
        if host == "silent.test" and not flags:
            asked.append(host)
            given_up.wait(30)
            raise socket.gaierror
        return real(host, *rest, flags=flags, **more)

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    made = Pool()
    waiting = [
        asyncio.create_task(made.take(Origin(tls=False, host="silent.test", port=9)))
        for _ in range(40)
    ]
    await wait_until(lambda: asked)
    connection = await made.take(Origin(tls=False, host="localhost", port=server.port))
    connection.close()
    waiting[0].cancel()
    given_up.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert all(isinstance(one, socket.gaierror) for one in outcomes[1:])
    assert len(asked) == 1


async def test_an_address_of_ipv6_stands_in_brackets(server: Server) -> None:
    server.play(b"data: 1\n\n")
    loop = asyncio.get_running_loop()
    try:
        listening = await loop.create_server(lambda: Served(server), "::1", 0)
    except OSError:
        pytest.skip("no IPv6 on loopback")
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        assert await answered(f"http://[::1]:{port}/v1") == b"data: 1\n\n"
        assert server.requests[0].headers["host"] == f"[::1]:{port}"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 70, "tést.invalid"])
async def test_a_name_that_leads_nowhere_is_an_upstream_that_cannot_be_reached(host: str) -> None:
    assert await answered(f"http://{host}:9/v1") == "The upstream could not be reached."


async def test_blanks_and_letters_of_a_path_are_escaped(server: Server) -> None:
    server.play(b"data: 1\n\n")
    assert await answered(f"{server.url}/a b/é%20/x/") == b"data: 1\n\n"
    assert server.requests[0].path == "/v1/a%20b/%C3%A9%20/x/responses"


async def test_a_header_that_would_end_its_line_is_not_sent(server: Server) -> None:
    server.play(b"data: 1\n\n")
    async with UpstreamClient() as client:
        upstream = Upstream(id="main", base_url=server.url, api="responses")
        with pytest.raises(RoundError):
            async with client.open(upstream, "responses", b"{}", {"tracestate": "a=1\r\nx: y"}):
                raise AssertionError
    assert server.requests == []


@needs_openssl
async def test_an_upstream_with_tls_is_asked_if_its_certificate_is_good(
    server: Server, tmp_path: Path, monkeypatch
) -> None:
    server.play(b"data: 1\n\n")
    made = certificates(tmp_path / "tls")
    async with encrypted(server.port, made, clients=False) as port:
        url = f"https://127.0.0.1:{port}/v1"
        assert await answered(url) == "The upstream could not be reached."
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", made.path("ca.pem"))
        assert await answered(url) == b"data: 1\n\n"
