"""The HTTP connection to one MCP server, with all that it must not do taken away.

In: the origin of the server's URL, the headers for it. Out: an `httpx2.AsyncClient` for the SDK's
transports, and a `Watch` that knows what went wrong and what the server itself said (the SDK hides
both). No request leaves the origin, whatever redirect or endpoint the server names; the host is
resolved and checked when a connection is made; no proxy, no cookie jar of others, no compression;
bytes are bounded, and halves of surrogate pairs, which the SDK refuses, become U+FFFD (contract.md
D16).

Imported lazily, with the SDK: `httpx2` and `httpcore2` are what it is made of.
"""

import asyncio
import json
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import httpcore2
import httpx2

from translator.protocol.json import ESCAPE, loads, replace_lone
from workers.tools.addresses import AddressRefused, Origin, addresses_of, canonical
from workers.tools.job import Failed

MAX_ANSWER_BYTES: Final = 8 * 2**20
"""One HTTP answer: a result of 1 MiB in which JSON escapes every byte fits, a list of tools does many times."""

CONNECT_S: Final = 10.0
"""One address: an intercontinental TLS handshake takes one or two seconds."""

LARGE_BYTES: Final = 64 * 2**10
"""Of text with escaped surrogates: from here on a thread mends it, at about 10 MiB a second."""

LED_ON: Final = frozenset({307, 308})
"""Redirects that a POST follows, within its origin."""

MAX_MESSAGES: Final = 1_024
"""What may be an error's message, looked at in one read and remembered; a call has one, results may have many."""

SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
COMPARED: Final = 1_000
"""Characters by which a message is known again: some servers put a whole trace into theirs."""

MESSAGE: Final = re.compile(
    rb'"message"\s*:\s*"((?:[^"\\]|\\u[0-9a-fA-F]{4}|\\.){0,%d})' % (4 * COMPARED)
)
"""In JSON, whose strings never go over the end of a line: also in what an event's `data` lines hold."""

SESSION: Final = "mcp-session-id"
OF_A_SESSION: Final = (SESSION, "mcp-protocol-version")
"""Headers by which a server knows what a request belongs to."""

UNREACHABLE_TEXT: Final = "The MCP server could not be reached."
ELSEWHERE_TEXT: Final = "The MCP server leads to another origin, which is not followed."
TOO_LARGE_TEXT: Final = "The MCP server's answer is too large."
ENCODED_TEXT: Final = "The MCP server's answer is compressed, although that was not asked for."


class Watch:
    """What was seen on the way to one server."""

    def __init__(self, methods: frozenset[str]) -> None:
        self.trouble: Failed | None = None  # the first thing that we stopped or that broke
        self.status: int | None = (
            None  # of the last answer to one of `methods`, if it was no success
        )
        self.opened = False  # set by whoever opened a session
        self.session: httpx2.Request | None = None  # the last request within one, if there is one
        self.lost = (
            False  # set where the server does not know its session any more, and so has run nothing
        )
        self.on_undelivered: Callable[[bool], None] | None = None
        """Called when a POST did not arrive, or was refused; with whether that is sure. Set by who would not hear of it
        otherwise."""
        self._methods = methods
        self._messages: deque[int] = deque(maxlen=MAX_MESSAGES)  # their hashes; set by `read`

    def fail(self, failure: Failed) -> Failed:
        """Keep the first failure; the caller raises what the SDK understands."""
        self.trouble = self.trouble or failure
        return failure

    def answered(self, method: str, status: int) -> None:
        """An answer came."""
        if method in self._methods:
            self.status = status if status >= 300 else None
        if method == "POST" and status >= 300 and status not in LED_ON:
            self.undelivered(surely=status < 500)

    def undelivered(self, *, surely: bool) -> None:
        """A message did not arrive; not `surely` where a proxy may have lost no more than the word of it."""
        if self.on_undelivered is not None:
            self.on_undelivered(surely)

    def read(self, lines: bytes) -> None:
        """Whole lines of an answer came."""
        if b'"message"' in lines:
            for found in islice(MESSAGE.finditer(lines), MAX_MESSAGES):
                text = found[1].decode("utf-8", "ignore")  # it may end within a character
                try:
                    self._messages.append(hash(loads(f'"{text}"'.encode())[:COMPARED]))
                except ValueError:
                    continue  # no JSON string: nothing that the SDK could have read

    def said(self, message: str) -> bool:
        """Whether an error's message is the server's. All others are the SDK's own: notes for developers."""
        return hash(message[:COMPARED]) in self._messages


class Backend(httpcore2.AsyncNetworkBackend):
    """Connects to checked addresses of one origin, and to nothing else."""

    def __init__(self, origin: Origin, watch: Watch) -> None:
        self._origin = origin
        self._watch = watch
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del host  # that of the origin: `Guard` has seen to it
        try:
            addresses = await addresses_of(self._origin)
        except AddressRefused as refusal:
            raise httpcore2.ConnectError("refused") from self._watch.fail(refusal)
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(
                    address,
                    port,
                    timeout=min(timeout or CONNECT_S, CONNECT_S),
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise httpcore2.ConnectError("unreachable") from failure

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class Guard(httpx2.AsyncHTTPTransport):
    """The transport under the SDK's client."""

    def __init__(self, origin: Origin, watch: Watch, tls: ssl.SSLContext) -> None:
        # The parent's own pool is replaced: it takes no network backend.
        super().__init__(verify=tls, trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=8,
            max_keepalive_connections=4,
            network_backend=Backend(origin, watch),
        )
        self._origin = origin
        self._watch = watch

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._response(request)
        except httpx2.HTTPError as error:
            if request.method == "POST":
                self._watch.undelivered(surely=isinstance(error, httpx2.ConnectError))
            raise

    async def _response(self, request: httpx2.Request) -> httpx2.Response:
        origin, url = self._origin, request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        same = (url.scheme, canonical(url.host), port)
        if same != (origin.scheme, origin.host, origin.port) or url.userinfo:
            raise httpx2.ConnectError("elsewhere") from self._watch.fail(
                Failed.http(502, ELSEWHERE_TEXT)
            )
        if SESSION in request.headers:
            self._watch.session = request
        try:
            response = await super().handle_async_request(request)
        except httpx2.HTTPError:
            self._watch.fail(Failed.http(502, UNREACHABLE_TEXT))
            raise
        self._watch.answered(request.method, response.status_code)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("encoded") from self._watch.fail(
                Failed.http(502, ENCODED_TEXT)
            )
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - for the type checker
        response.stream = Bounded(response.stream, self._watch)
        asked = asked_in_session(request) if response.status_code == 404 else None
        if asked is not None and not answers(await response.aread(), asked):
            self._watch.lost = True
            self._watch.session = None
        return response


class Bounded(httpx2.AsyncByteStream):
    """The body of an answer, up to its bound, in whole lines."""

    def __init__(self, inner: httpx2.AsyncByteStream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        begun: list[bytes] = []  # of a line that has not ended
        async for part in self._inner:
            seen += len(part)
            if seen > MAX_ANSWER_BYTES:
                raise httpx2.ReadError("too large") from self._watch.fail(
                    Failed.http(502, TOO_LARGE_TEXT)
                )
            end = max(part.rfind(b"\n"), part.rfind(b"\r")) + 1
            if end:
                yield await self._read(b"".join([*begun, part[:end]]))
                begun.clear()
            begun.append(part[end:])
        if rest := b"".join(begun):
            yield await self._read(rest)

    async def _read(self, lines: bytes) -> bytes:
        if SURROGATE.search(lines):
            if len(lines) > LARGE_BYTES:
                lines = await asyncio.to_thread(mended, lines)
            else:
                lines = mended(lines)
        self._watch.read(lines)
        return lines

    async def aclose(self) -> None:
        await self._inner.aclose()


def asked_in_session(request: httpx2.Request) -> str | int | None:
    """The id of a request that is one of JSON-RPC too, no notification or reply, within a session."""
    if request.method != "POST" or SESSION not in request.headers:
        return None
    message: dict[str, Any] = json.loads(request.content)
    asked: str | int | None = message.get("id") if "method" in message else None
    return asked


def answers(body: bytes, asked: str | int) -> bool:
    """Whether a body is the answer to that request: the server knew its session, and may have run what was asked."""
    try:
        said = json.loads(body)
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("id") == asked


def mended(lines: bytes) -> bytes:
    """JSON whose escapes are whole characters, each half of a pair an U+FFFD."""
    return ESCAPE.sub(replace_lone, lines)


def client_for(
    origin: Origin,
    headers: dict[str, str],
    watch: Watch,
    tls: ssl.SSLContext,
    *,
    timeout_s: float,
) -> httpx2.AsyncClient:
    """A client that can reach this one server. Use as a context manager (the SDK's transports do)."""
    return httpx2.AsyncClient(
        transport=Guard(origin, watch, tls),
        # As bytes: given text, the library takes ASCII alone, and HTTP has Latin-1.
        headers=[
            *((name.encode(), value.encode("latin-1")) for name, value in headers.items()),
            (b"accept-encoding", b"identity"),
        ],
        timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
        trust_env=False,
    )


async def farewell(http: httpx2.AsyncClient, last: httpx2.Request, *, limit_s: float) -> None:
    """Tell a server that the session of a request is over, and close the client. What it says to that is nobody's."""
    headers = {name: last.headers[name] for name in OF_A_SESSION if name in last.headers}
    try:
        with suppress(httpx2.HTTPError, TimeoutError):
            async with asyncio.timeout(limit_s):
                await http.delete(last.url, headers=headers)
    finally:
        await http.aclose()
