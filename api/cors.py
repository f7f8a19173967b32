"""Web pages of other origins: which of them a browser lets read our answers. Off unless the settings name some.

In: every HTTP message of the server. Out: the same, with the headers that a browser looks for on every answer to a page of
an allowed origin, errors included; and the answer to a browser's question beforehand (the preflight). A page of any other
origin gets no such header, so its browser shows it nothing. Cookies play no part: keys come in a header, and a page must
have one. Made by `api.app`.
"""

import re
from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANY: Final = "*"

METHODS: Final = b"GET, POST, DELETE"
SHOWN: Final = b"x-request-id, retry-after, retry-after-ms, x-should-retry"
"""What of our headers a page may read: what the SDKs read."""

MAX_AGE_S: Final = 600
"""How long a browser may remember a preflight, which is how long a removed origin still sees its answers."""

NAMES: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:[ \t]*,[ \t]*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*"
)
"""A list of header names. SDKs send a dozen of their own, so whatever a page asks for is allowed: none has a meaning here
beyond those that are documented."""


class Cors:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        """`origins` as browsers send them (`https://app.example`), or `*` for any."""
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Headers(scope=scope) if scope["type"] == "http" else Headers()
        origin = asked.get("origin")
        if origin is None:
            await self._app(scope, receive, send)
        elif not self._allows(origin):
            await self._app(scope, receive, varying(send, VARY))
        elif scope["method"] == "OPTIONS" and "access-control-request-method" in asked:
            await preflight(asked, self._allowing(origin), send)
        else:
            shown = (b"access-control-expose-headers", SHOWN)
            await self._app(scope, receive, varying(send, *self._allowing(origin), shown))

    def _allows(self, origin: str) -> bool:
        return ANY in self._origins or origin in self._origins

    def _allowing(self, origin: str) -> list[tuple[bytes, bytes]]:
        if ANY in self._origins:
            return [(b"access-control-allow-origin", ANY.encode())]
        return [(b"access-control-allow-origin", origin.encode("latin-1")), VARY]


VARY: Final = (b"vary", b"origin")
"""For caches between us and a browser: the answer to one origin is not the one to another."""


def varying(send: Send, *headers: tuple[bytes, bytes]) -> Send:
    """A `send` that adds headers to an answer."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return sent


async def preflight(asked: Headers, allowing: list[tuple[bytes, bytes]], send: Send) -> None:
    """Yes, with these methods and those headers; nothing has been looked at, a key neither."""
    names = asked.get("access-control-request-headers", "")
    headers = [
        *allowing,
        (b"access-control-allow-methods", METHODS),
        (b"access-control-max-age", str(MAX_AGE_S).encode()),
        *([(b"access-control-allow-headers", names.encode())] if NAMES.fullmatch(names) else []),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
