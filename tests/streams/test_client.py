"""Connections: URLs, errors, and the traps of redis-py that must stay off."""

import asyncio
from collections.abc import Iterator

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError, ResponseError

from streams.client import MAX_CONNECTIONS, as_store_error, connect, pack, pieces, word_of
from streams.faults import StoreAway
from tests.wait import wait_until
from translator.protocol.errors import StoreError


@pytest.mark.parametrize("url", ["", "http://x", "localhost:6379", "redis:/x"])
async def test_a_url_of_another_kind_is_refused(url):
    with pytest.raises(ValueError, match="must begin with"):
        await connect(url)


@pytest.mark.parametrize("large", [b"", b"x", "\u00fc" * 5, b"0123456789" * 10, 10**30])
def test_a_command_in_pieces_is_the_same_command(monkeypatch, large):
    monkeypatch.setattr("streams.client.PIECE_BYTES", 10)
    command = ("SET", b"k", large, "PX", 5)
    cut = list(pieces(command))
    assert b"".join(cut) == pack(command)
    assert max(map(len, cut)) <= 10


async def test_a_connection_that_breaks_between_two_pieces_is_not_made_anew(store, monkeypatch):
    """What is left of the command would be the beginning of nonsense."""

    def endless(_: object) -> Iterator[bytes]:
        yield b"*1000000\r\n"
        while True:
            yield b"$1\r\nx\r\n"

    monkeypatch.setattr("streams.client.pieces", endless)
    link = store.connections.link()
    sending = asyncio.ensure_future(link.send_large(("SET", "k", "v")))
    await wait_until(lambda: link.connected)
    await (await link.open()).disconnect(nowait=True)
    with pytest.raises((ConnectionResetError, RedisConnectionError)):
        await sending
    assert not link.connected


async def test_replies_are_raw_and_blocking_reads_outlast_any_default(valkey_url):
    connections = await connect(valkey_url)
    link = connections.link()
    assert not link.connected
    assert await link.call("ECHO", b"\xff") == b"\xff"
    assert link.connected
    assert await link.call("HGETALL", "none-such") == []
    with pytest.raises(ResponseError):
        await link.call("NONSENSE")
    kwargs = connections.client.connection_pool.connection_kwargs
    assert (kwargs["socket_timeout"], kwargs["protocol"]) == (None, 2)
    assert kwargs["retry"].get_retries() == 0
    assert connections.client.connection_pool.max_connections == MAX_CONNECTIONS
    await connections.close()
    assert not link.connected


async def test_a_blocked_link_holds_nobody_up(store_url):
    connections = await connect(store_url)
    blocked = asyncio.create_task(connections.link().call("BLPOP", "none-such", 5))
    assert await connections.link().call("ECHO", "on") == b"on"
    blocked.cancel()
    await asyncio.wait([blocked])
    await connections.close()


async def test_a_link_without_a_connection_has_nothing_to_read(store_url):
    connections = await connect(store_url)
    with pytest.raises(OSError, match="closed"):
        await connections.link().read()
    await connections.close()


async def test_memory_servers_meet_where_they_have_a_name():
    one, same, other = [await connect(f"memory://{name}") for name in ("meet", "meet", "")]
    assert one.memory
    await one.command("SET", "x", "1", "PX", 60_000)
    assert await same.command("GET", "x") == b"1"
    assert await other.command("GET", "x") is None
    for connections in (one, same, other):
        await connections.close()


async def test_rare_commands_tell_trouble_as_store_errors(store_url):
    connections = await connect(store_url)
    with pytest.raises(StoreError, match="refused a command"):
        await connections.command("NONSENSE")
    await connections.close()


def test_errors_say_what_was_refused_and_nothing_else():
    assert word_of(ReadOnlyError("You can't write", status_code="READONLY")) == "READONLY"
    assert "MOVED" in str(as_store_error(ResponseError("MOVED 3999 10.0.0.1:6381")))
    assert "10.0.0.1" not in str(as_store_error(ResponseError("MOVED 3999 10.0.0.1:6381")))
    assert "secret" not in str(as_store_error(ResponseError("secret words")))
    assert isinstance(as_store_error(RedisConnectionError("10.0.0.1")), StoreAway)


async def test_a_link_that_is_dropped_while_it_connects_leaves_no_connection_behind(valkey_url):
    connections = await connect(valkey_url)
    link = connections.link()
    calling = asyncio.ensure_future(link.call("PING"))
    await asyncio.sleep(0)
    assert link._connection is not None
    assert link.at is None, "it does not stand yet"
    await link.drop()
    with pytest.raises(OSError, match="dropped while it was made"):
        await calling
    assert await link.call("ECHO", "on") == b"on"
    assert link.at[0] == "127.0.0.1"
    await connections.close()
