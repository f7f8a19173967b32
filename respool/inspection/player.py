"""`respool upstream`: a scripted upstream that plays recordings and exports back.

In: exchanges (of the `tape` beside this), in the order of the files. Out: a server that answers what was asked then as it
was answered then, byte for byte, at once or at the original pace. Called by `respool.cli` and by tests.

Which exchange answers a request: the next not yet played of those whose body is the same; else the next not yet played
of that path; else, when all were played, it begins anew. So a conversation plays in its order, and a repeat is answered.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from respool.inspection.evidence import read_file, shown
from respool.inspection.recorder import LARGEST_BODY, serving, until_a_signal
from respool.inspection.screen import Screen, count
from respool.inspection.tape import Exchange, exchanges_of
from respool.unusable import Unusable
from streams.transcript import Damaged
from translator.protocol.json import loads

BASE: Final = "/v1"


class Player:
    """The server. `played` are the numbers of the exchanges that it has answered with, in order."""

    def __init__(self, exchanges: Sequence[Exchange], *, speed: float | None = None) -> None:
        """`speed` is how much faster than the original; None: at once."""
        self._exchanges = exchanges
        self._asked = [exchange.asked for exchange in exchanges]
        self._left = set(range(len(exchanges)))
        self._speed = speed
        self.played: list[int] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer with the exchange that fits."""
        path = request.path.removeprefix(BASE)
        raw = await request.read()
        number = self._fitting(request.method, path, raw)
        if number is not None:
            self.played.append(number)
            return await self._play(request, self._exchanges[number])
        if request.method == "GET" and path == "/models":
            return web.json_response(self._models())
        message = f"Nothing was recorded for {request.method} {path}."
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        return web.json_response({"error": error}, status=404)

    def _fitting(self, method: str, path: str, raw: bytes) -> int | None:
        candidates = [
            number
            for number, exchange in enumerate(self._exchanges)
            if (exchange.method, exchange.path) == (method, path)
        ]
        if not candidates:
            return None
        if not self._left.intersection(candidates):
            self._left.update(candidates)
        left = [number for number in candidates if number in self._left]
        try:
            asked = loads(raw) if raw else None
        except ValueError:
            asked = None
        number = next((one for one in left if self._asked[one] == asked), left[0])
        self._left.discard(number)
        return number

    def _models(self) -> dict[str, Any]:
        names = dict.fromkeys(exchange.model for exchange in self._exchanges if exchange.model)
        data = [{"id": n, "object": "model", "created": 0, "owned_by": "respool"} for n in names]
        return {"object": "list", "data": data}

    async def _play(self, request: web.Request, exchange: Exchange) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def due(at_ms: int) -> None:
            if self._speed is not None:
                await asyncio.sleep(max(0.0, began + at_ms / 1000 / self._speed - loop.time()))

        if not exchange.status:  # it never answered
            await self._broken(request, exchange, due)
        await due(exchange.answered_ms)
        stream = web.StreamResponse(status=exchange.status, headers=exchange.headers)
        await stream.prepare(request)
        for at, chunk in exchange.chunks:
            await due(at)
            await stream.write(chunk)
        await due(exchange.ended_ms)
        if exchange.end != "eof":
            await self._broken(request, exchange, due)
        await stream.write_eof()
        return stream

    async def _broken(self, request: web.Request, exchange: Exchange, due: Any) -> None:
        """What is no end: silence until the client leaves, or a connection that breaks."""
        await due(exchange.ended_ms)
        if exchange.end == "left":
            await asyncio.Event().wait()  # cancelled when the client leaves
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("played")


@asynccontextmanager
async def playing(
    exchanges: Sequence[Exchange], *, speed: float | None = None, port: int = 0
) -> AsyncIterator[tuple[str, Player]]:
    """Serve on loopback; the base URL that RESPOOL_UPSTREAM_URL wants, and the player."""
    player = Player(exchanges, speed=speed)
    app = web.Application(client_max_size=LARGEST_BODY)
    app.router.add_route("*", "/{any:.*}", player.handle)
    async with serving(app, "127.0.0.1", port) as url:
        yield url + BASE, player


def exchanges_of_files(names: Sequence[str]) -> list[Exchange]:
    """What the files hold, in order. Raises Unusable."""
    found: list[Exchange] = []
    for name in names:
        try:
            found += exchanges_of(read_file(name))
        except Damaged as error:
            raise Unusable(f"{shown(name)}: {error.message}") from None
    if not found:
        raise Unusable("nothing to play: the files hold no request to an upstream")
    return found


async def upstream(screen: Screen, names: list[str], *, speed: float | None, port: int) -> int:
    """Play until Ctrl-C."""
    exchanges = exchanges_of_files(names)
    async with playing(exchanges, speed=speed, port=port) as (url, player):
        screen.data({"url": url, "exchanges": len(exchanges)})
        screen.say(f"RESPOOL_UPSTREAM_URL={url}")
        for path in dict.fromkeys(exchange.path for exchange in exchanges):
            models = dict.fromkeys(one.model for one in exchanges if one.path == path)
            total = sum(one.path == path for one in exchanges)
            screen.say(f"{path}: {count(total, 'exchange')}, {', '.join(filter(None, models))}")
        screen.flush()
        await until_a_signal()
    screen.data({"played": player.played})
    return 0
