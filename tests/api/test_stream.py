import asyncio
import logging

import pytest
from starlette.requests import ClientDisconnect

from api.stream import EventStream, Pace
from streams.scripts import outputs
from streams.store import Store
from tests.api.exchange import exchanging
from tests.api.gateway import DONE, data_of, running
from tests.wait import wait_until
from translator.protocol.sse import frame

PING = b": ping\n"
CALM = Pace(heartbeat_s=60, keepalive_s=60)


def public(seq: int) -> bytes:
    return frame("response.x", {"type": "response.x", "sequence_number": seq})


class Log:
    """An output log with a translator's lease, into which a test commits frames."""

    def __init__(self, store: Store, rid: str, fence: str) -> None:
        self.store, self.rid, self.fence, self.seq, self.cursor = store, rid, fence, -1, 0

    @classmethod
    async def made(cls, store: Store, gateway) -> "Log":
        rid = (await gateway.made(background=True))["id"]
        lease = await store.writer.do(outputs.acquire(store.keys, rid, token="t", lease_ms=60_000))
        store.handover.begin_translating(rid)
        return cls(store, rid, lease.fence)

    async def commit(self, count: int = 1, *, terminal: bool = False) -> list[bytes]:
        frames = [public(self.seq + 1 + n) for n in range(count)]
        await self.store.writer.do(
            outputs.commit(
                self.store.keys,
                self.rid,
                fence=self.fence,
                expected_cursor=self.cursor,
                cursor=self.cursor,
                first_seq=self.seq + 1,
                frames=frames,
                digest="d",
                lease_ms=60_000,
                retain_ms=60_000,
                max_out_bytes=1 << 20,
                status="completed" if terminal else None,
                terminal=terminal,
            )
        )
        self.store.handover.publish_output(self.rid, self.seq + 1, frames, terminal)
        self.seq += count
        return frames

    def stream(self, after: int = -1, pace: Pace = CALM, **options) -> EventStream:
        reader = self.store.hub.open(self.rid, after)
        return EventStream(reader, after=after, pace=pace, **options)


@pytest.fixture
async def log(store, upstream):
    async with running(store, upstream, roles=False) as gateway:
        yield await Log.made(store, gateway)


async def test_a_batch_is_one_write_that_ends_at_a_frames_end(log: Log):
    first = await log.commit(3)
    async with exchanging(log.stream()) as (exchange, task):
        await exchange.until(first[-1])
        second = await log.commit(2)
        await exchange.until(second[-1])
        last = await log.commit(1, terminal=True)
        await task
        assert exchange.writes == [b"".join(first), b"".join(second), last[0] + DONE]
        assert exchange.complete
        assert exchange.headers == {
            b"content-type": b"text/event-stream; charset=utf-8",
            b"cache-control": b"no-cache, no-transform",
            b"x-accel-buffering": b"no",
        }


async def test_a_reader_at_the_end_of_a_finished_response_gets_done_at_once(log: Log):
    await log.commit(3, terminal=True)
    async with exchanging(log.stream(2)) as (exchange, task):
        await task
        assert exchange.writes == [DONE]


async def test_frames_that_come_while_the_headers_are_sent_are_not_missed(log: Log):
    """A cursor that is taken after the first bytes went out skips what came meanwhile."""
    async with exchanging(log.stream()) as (exchange, task):
        exchange.reading.clear()  # the headers wait for the client
        await asyncio.sleep(0)
        frames = await log.commit(3)
        exchange.reading.set()
        frames += await log.commit(1, terminal=True)
        await task
        assert exchange.body == b"".join(frames) + DONE


async def test_silence_is_filled_with_comments_that_have_no_blank_line(log: Log):
    async with exchanging(log.stream(pace=Pace(0.02, 60))) as (exchange, task):
        await exchange.until(PING, 2)
        frames = await log.commit(2)
        await exchange.until(frames[-1])
        await log.commit(1, terminal=True)
        await task
        pings, _, rest = exchange.body.partition(b"event: ")
        assert set(pings.split(b"\n")) == {b": ping", b""}
        assert b"\n\n" not in pings
        assert rest.endswith(DONE)


async def test_a_busy_stream_has_no_heartbeats(log: Log):
    async with exchanging(log.stream(pace=Pace(0.3, 60))) as (exchange, task):
        for _ in range(20):
            await log.commit(1)
            await asyncio.sleep(0.02)
        await log.commit(1, terminal=True)
        await task
        assert PING not in exchange.body


async def test_long_silence_is_broken_by_an_event_that_burns_no_number(log: Log):
    pace = Pace(heartbeat_s=0.02, keepalive_s=0.05)
    async with exchanging(log.stream(pace=pace, ids=True)) as (exchange, task):
        await exchange.until(PING, 4)
        assert b"keepalive" not in exchange.body  # there is no number yet that it could repeat
        await log.commit(2)
        await exchange.until(b"event: keepalive\n", 2)
        await log.commit(1, terminal=True)
        await task
    frames = [f.replace(PING, b"") for f in exchange.body.split(b"\n\n")[:-2]]
    numbers = [data_of(f + b"\n\n")["sequence_number"] for f in frames]
    assert numbers[:4] == [0, 1, 1, 1]
    assert numbers[-1] == 2
    beats = [f for f in frames if b"keepalive" in f]
    assert beats[0] == b'event: keepalive\ndata: {"type":"keepalive","sequence_number":1}'


async def test_a_keepalive_of_a_resumed_stream_repeats_the_cursor(log: Log):
    await log.commit(3)
    async with exchanging(log.stream(2, Pace(60, 0.02))) as (exchange, _):
        await exchange.until(b'{"type":"keepalive","sequence_number":2}')


async def test_a_client_that_leaves_frees_its_reader(log: Log):
    async with exchanging(log.stream()) as (exchange, task):
        await exchange.until(b"", 0)
        await wait_until(lambda: EventStream.readers == 1)
        exchange.left.set()
        with pytest.raises(ClientDisconnect):
            await task
    assert log.store.hub.feeds == 0
    assert EventStream.readers == 0


@pytest.mark.parametrize("first", ["frames", "heartbeat"])
async def test_a_client_that_does_not_read_is_cut_after_the_deadline(log: Log, first):
    pace = Pace(0.01 if first == "heartbeat" else 60, 60, write_deadline_s=0.05)
    async with exchanging(log.stream(pace=pace)) as (exchange, task):
        await wait_until(lambda: exchange.sent)
        exchange.reading.clear()
        if first == "frames":
            await log.commit(3)
        # A heartbeat that is due meanwhile does not queue behind the write that waits.
        with pytest.raises(ClientDisconnect):
            await task
        assert len(exchange.sent) == 1
    assert log.store.hub.feeds == 0


async def test_a_slow_client_is_served_and_delays_nobody(log: Log):
    async with (
        exchanging(log.stream()) as (slow, slow_task),
        exchanging(log.stream()) as (quick, quick_task),
    ):
        await wait_until(lambda: slow.sent and quick.sent)
        slow.reading.clear()
        sent = await log.commit(2)
        sent += await log.commit(2)
        await quick.until(sent[-1])
        assert len(slow.sent) == 1
        slow.reading.set()
        sent += await log.commit(1, terminal=True)
        await asyncio.gather(slow_task, quick_task)
        assert slow.body == quick.body == b"".join(sent) + DONE


async def test_an_unexpected_error_ends_the_stream_with_a_neutral_error_event(log: Log, caplog):
    class Broken:
        """A reader with a bug of ours."""

        def __init__(self, reader) -> None:
            self.reader = reader

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            self.reader.close()

        def __aiter__(self):
            return self

        async def __anext__(self):
            raise ZeroDivisionError("-".join(("secret", "of", "ours")))

    reader = Broken(log.store.hub.open(log.rid, -1))
    stream = EventStream(reader, after=4, pace=CALM)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        async with exchanging(stream) as (exchange, task):
            await task
    event, done = exchange.body.split(b"\n\n")[:2]
    assert done + b"\n\n" == DONE
    body = data_of(event)
    assert body["sequence_number"] == 5
    assert body["error"]["type"] == "server_error"
    assert "secret-of-ours" not in exchange.body.decode() + caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_a_store_that_refuses_under_a_stream_is_told(log: Log):
    await log.commit(2)
    async with exchanging(log.stream()) as (exchange, task):
        await exchange.until(public(1))
        # The log becomes something of another type: every read of it fails from now on.
        key, command = log.store.keys.output(log.rid), log.store.connections.command
        await command("DEL", key)
        await command("SET", key, "x", "PX", 60_000)
        await command("HSET", log.store.keys.state(log.rid), "seq", 5)
        log.store.handover.end_translating(log.rid)
        await task
        event, done = exchange.writes[-1].split(b"\n\n")[:2]
        assert done + b"\n\n" == DONE
        assert data_of(event)["code"] == "store_unavailable"
        assert data_of(event)["sequence_number"] == 2
