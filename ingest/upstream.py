"""One request to an upstream: exactly the stored body, our own key, nothing of the client's but a trace that it began.

In: an upstream, the dialect of the response and the body of its round. Out: an `Answer` whose
`read` gives the decoded bytes of the stream as they come; every other outcome is a `RoundError`
that says how the round ended. Called by `ingest.run`, step 2 of the data's way. Idle and total
time-outs are the caller's: it hears the same clock for its lease.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Final, Self

import aiohttp

from ingest.decoding import Inflate
from ingest.redaction import Redaction
from ingest.refusal import RoundError, failed, misspoken, refused, timed_out
from translator.protocol.entries import RoundEnd
from translator.protocol.errors import ProtocolFault, UpstreamError
from translator.protocol.upstream import Upstream

CONNECT_TIMEOUT_S: Final = 10.0
"""A model server that takes no connection in this time is away; a lost SYN or two fit in."""

READ_BUFFER_BYTES: Final = 1024 * 1024
"""What aiohttp reads ahead of us before it stops the socket."""

KEEPALIVE_S: Final = 4.0
"""Below the 5 s after which uvicorn (vLLM) and llama.cpp close an idle connection: a request sent
into a closing connection fails, and a POST is not sent again by itself."""

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
USER_AGENT: Final = "respool"


class Answer:
    """An upstream that said 200."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self._inflate = _inflate(response)
        self._pieces: Iterator[bytes] = iter(())  # what one chunk decodes to
        self.read: Callable[[], Awaitable[bytes]] = (
            self._content.readany if self._inflate is None else self._decoded
        )
        """The next bytes, as soon as there are any; empty at the end. Called for every frame, so
        what the connection raises passes here and is told as a RoundError by `open`."""

    async def _decoded(self) -> bytes:
        inflate = self._inflate
        if inflate is None:
            raise AssertionError("the body is not compressed")
        while True:
            for piece in self._pieces:
                await asyncio.sleep(0)  # a small chunk may stand for hours of pieces
                if piece:
                    return piece
            raw = await self._content.readany()
            if not raw:
                if not inflate.ended:
                    raise RoundError(broken_off())
                return b""
            self._pieces = inflate.feed(raw)

    async def linger(self) -> None:
        """After the end marker: wait a little for the body's end, to keep the connection."""
        try:
            async with asyncio.timeout(LINGER_S):
                seen = 0
                while seen < LINGER_BYTES and (chunk := await self._content.readany()):
                    seen += len(chunk)
        except (TimeoutError, aiohttp.ClientError, OSError):
            return  # nothing of it is wanted any more; the caller closes the connection


class UpstreamClient:
    """The connections of one process to all upstreams. Use as a context manager."""

    def __init__(self, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._session: aiohttp.ClientSession | None = None  # from enter to exit

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
            # aiohttp's own default ends every stream after five minutes
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER_BYTES,
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

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
        response = await self._post(upstream, api, body, trace)
        del body  # it is sent, and the answer may take hours
        try:
            if response.status != 200:
                raise RoundError(await _refusal(response, upstream))
            try:
                answer = Answer(response)
            except ProtocolFault as fault:
                raise RoundError(misspoken("http", fault.message)) from None
            try:
                yield answer
            except RoundError:
                raise
            except ProtocolFault as fault:
                raise RoundError(misspoken("reset", fault.message)) from None
            except (aiohttp.ClientError, OSError):
                raise RoundError(broken_off()) from None
        finally:
            response.close()  # a body that has ended has given its connection back already

    async def _post(
        self, upstream: Upstream, api: str, body: bytes, trace: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("UpstreamClient is used as a context manager")
        try:
            return await self._session.post(
                f"{upstream.base_url.rstrip('/')}/{PATHS[api]}",
                data=body,
                headers={**trace, **_headers(upstream)},
                allow_redirects=False,  # credentials must not travel
            )
        except aiohttp.ServerTimeoutError:
            raise RoundError(timed_out("The upstream took no connection in time.")) from None
        except (aiohttp.ClientConnectorError, ValueError):  # the latter: no usable URL
            raise RoundError(failed("refused", "The upstream could not be reached.")) from None
        except aiohttp.ClientResponseError:
            raise RoundError(misspoken("http", "The upstream did not answer in HTTP.")) from None
        except (aiohttp.ClientError, OSError):
            raise RoundError(broken_off()) from None


def broken_off() -> RoundEnd:
    """The connection ended in the middle of an answer."""
    return failed("reset", "The upstream broke off its answer.")


def _headers(upstream: Upstream) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        "User-Agent": USER_AGENT,
    }
    if upstream.api_key:
        headers["Authorization"] = f"Bearer {upstream.api_key}"
    return headers


def _inflate(response: aiohttp.ClientResponse) -> Inflate | None:
    encoding = response.headers.get("content-encoding", "identity")
    return None if encoding.strip().lower() in ("", "identity") else Inflate(encoding)


async def _refusal(response: aiohttp.ClientResponse, upstream: Upstream) -> RoundEnd:
    """The end that an answer other than 200 makes; a body that cannot be read has no message."""
    body = b""
    try:
        async with asyncio.timeout(ERROR_BODY_S):
            answer = Answer(response)
            while len(body) < ERROR_BODY_BYTES and (chunk := await answer.read()):
                body += chunk
    except TimeoutError:
        pass  # what has come may be whole
    except (UpstreamError, aiohttp.ClientError, OSError):
        body = b""
    return refused(
        response.status,
        body,
        retry_after=response.headers.get("retry-after"),
        redaction=Redaction.of(upstream),
    )
