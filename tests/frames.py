"""Frames as clients read them: cut at blank lines, without the heartbeats before one that was long in coming."""

import re
from collections.abc import AsyncIterator

import aiohttp

HEARTBEATS = re.compile(rb"\A(?:: ping\n)+")


def frame_of(block: bytes) -> bytes:
    """The frame of what stood before a blank line."""
    return HEARTBEATS.sub(b"", block) + b"\n\n"


async def frames(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The frames of a stream as they come; what comes after the last one's end is thrown away."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n\n")
        for block in whole:
            yield frame_of(block)
