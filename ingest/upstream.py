"""One request to an upstream: exactly the stored body, our own key, nothing of the client's but a trace that it began.

In: an upstream, the dialect of the response and the body of its round. Out: an `Answer`, which
delivers the decoded bytes of the stream as they come; every other outcome is a `RoundError`
that says how the round ended. Called by `ingest.run`, step 2 of the data's way. Idle and total
time-outs are the caller's: it hears the same clock for its lease.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, urlsplit

from ingest.connection import Connection, Head, NotHttp, Take
from ingest.decoding import Inflate
from ingest.pool import CONNECT_TIMEOUT_S, Origin, Pool
from ingest.redaction import PORTS, Redaction
from ingest.refusal import RoundError, failed, misspoken, refused, timed_out
from translator.protocol.entries import RoundEnd
from translator.protocol.errors import ProtocolFault, UpstreamError
from translator.protocol.upstream import Upstream

ERROR_BODY_BYTES: Final = 64 * 1024
"""An error's body is read so far; a longer one is no message for a person."""

ERROR_BODY_S: Final = 2.0
"""And so long. Its status is known and is the answer; words that come later come too late."""

LINGER_S: Final = 0.25
"""After the end marker a well-behaved upstream ends its body at once, and its connection can serve
the next round; one that leaves the socket open is cut off."""

LINGER_BYTES: Final = 64 * 1024
"""What may still come in that time; more means that it is not about to end."""

PATHS: Final = {"responses": "responses", "chat": "chat/completions"}
UPSTREAMS: Final = 64
"""Upstreams whose heads are kept written: as many as a gateway has, and as editing them brings in a while."""


class Answer:
    """An upstream that said 200."""

    def __init__(self, connection: Connection, head: Head) -> None:
        """Raises ProtocolFault where the body is compressed in a way not asked for."""
        self._connection = connection
        self._inflate = _inflate(head)
        self._pieces: Iterator[bytes] = iter(())  # what one chunk decodes to
        self.read: Callable[[], Awaitable[bytes]] = (
            connection.read if self._inflate is None else self._decoded
        )
        """The next bytes, as soon as there are any; empty at the end. What the connection raises is told as a RoundError
        by `open`."""

    async def deliver(self, take: Take) -> bool:
        """Have `take` called with each piece as it comes; whether the body is over, else `take` wants no more now."""
        if self._inflate is None:
            return await self._connection.deliver(take)
        while chunk := await self._decoded():
            if not take(chunk):
                return False
        return True

    async def _decoded(self) -> bytes:
        inflate = self._inflate
        if inflate is None:
            raise AssertionError("the body is not compressed")
        while True:
            for piece in self._pieces:
                await asyncio.sleep(0)  # a small chunk may stand for hours of pieces
                if piece:
                    return piece
            raw = await self._connection.read()
            if not raw:
                if not inflate.ended:
                    raise RoundError(broken_off())
                return b""
            self._pieces = inflate.feed(raw)

    async def linger(self) -> None:
        """After the end marker: wait a little for the body's end, to keep the connection."""
        if self._connection.reusable:
            return
        try:
            async with asyncio.timeout(LINGER_S):
                seen = 0
                while seen < LINGER_BYTES and (chunk := await self._connection.read()):
                    seen += len(chunk)
        except (NotHttp, OSError):  # time-outs among the latter
            return  # nothing of it is wanted any more; the caller closes the connection


class UpstreamClient:
    """The connections of one process to all upstreams. Use as a context manager."""

    def __init__(self, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._pool: Pool | None = None  # from enter to exit

    async def __aenter__(self) -> Self:
        self._pool = Pool(connect_timeout_s=self._connect_timeout_s)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def open(
        self, upstream: Upstream, api: str, body: bytes, trace: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[Answer]:
        """POST one round. Leaving the context closes the connection unless the body has ended.

        `trace` are the headers by which the upstream's own spans join ours.
        """
        return self._open(upstream, api, body, trace or {})

    @asynccontextmanager
    async def _open(
        self, upstream: Upstream, api: str, body: bytes, trace: Mapping[str, str]
    ) -> AsyncIterator[Answer]:
        pool = self._pool
        if pool is None:
            raise RuntimeError("UpstreamClient is used as a context manager")
        try:
            origin, start = _start(upstream, api)
            head = b"%b%bContent-Length: %d\r\n\r\n" % (start, _lines(trace), len(body))
            connection = await pool.take(origin)
        except TimeoutError:
            raise RoundError(timed_out("The upstream took no connection in time.")) from None
        except (OSError, ValueError):  # the latter: no usable URL
            raise RoundError(failed("refused", "The upstream could not be reached.")) from None
        try:
            answered = await connection.ask(head, body)
            del body  # it is sent, and the answer may take hours
            if answered.status != 200:
                raise RoundError(await _refusal(connection, answered, upstream))
            try:
                answer = Answer(connection, answered)
            except ProtocolFault as fault:
                raise RoundError(misspoken("http", fault.message)) from None
            try:
                yield answer
            except ProtocolFault as fault:
                raise RoundError(misspoken("reset", fault.message)) from None
        except NotHttp:
            raise RoundError(misspoken("http", "The upstream did not answer in HTTP.")) from None
        except OSError:
            raise RoundError(broken_off()) from None
        finally:
            pool.give_back(origin, connection)


def broken_off() -> RoundEnd:
    """The connection ended in the middle of an answer."""
    return failed("reset", "The upstream broke off its answer.")


@lru_cache(maxsize=UPSTREAMS)
def _start(upstream: Upstream, api: str) -> tuple[Origin, bytes]:
    """Where a round goes, and what all requests to it begin with. Raises ValueError where the URL is none of ours."""
    parts = urlsplit(upstream.base_url)
    if parts.scheme not in PORTS or not parts.hostname or parts.username is not None:
        raise ValueError("no base URL of an upstream")
    port = parts.port or PORTS[parts.scheme]
    host = parts.hostname if ":" in parts.hostname else parts.hostname.encode("idna").decode()
    named = f"[{host}]" if ":" in host else host
    path = quote(f"{parts.path.rstrip('/')}/{PATHS[api]}", safe="/%:@!$&'()*+,;=~")
    lines = {
        "Host": named if port == PORTS[parts.scheme] else f"{named}:{port}",
        "User-Agent": "respool",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    if upstream.api_key:
        lines["Authorization"] = f"Bearer {upstream.api_key}"
    start = f"POST {path} HTTP/1.1\r\n".encode() + _lines(lines)
    return Origin(parts.scheme == "https", host, port), start


def _lines(headers: Mapping[str, str]) -> bytes:
    """Headers as they are sent. Raises ValueError for one that would end its line."""
    for value in headers.values():
        if not value.isprintable():
            raise ValueError("a header with a character that none may have")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


def _inflate(head: Head) -> Inflate | None:
    encoding = head.headers.get("content-encoding", "identity")
    return None if encoding.strip().lower() in ("", "identity") else Inflate(encoding)


async def _refusal(connection: Connection, head: Head, upstream: Upstream) -> RoundEnd:
    """The end that an answer other than 200 makes; a body that cannot be read has no message."""
    body = b""
    try:
        async with asyncio.timeout(ERROR_BODY_S):
            answer = Answer(connection, head)
            while len(body) < ERROR_BODY_BYTES and (chunk := await answer.read()):
                body += chunk
    except TimeoutError:
        pass  # what has come may be whole
    except (UpstreamError, NotHttp, OSError):
        body = b""
    return refused(
        head.status,
        body,
        retry_after=head.headers.get("retry-after"),
        redaction=Redaction.of(upstream),
    )
