"""Bytes in, a head and a body out: whatever way the bytes are cut, and whatever they are."""

import asyncio
import gc
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.connection import (
    READ_AHEAD_BYTES,
    SILENT_BYTES,
    TURN_BYTES,
    Connection,
    NotHttp,
)

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Socket(asyncio.Transport):
    """A socket whose other end is the test."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.written: list[bytes] = []
        self.closing = False
        self.reading = True
        self.unsent = 0
        connection.connection_made(self)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.written += list_of_data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def say(self, data: bytes) -> None:
        if not self.closing:
            self.connection.data_received(data)

    def hang_up(self, error: OSError | None = None) -> None:
        """FIN, or what the kernel reports in its place."""
        if self.closing:
            return
        if error is None:
            self.connection.eof_received()
        self.closing = True
        self.connection.connection_lost(error)


def connected() -> tuple[Connection, Socket]:
    connection = Connection(lambda _: None)
    return connection, Socket(connection)


async def asked(*said: bytes) -> tuple[Connection, Socket]:
    """A connection that was asked and told the beginning of an answer."""
    connection, sock = connected()
    asking = asyncio.ensure_future(connection.ask(b"POST / HTTP/1.1\r\n\r\n", b"{}"))
    await asyncio.sleep(0)
    for data in said:
        sock.say(data)
    await asking
    return connection, sock


async def all_of(connection: Connection) -> bytes:
    body = b""
    while piece := await connection.read():
        body += piece
    return body


@dataclass(frozen=True)
class Told:
    """What became of one answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    ended: bool
    reusable: bool


def told_of(said: list[bytes], *, delivered: bool, hangs_up: bool) -> Told | type[Exception]:
    """Say this to a connection that was asked, and hear what it makes of it."""

    async def main() -> Told:
        connection, sock = connected()
        asking = asyncio.ensure_future(connection.ask(b"", b""))
        await asyncio.sleep(0)

        async def taken() -> Told:
            head = await asking
            body = bytearray()

            def take(piece: bytes) -> bool:
                assert 0 < len(piece) <= TURN_BYTES
                body.extend(piece)
                return True

            if delivered:
                assert await connection.deliver(take)
            else:
                body.extend(await all_of(connection))
            state = connection.ended, connection.reusable
            return Told(head.status, head.headers, bytes(body), *state)

        taking = asyncio.ensure_future(taken())
        for data in said:
            sock.say(data)
            await asyncio.sleep(0)
        if hangs_up:
            sock.hang_up()
        async with asyncio.timeout(10):
            return await taking

    try:
        return asyncio.run(main())
    except (NotHttp, OSError) as error:
        return type(error)


bodies = st.lists(st.binary(min_size=1, max_size=40), max_size=6)


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, bytes, bool, bool]:
    """An answer, its body, whether the socket's end is its end, whether another may be asked for."""
    pieces = draw(bodies)
    body = b"".join(pieces)
    before = draw(st.sampled_from([b"", b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"]))
    keeps = draw(st.booleans())
    head = OK + (b"" if keeps else b"Connection: close\r\n")
    match draw(st.sampled_from(["chunked", "length", "open"])):
        case "chunked":
            rest = b"".join(map(chunk, pieces)) + draw(
                st.sampled_from([LAST, b"0\r\nx-trailer: 1\r\n\r\n", b"000;ext=1\r\n\r\n"])
            )
            return before + head + b"transfer-encoding: chunked\r\n\r\n" + rest, body, False, keeps
        case "length":
            return (
                before + head + b"Content-Length: %d\r\n\r\n" % len(body) + body,
                body,
                False,
                keeps,
            )
        case _:
            return before + head + b"\r\n" + body, body, True, False


@st.composite
def cut(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    ends = sorted(draw(st.sets(st.integers(1, max(1, len(whole) - 1)), max_size=12)))
    return [
        piece
        for start, end in zip([0, *ends], [*ends, len(whole)], strict=True)
        if (piece := whole[start:end])
    ]


@given(st.data(), answers(), st.booleans())
def test_however_its_bytes_are_cut_an_answer_is_the_same(data, answer, delivered: bool) -> None:
    whole, body, open_ended, keeps = answer
    told = told_of(data.draw(cut(whole)), delivered=delivered, hangs_up=open_ended)
    assert isinstance(told, Told)
    assert (told.status, told.body, told.ended) == (200, body, True)
    assert told.reusable == keeps
    assert "link" not in told.headers
    assert "x-trailer" not in told.headers


@given(st.data(), answers(), st.booleans())
def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(
    data, answer, delivered: bool
) -> None:
    whole, _, open_ended, _ = answer
    head = whole.index(b"\r\n\r\n", whole.index(OK)) + 4
    end = data.draw(st.integers(0, head - 1 if open_ended else len(whole) - 1))
    told = told_of(data.draw(cut(whole[:end])), delivered=delivered, hangs_up=True)
    assert told is ConnectionResetError


@given(st.data(), st.booleans())
def test_garbage_is_no_answer_and_nothing_worse(data, delivered: bool) -> None:
    tokens = [OK, CHUNKED, b"HTTP/1.1 101 Up\r\n", b"HTTP/1.0 200\r\n", b"\r\n", b"\n", LAST]
    tokens += [
        b"5\r\nhello\r\n",
        b"ffffffffffffffffff\r\n",
        b"content-length: 3\r\n",
        b": ",
        b"x: y\r\n",
    ]
    said = data.draw(st.lists(st.sampled_from(tokens) | st.binary(max_size=20), max_size=10))
    told = told_of(list(filter(None, said)), delivered=delivered, hangs_up=True)
    assert isinstance(told, Told) or issubclass(told, NotHttp | OSError)


async def test_what_nobody_asked_for_closes_the_connection() -> None:
    connection, sock = connected()
    sock.say(CHUNKED + LAST)
    assert sock.closing
    with pytest.raises(ConnectionResetError):
        await connection.ask(b"", b"")


@pytest.mark.parametrize("more", [b"x", CHUNKED + chunk(b"theirs") + LAST])
@pytest.mark.parametrize("together", [True, False])
async def test_a_second_answer_is_no_part_of_the_first(more: bytes, together: bool) -> None:
    first = CHUNKED + chunk(b"ours") + LAST
    connection, sock = await asked(*([first + more] if together else [first, more]))
    assert await all_of(connection) == b"ours"
    assert connection.ended
    assert not connection.reusable
    assert sock.closing


@pytest.mark.parametrize(
    ("before", "again"),
    [
        (OK, b"x: " + b"y" * 1000 + b"\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED, b"1;" + b"e" * 1000),
        (CHUNKED + b"0\r\n", b"x: " + b"y" * 1000 + b"\r\n"),
    ],
    ids=["head", "heads", "extension", "trailers"],
)
async def test_what_says_nothing_and_never_ends_is_cut_off(before: bytes, again: bytes) -> None:
    connection, sock = connected()
    asking = asyncio.ensure_future(connection.ask(b"", b""))
    await asyncio.sleep(0)
    sock.say(before)
    sent = 0
    while not sock.closing and sent <= 2 * SILENT_BYTES:
        sock.say(again)
        sent += len(again)
    assert SILENT_BYTES - 1000 < sent <= SILENT_BYTES + len(again)

    async def body() -> bytes:
        await asking
        return await connection.read()

    with pytest.raises(NotHttp):
        await body()


async def test_bytes_of_a_body_count_as_progress() -> None:
    connection, sock = await asked(CHUNKED)
    for _ in range(4 * SILENT_BYTES // 1000):
        sock.say(b"1;" + b"e" * 1000 + b"\r\nx\r\n")
    sock.say(LAST)
    assert len(await all_of(connection)) == 4 * SILENT_BYTES // 1000


async def test_what_nobody_takes_stops_the_socket_until_somebody_does() -> None:
    connection, sock = await asked(CHUNKED)
    piece, sent = chunk(bytes(100_000)), 0
    while sock.reading:
        sock.say(piece)
        sent += 100_000
        assert sent <= READ_AHEAD_BYTES + 200_000
    assert len(await connection.read()) == sent
    reading = asyncio.ensure_future(connection.read())
    await asyncio.sleep(0)
    assert sock.reading
    sock.say(chunk(b"on"))
    assert await reading == b"on"


async def test_a_taker_that_wants_no_more_gets_the_rest_when_it_asks_again() -> None:
    connection, sock = await asked(CHUNKED + chunk(b"1") + chunk(b"2"))
    taken: list[bytes] = []

    def one(piece: bytes) -> bool:
        taken.append(piece)
        return False

    assert not await connection.deliver(one)
    waiting = asyncio.ensure_future(connection.deliver(one))
    await asyncio.sleep(0)
    sock.say(chunk(b"3"))
    sock.say(chunk(b"4"))
    assert not await waiting
    assert taken == [b"12", b"3"]
    sock.say(LAST)
    assert not await connection.deliver(one)
    assert taken == [b"12", b"3", b"4"]
    assert await connection.deliver(one)


async def test_much_at_once_is_delivered_a_turn_after_the_other() -> None:
    connection, sock = await asked(CHUNKED)
    sizes: list[int] = []
    turns = 0

    def take(piece: bytes) -> bool:
        sizes.append(len(piece))
        return True

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not delivering.done():
            asyncio.get_running_loop().call_soon(turn)

    delivering = asyncio.ensure_future(connection.deliver(take))
    await asyncio.sleep(0)
    sock.say(chunk(bytes(5 * TURN_BYTES + 1)) + LAST)
    turn()
    assert await delivering
    assert sizes == [TURN_BYTES] * 5 + [1]
    assert turns >= 5


@pytest.mark.parametrize("waits", [True, False])
async def test_what_a_taker_raises_is_raised_to_whoever_delivers(waits: bool) -> None:
    connection, sock = await asked(CHUNKED)

    def take(piece: bytes) -> bool:
        raise LookupError(piece)

    if not waits:
        sock.say(chunk(b"1"))
    delivering = asyncio.ensure_future(connection.deliver(take))
    await asyncio.sleep(0)
    sock.say(chunk(b"2"))
    with pytest.raises(LookupError) as raised:
        await delivering
    assert raised.value.args == ((b"2",) if waits else (b"1",))
    sock.say(chunk(b"3") + LAST)
    assert await all_of(connection) == (b"3" if waits else b"23")


async def test_what_came_before_the_trouble_is_still_told() -> None:
    connection, sock = await asked(CHUNKED + chunk(b"all of it") + b"no size\r\n")
    assert await connection.read() == b"all of it"
    assert sock.closing
    with pytest.raises(NotHttp):
        await connection.read()


async def test_the_kernel_s_word_for_a_break_is_passed_on() -> None:
    connection, sock = await asked(CHUNKED)
    sock.hang_up(BrokenPipeError("gone"))
    with pytest.raises(BrokenPipeError):
        await connection.read()


async def test_what_is_left_of_an_answer_is_not_for_the_next_request() -> None:
    connection, _ = await asked(CHUNKED + chunk(b"one's own") + LAST)
    assert connection.ended
    assert not connection.reusable
    assert await connection.read() == b"one's own"
    assert connection.reusable


async def test_an_answer_before_the_request_was_sent_leaves_no_connection_for_the_next() -> None:
    connection, sock = await asked(OK + b"content-length: 0\r\n\r\n")
    sock.unsent = 1
    assert not connection.reusable
    sock.unsent = 0
    assert connection.reusable


async def test_a_socket_is_not_stopped_for_what_ends_its_answer() -> None:
    connection, sock = await asked(CHUNKED)
    sock.say(chunk(bytes(2 * READ_AHEAD_BYTES)) + LAST)
    assert sock.reading
    assert len(await connection.read()) == 2 * READ_AHEAD_BYTES
    assert connection.reusable


async def test_chunks_of_one_byte_count_as_what_they_cost() -> None:
    _, sock = await asked(CHUNKED)
    sent = 0
    while sock.reading:
        sock.say(chunk(b"x") * 100)
        sent += 100
    assert sent < READ_AHEAD_BYTES / 50


async def test_a_head_that_comes_in_one_piece_is_bounded_as_well() -> None:
    connection, sock = connected()
    asking = asyncio.ensure_future(connection.ask(b"", b""))
    await asyncio.sleep(0)
    sock.say(OK + b"a:\r\n" * (2 * SILENT_BYTES) + b"content-length: 0\r\n\r\n")
    with pytest.raises(NotHttp):
        await asking


@pytest.mark.parametrize("coding", [b"identity", b"gzip", b"chunked, gzip"])
async def test_a_body_in_another_coding_lasts_until_the_socket_ends(coding: bytes) -> None:
    connection, sock = await asked(OK + b"transfer-encoding: " + coding + b"\r\n\r\nall ")
    sock.say(b"of it")
    sock.hang_up()
    assert await all_of(connection) == b"all of it"


async def test_tls_that_ends_without_a_word_ends_what_has_no_length() -> None:
    """uvloop tells nothing but the loss of the connection then."""
    connection, sock = await asked(OK + b"\r\nall of it")
    sock.closing = True
    connection.connection_lost(None)
    assert await all_of(connection) == b"all of it"


@pytest.mark.parametrize("when", ["asked", "read", "delivered", "taken"])
async def test_a_connection_that_broke_is_freed_without_the_cyclic_collector(when: str) -> None:
    async def broken() -> weakref.ref[Connection]:
        connection, sock = connected()
        asking = asyncio.ensure_future(connection.ask(b"", b""))
        await asyncio.sleep(0)
        ways = {
            "asked": lambda: asking,
            "read": connection.read,
            "delivered": lambda: connection.deliver(lambda _: True),
            "taken": lambda: connection.deliver(lambda _: bool(1 / 0)),
        }
        if when != "asked":
            sock.say(CHUNKED)
            await asking
        working = asyncio.ensure_future(ways[when]())
        await asyncio.sleep(0)
        if when == "taken":  # as the event loop calls it: the frames of callers are held as well
            asyncio.get_running_loop().call_soon(sock.say, chunk(b"x"))
        else:
            sock.hang_up(BrokenPipeError(32, "gone"))
        # Awaited by itself it would be held by this frame, and this frame by its traceback.
        (error,) = await asyncio.gather(working, return_exceptions=True)
        assert isinstance(error, ZeroDivisionError if when == "taken" else BrokenPipeError)
        sock.hang_up()
        return weakref.ref(connection)

    never_open = weakref.ref(Connection(lambda _: None))
    gc.collect()
    gc.disable()
    try:
        gone = await broken()
        await asyncio.sleep(0)  # the turn that has told us holds the error
        assert gone() is None
        assert never_open() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nx: \xe9\x01\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\n\r\n",
    ],
    ids=["bare LF", "no ASCII", "no reason", "blank after a size"],
)
async def test_what_every_client_forgives_is_forgiven(said: bytes) -> None:
    connection, _ = await asked(said)
    assert await all_of(connection) == b"ok"
    assert connection.reusable


async def test_trailers_of_an_answer_are_no_headers_of_the_next() -> None:
    connection, sock = await asked(CHUNKED + b"0\r\ncontent-encoding: gzip\r\nx-more: 1\r\n\r\n")
    assert connection.reusable
    asking = asyncio.ensure_future(connection.ask(b"", b""))
    await asyncio.sleep(0)
    sock.say(OK + b"content-length: 0\r\n\r\n")
    assert (await asking).headers == {"content-length": "0"}


async def test_headers_of_one_name_are_joined() -> None:
    connection, sock = connected()
    asking = asyncio.ensure_future(connection.ask(b"", b""))
    await asyncio.sleep(0)
    sock.say(OK + b"Content-Encoding: gzip\r\ncontent-encoding: br\r\ncontent-length: 0\r\n\r\n")
    assert (await asking).headers["content-encoding"] == "gzip, br"


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_an_answer_without_a_body_is_over_with_its_head(status: bytes) -> None:
    connection, _ = await asked(b"HTTP/1.1 " + status + b"\r\ncontent-type: x\r\n\r\n")
    assert await connection.read() == b""
    assert connection.reusable
