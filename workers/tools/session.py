"""Sessions with MCP servers, with the official SDK: open one, ask one thing, leave.

In: a server with its credentials, and a question to its client. Out: the answer, once it is there, whatever leaving may
take or say; or a `Failed` in one of the shapes of contract.md section 7, in which no text is the SDK's and no
secret stands. Each question has a session of its own: nothing of one response can reach another. Called by
`workers.tools.mcp`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from workers.tools.addresses import AllowedHosts, Origin, origin_of
from workers.tools.answers import leniently
from workers.tools.credentials import blanked
from workers.tools.job import MAX_MESSAGE_CHARS, Failed
from workers.tools.servers import Server

if TYPE_CHECKING:
    import ssl

    import httpx2
    from mcp import Client
    from mcp.shared._httpx_utils import McpHttpClientFactory

    from workers.tools.wire import Watch

log = logging.getLogger(__name__)

T = TypeVar("T")

OPEN_S: Final = 20.0
"""From the first connection to an open session; the SDK waits for ever for an endpoint that it refuses."""

AT_ONCE: Final = 0.0
"""On the loop's clock: long ago."""

DOUBT_S = 5.0
"""For an answer to a message of which a proxy says that its time was up, or whose connection broke: it may be at work."""

FAREWELL_S = 2.0
"""For telling a server that its session is over. Nobody waits for it, and one that does not hear of it forgets by itself."""

UNREADABLE_TEXT: Final = "The MCP server's answer is not valid MCP."
ENDED_TEXT: Final = "The MCP server ended the connection without an answer."
TIMEOUT_CODE: Final = 504

TRY_OTHER: Final = frozenset({400, 404, 405, 406, 415})
"""What a server of one transport says to a client of the other."""


class Sessions:
    """One per process. `aclose` when no question is open any more."""

    def __init__(self, allowed: AllowedHosts, *, timeout_s: float) -> None:
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._farewells: set[asyncio.Task[None]] = set()  # each leaves it by itself

    async def ready(self) -> None:
        """Load the SDK and the certificates, once, beside the event loop: both take long."""
        if "_tls" not in vars(self):
            await loaded()
            await asyncio.to_thread(lambda: self._tls)

    async def aclose(self) -> None:
        """Leave servers without a word."""
        await asyncio.sleep(0)  # one that has not begun would not close its client
        for farewell in self._farewells:
            farewell.cancel()
        await asyncio.gather(*self._farewells, return_exceptions=True)

    @cached_property
    def _tls(self) -> "ssl.SSLContext":
        """Made once: reading the certificates takes tens of ms."""
        import ssl  # noqa: PLC0415 - with the first connection

        return ssl.create_default_context()

    async def ask(self, server: Server, question: Callable[["Client"], Awaitable[T]]) -> T:
        """The answer to a question, by the transport that the server speaks. Raises Failed."""
        from workers.tools.wire import Watch  # noqa: PLC0415 - with the SDK

        origin = origin_of(server.url, self._allowed)
        order = ["http", "sse"]
        if urlsplit(server.url).path.rstrip("/").endswith("/sse"):
            order.reverse()
        renewed = False
        while True:
            transport = order[0]
            watch = Watch(frozenset({"POST"} if transport == "http" else {"GET", "POST"}))
            try:
                return await self._asked(transport, origin, server, watch, question)
            except Exception as error:  # noqa: BLE001 - whatever the SDK raises is this question's failure
                if watch.lost and not renewed:
                    # MCP wants a new session then; a server that forgets each one would go on for ever.
                    renewed = True
                elif watch.opened or watch.status not in TRY_OTHER or len(order) == 1:
                    raise failure_of(error, watch, server.secrets) from None
                else:
                    order.pop(0)

    async def _asked(
        self,
        transport: str,
        origin: Origin,
        server: Server,
        watch: "Watch",
        question: Callable[["Client"], Awaitable[T]],
    ) -> T:
        """Ask over one transport. An answer that is there stays, whatever leaving raises."""
        from workers.tools.wire import client_for  # noqa: PLC0415 - with the SDK

        http = client_for(origin, server.headers, watch, self._tls, timeout_s=self._timeout_s)
        answers: list[T] = []
        asking = asyncio.timeout(min(OPEN_S, self._timeout_s))
        if transport == "sse":
            watch.on_undelivered = partial(_end, asking, watch)
        try:
            async with (
                asking,
                _client(transport, server.url, http) as client,
            ):
                watch.opened = True
                # The limit of a call is its job's; what has been ended meanwhile stays so.
                asking.reschedule(AT_ONCE if asking.when() == AT_ONCE else None)
                answers.append(await question(client))
        except Exception:
            if not answers:
                raise
        finally:
            await self._leave(http, watch)
        return answers[0]

    async def _leave(self, http: "httpx2.AsyncClient", watch: "Watch") -> None:
        if watch.session is None:
            await http.aclose()
            return
        from workers.tools.wire import farewell  # noqa: PLC0415 - with the SDK

        task = asyncio.create_task(farewell(http, watch.session, limit_s=FAREWELL_S))
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)


def _end(asking: asyncio.Timeout, watch: "Watch", surely: bool) -> None:
    """End what waits for an answer that cannot come: over SSE the SDK hears of a lost message, and tells nobody."""
    watch.opened = True  # the stream of answers is open: this server does speak SSE
    if not asking.expired():
        asking.reschedule(AT_ONCE if surely else asyncio.get_running_loop().time() + DOUBT_S)


@asynccontextmanager
async def _client(transport: str, url: str, http: Any) -> AsyncIterator["Client"]:
    import mcp_types as types  # noqa: PLC0415 - the SDK takes a second to import
    from mcp import Client  # noqa: PLC0415
    from mcp.client.sse import sse_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    from workers.tools.wire import MAX_ANSWER_BYTES  # noqa: PLC0415

    def made(**given: Any) -> Any:
        del given
        return http

    way = (
        streamable_http_client(
            url,
            http_client=http,
            max_sse_event_size=MAX_ANSWER_BYTES,
            terminate_on_close=False,  # it would have the result wait for that
        )
        if transport == "http"
        else sse_client(url, httpx_client_factory=cast("McpHttpClientFactory", made))
    )
    info = types.Implementation(name="respool", version="1")
    async with Client(leniently(way), client_info=info, cache=None) as client:
        yield client


def failure_of(error: Exception, watch: "Watch", secrets: list[str]) -> Failed:
    """Why a session failed, in a shape for the client: what the wire saw comes before what the SDK says of it."""
    from mcp import MCPError  # noqa: PLC0415 - with the SDK

    for leaf in leaves_of(error):
        if isinstance(leaf, Failed):
            return leaf
    if watch.trouble is not None:
        return watch.trouble
    leaf = next(iter(leaves_of(error)))
    said = isinstance(leaf, MCPError) and watch.said(leaf.message)
    if watch.status is not None and not (said and watch.status >= 400):
        return Failed.http(watch.status, f"The MCP server answered with status {watch.status}.")
    if isinstance(leaf, MCPError) and said:
        message: str = blanked(leaf.message, secrets)
        return Failed.protocol(leaf.code, message[:MAX_MESSAGE_CHARS])
    return _unsaid(leaf)


def _unsaid(error: BaseException) -> Failed:
    """In our words, what only the SDK has words for."""
    import mcp_types as types  # noqa: PLC0415 - with the SDK
    from mcp import MCPError  # noqa: PLC0415

    if isinstance(error, TimeoutError):
        return Failed.http(TIMEOUT_CODE, "The MCP server did not answer in time.")
    log.info("An MCP session ended in %s", type(error).__name__)
    if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
        return Failed.protocol(-32603, ENDED_TEXT)
    return Failed.protocol(-32603, UNREADABLE_TEXT)


def leaves_of(error: BaseException) -> list[BaseException]:
    """The errors inside a group of errors."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves_of(inner)]
    return [error]


def load() -> None:
    """Import the SDK: a second, in which heartbeats would be late."""
    for name in ("mcp.client.sse", "mcp.client.streamable_http", "workers.tools.wire"):
        import_module(name)


async def loaded() -> None:
    """`load` beside the event loop."""
    await asyncio.to_thread(load)
