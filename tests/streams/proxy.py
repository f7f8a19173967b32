"""A TCP proxy before a real server that can lose replies, refuse connections and cut them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.wait import wait_until

LOOK = b"INFO"
"""What a store asks now and then by itself: a reply that is to be lost is another's."""


class Proxy:
    """Passes bytes on. A lost reply is one whose request was carried out: that is the point of it."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        """Where new connections go."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.losing = 0
        """Chunks of replies to lose from now on; each loss cuts its connection."""
        self.losing_of = b""
        """Only of connections whose last request has this in it."""
        self.away = False
        """New connections are closed at once."""
        self.mute = False
        """Replies are swallowed, and the connection stays."""
        self.held = b""
        """Requests with this in them wait until it is emptied again."""
        self.looks = True
        """Whether `seen` grows."""
        self.seen = b""
        """All that clients sent, for tests that look for a command."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.away:
                return
            try:
                back, forth = await asyncio.open_connection(*self.target)
            except OSError:  # the server is away: so are we
                return
            self._writers |= {writer, forth}
            asked = bytearray()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._requests(reader, forth, asked))
                    group.create_task(self._replies(back, writer, asked))
            except* (OSError, EOFError):
                pass
            finally:
                self._writers -= {writer, forth}
                forth.close()
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _requests(
        self, reader: asyncio.StreamReader, forth: asyncio.StreamWriter, asked: bytearray
    ) -> None:
        while chunk := await reader.read(1 << 16):
            asked[:] = chunk
            if self.looks:
                self.seen += chunk
            if self.held and self.held in chunk:
                await wait_until(lambda: not self.held)
            forth.write(chunk)
            await forth.drain()
        raise EOFError

    async def _replies(
        self, back: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytearray
    ) -> None:
        while chunk := await back.read(1 << 16):
            if self.mute:
                continue
            if self.losing and self.losing_of in asked and LOOK not in asked:
                self.losing -= 1
                break
            writer.write(chunk)
            await writer.drain()
        raise EOFError

    def cut(self) -> None:
        """Break every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy and the URL behind which it stands."""
    parts = urlsplit(url)
    proxy = Proxy(parts.hostname or "127.0.0.1", parts.port or 6379)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, parts._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()
    finally:
        server.close()
        await proxy.close()
