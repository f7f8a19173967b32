"""`respool record`: stands in front of an upstream and writes down what it is asked and what it sends.

In: the upstream's base URL, a file. Out: an address to be used in its place, and the file (`tape`, beside this, says what is
in it), whole once the command has ended. Requests pass as they are, with their keys; the file has no header of theirs, and
no query. Called by `respool.cli`.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from respool import __version__
from respool.inspection.screen import Screen, count
from respool.inspection.tape import KEPT
from respool.settings import http_base
from respool.unusable import Unusable
from streams.transcript import Sealing, header_line, text
from translator.protocol.json import dumps

LARGEST_BODY: Final = 64 << 20
"""What the gateway itself sends upstream at most."""

CONNECT_S: Final = 10.0

HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "host", "content-length", "accept-encoding"),
        "content-encoding",
    }
)
"""Headers that belong to one connection; bodies pass unpacked, so that the file shows what was said."""

UNREACHABLE: Final = (
    b'{"error":{"message":"The upstream could not be reached.","type":"server_error"}}'
)


class Writing:
    """The file in the making."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sealing = Sealing()
        self._began = time.monotonic()
        self.exchanges = 0
        self._line(header_line("upstream", by=f"respool {__version__}"))

    def request(self, method: str, path: str, body: bytes) -> int:
        """A request came; the number of its exchange."""
        self.exchanges += 1
        self.note(self.exchanges, method=method, path=path, body=text(body))
        return self.exchanges

    def note(self, exchange: int, **said: object) -> None:
        """One record."""
        at = round((time.monotonic() - self._began) * 1000)
        self._line(dumps({"exchange": exchange, "at": at, **said}) + b"\n")

    def close(self) -> None:
        """The last line: from here on the file is whole."""
        self._file.write(self._sealing.last_line())

    def _line(self, line: bytes) -> None:
        self._file.write(self._sealing.add(line))


class Recorder:
    """The server in front."""

    def __init__(self, upstream: str, writing: Writing, session: aiohttp.ClientSession) -> None:
        parts = urlsplit(upstream)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self.path = parts.path.rstrip("/")
        self._writing = writing
        self._session = session

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on and its answer back, and write both down."""
        body = await request.read()
        path = request.path.removeprefix(self.path)
        number = self._writing.request(request.method, path, body)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP}
        headers["accept-encoding"] = "identity"
        try:
            answer = await self._session.request(
                request.method,
                self._origin + request.raw_path,
                data=body,
                headers=headers,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError):
            self._writing.note(number, end="refused")
            return web.Response(status=502, body=UNREACHABLE, content_type="application/json")
        try:
            return await self._pass(request, answer, number)
        finally:
            answer.close()

    async def _pass(
        self, request: web.Request, answer: aiohttp.ClientResponse, number: int
    ) -> web.StreamResponse:
        kept = {name: answer.headers[name] for name in KEPT if name in answer.headers}
        self._writing.note(number, status=answer.status, headers=kept)
        headers = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP}
        stream = web.StreamResponse(status=answer.status, headers=headers)
        end = "left"
        try:
            await stream.prepare(request)
            while chunk := await self._read(answer):
                self._writing.note(number, data=text(chunk))
                await stream.write(chunk)
            end = "eof"
            await stream.write_eof()
        except Broken:
            end = "reset"
            if request.transport is not None:
                request.transport.abort()  # the client must not take this for an end
        except ConnectionResetError:
            end = "left"
        finally:
            self._writing.note(number, end=end)
        return stream

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        try:
            return await answer.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise Broken from error


class Broken(Exception):
    """The upstream broke its answer off."""


@asynccontextmanager
async def recording(
    upstream: str, file: BinaryIO, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[tuple[str, Writing]]:
    """Record into an open file; the base URL that stands for the upstream's, and the file in the making."""
    writing = Writing(file)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
    async with aiohttp.ClientSession(
        timeout=timeout, auto_decompress=True, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        recorder = Recorder(upstream, writing, session)
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{any:.*}", recorder.handle)
        async with serving(app, host, port) as url:
            yield url + recorder.path, writing
    writing.close()


@asynccontextmanager
async def serving(app: web.Application, host: str, port: int) -> AsyncIterator[str]:
    """An application on a port (0: any free one); its address. Raises Unusable where the port is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise Unusable(
                f"port {port}: {(error.strerror or 'cannot be served').lower()}"
            ) from None
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def until_a_signal() -> None:
    """Return at Ctrl-C or SIGTERM."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await asked.wait()


async def record(screen: Screen, upstream: str, into: Path, *, port: int) -> int:
    """Record until Ctrl-C."""
    try:
        upstream = http_base(upstream)
    except ValueError as error:
        raise Unusable(f"--upstream: {error}") from None
    try:
        file = into.open("xb")
    except FileExistsError:
        raise Unusable(f"{into}: is there already") from None
    except OSError as error:
        raise Unusable(f"{into}: {(error.strerror or 'cannot be written').lower()}") from None
    with file, suppress(asyncio.CancelledError):
        async with recording(upstream, file, port=port) as (url, writing):
            screen.data({"url": url, "file": str(into)})
            screen.say(f"RESPOOL_UPSTREAM_URL={url}")
            screen.flush()
            await until_a_signal()
    screen.data({"file": str(into), "exchanges": writing.exchanges})
    screen.say(f"{into}: {count(writing.exchanges, 'exchange')}")
    return 0
