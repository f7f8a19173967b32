"""Request bodies, bounded while they come in.

In: a request. Out: its body, or a 413 as soon as it is known to be too large: at once where the client says the length,
else with the chunk that passes the bound; never is more than the bound held. A client that sends too slowly gets a 408.
Called by `api.create`.
"""

import asyncio
from typing import Final

from starlette.requests import Request

from translator.protocol.errors import RequestError, TooLarge

LENGTH_DIGITS: Final = 18
"""No honest Content-Length has more."""

DEADLINE_S: Final = 60.0
"""How long a body may take to arrive. 24 MiB do within it on a mobile network (400 KB/s); who is slower is cut off, since
a thousand such clients would hold a thousand unfinished bodies. SDKs repeat a request after a 408 by themselves."""


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Raises TooLarge past `limit` bytes, ClientDisconnect if the client leaves first."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError("Compressed request bodies are not supported.", status=415)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > LENGTH_DIGITS or int(declared) > limit):
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(DEADLINE_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        # The rest may still come: nothing else can be read from this connection.
        raise RequestError(
            f"The request body did not arrive within {DEADLINE_S:g} seconds.",
            status=408,
            headers={"connection": "close"},
        ) from None
    return bytes(body)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request body is larger than {limit} bytes.")
