"""Request bodies, bounded while they come in.

In: a request. Out: its body, or a 413 as soon as it is known to be too large: at once where the client says the length,
else with the chunk that passes the bound; never is more than the bound held. Called by `api.create`.
"""

from typing import Final

from starlette.requests import Request

from translator.protocol.errors import RequestError, TooLarge

LENGTH_DIGITS: Final = 18
"""No honest Content-Length has more."""


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Raises TooLarge past `limit` bytes, ClientDisconnect if the client leaves first."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError("Compressed request bodies are not supported.", status=415)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > LENGTH_DIGITS or int(declared) > limit):
        raise _too_large(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request body is larger than {limit} bytes.")
