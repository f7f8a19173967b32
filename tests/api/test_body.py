import asyncio

import pytest

from tests.api.gateway import Gateway, running
from tests.ingest.server import text_stream


@pytest.fixture
async def small(store, upstream):
    upstream.play(*text_stream("a"))
    async with running(store, upstream, max_body_bytes=2000) as gateway:
        yield gateway


def body(size: int) -> bytes:
    rest = b'{"model": "m", "input": "x", "instructions": "'
    return rest + b"a" * (size - len(rest) - 2) + b'"}'


async def test_a_body_of_the_limit_is_taken_and_one_byte_more_is_a_413(small: Gateway):
    assert (await small.ask("POST", "/v1/responses", body(2000))).status == 200
    reply = await small.ask("POST", "/v1/responses", body(2001))
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")
    assert reply.error["type"] == "invalid_request_error"


async def test_a_body_of_unknown_length_is_refused_while_it_comes(small: Gateway):
    sent = 0

    async def endless():
        nonlocal sent
        while sent < 100_000_000:
            sent += 1000
            yield b"x" * 1000
            await asyncio.sleep(0)

    reply = await small.ask("POST", "/v1/responses", endless())
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")
    assert sent < 10_000_000


async def test_a_long_body_is_refused_before_it_is_sent(small: Gateway):
    # A client that says `Expect: 100-continue` is told before it sends anything.
    port = int(small.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999\r\n"
        b"expect: 100-continue\r\n\r\n"
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()
    await writer.wait_closed()


async def test_the_connection_serves_the_next_request_after_a_413(small: Gateway):
    for _ in range(3):
        assert (await small.ask("POST", "/v1/responses", body(100_000))).status == 413
        assert (await small.ask("POST", "/v1/responses", body(100))).status == 200


async def test_a_compressed_body_is_a_415(small: Gateway):
    reply = await small.ask(
        "POST", "/v1/responses", body(100), headers={"content-encoding": "zstd"}
    )
    assert (reply.status, reply.error["type"]) == (415, "invalid_request_error")


async def test_no_content_type_is_demanded(small: Gateway):
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-8",
    ):
        reply = await small.ask("POST", "/v1/responses", body(100), headers={"content-type": kind})
        assert reply.status == 200


async def test_a_client_that_leaves_while_it_sends_is_no_error(small: Gateway, caplog):
    port = int(small.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.05)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_turns_that_are_too_large_together_are_a_413(small: Gateway, monkeypatch):
    from streams import writer

    monkeypatch.setattr(writer, "MAX_CALL_BYTES", 500)
    reply = await small.ask("POST", "/v1/responses", body(1000))
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")


async def slow():
    yield b'{"model": "m", '
    await asyncio.sleep(30)


async def test_a_body_that_comes_too_slowly_is_a_408_and_the_end_of_the_connection(
    small: Gateway, monkeypatch
):
    monkeypatch.setattr("api.body.DEADLINE_S", 0.1)
    reply = await small.ask("POST", "/v1/responses", slow())
    assert (reply.status, reply.error["type"]) == (408, "invalid_request_error")
    assert reply.headers["connection"] == "close"
    assert (await small.ask("POST", "/v1/responses", body(100))).status == 200


async def test_clients_that_send_slowly_take_no_place_from_others(store, upstream):
    upstream.play(*text_stream("a"))
    async with running(store, upstream, max_in_flight=1) as gateway:
        waiting = [
            asyncio.ensure_future(gateway.ask("POST", "/v1/responses", slow())) for _ in range(3)
        ]
        await asyncio.sleep(0.1)
        assert (await gateway.create()).status == 200
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert (await gateway.create()).status == 200


async def test_of_bodies_that_end_together_no_more_than_there_is_room_for_go_on(store, upstream):
    async with running(store, upstream, roles=False, max_in_flight=1) as gateway:
        go = asyncio.Event()

        async def held():
            yield b'{"model": "m", "input": "x"'
            await go.wait()
            yield b"}"

        asked = [
            asyncio.ensure_future(gateway.ask("POST", "/v1/responses", held())) for _ in range(3)
        ]
        await asyncio.sleep(0.1)
        go.set()
        done, running_on = await asyncio.wait(asked, timeout=0.5)
        assert sorted(one.result().status for one in done) == [503, 503]
        for one in running_on:
            one.cancel()
        await asyncio.gather(*running_on, return_exceptions=True)
