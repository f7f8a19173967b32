"""The demo's client: the official `openai` package, with an ear on the bytes of its streams.

In: a replica's address. Out: `Half`s, each what came over one connection: the events as the client
parsed them, and the bytes of exactly those frames. Used by `respool.demo`.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Self, cast

import httpx2
from openai import AsyncOpenAI, AsyncStream
from openai.types.responses import ResponseStreamEvent

PROMPT = "Patch greeting.py so that it is polite."
TOOL = "apply_patch"
MODEL = "demo"
FRAME_END = b"\n\n"

Watch = Callable[[ResponseStreamEvent], bool]
"""Sees each event; True ends the reading there."""


@dataclass(frozen=True, slots=True)
class Half:
    """What came over one connection."""

    raw: bytes
    events: int
    last: int
    """The sequence number of the last event."""


class _Tee(httpx2.AsyncByteStream):
    """Passes a body on and keeps a copy."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body
        self.copy = bytearray()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            self.copy += chunk
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class Client:
    """The official client of one replica. Use as a context manager."""

    def __init__(self, url: str) -> None:
        # No retries: what the demo shows is what happened.
        self._openai = AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._openai.close()

    async def create(self, watch: Watch) -> Half:
        """Create a response that calls a custom tool, and read its stream as far as `watch` wants."""
        stream = await self._openai.responses.create(
            model=MODEL,
            input=PROMPT,
            tools=[{"type": "custom", "name": TOOL, "description": "Applies a patch to a file."}],
            stream=True,
        )
        return await _read(stream, watch)

    async def resume(self, response_id: str, after: int | None, watch: Watch) -> Half:
        """Read a response's stream from the frame behind `after`; None means all of it."""
        if after is None:
            stream = await self._openai.responses.retrieve(response_id, stream=True)
        else:
            stream = await self._openai.responses.retrieve(
                response_id, stream=True, starting_after=after
            )
        return await _read(stream, watch)


async def _read(stream: AsyncStream[ResponseStreamEvent], watch: Watch) -> Half:
    tee = _Tee(cast("httpx2.AsyncByteStream", stream.response.stream))
    stream.response.stream = tee
    events, last = 0, -1
    async with stream:
        async for event in stream:
            events, last = events + 1, event.sequence_number
            if watch(event):
                # More may have arrived than was read; what was not read is thrown away.
                frames = bytes(tee.copy).split(FRAME_END)[:events]
                return Half(b"".join(frame + FRAME_END for frame in frames), events, last)
    return Half(bytes(tee.copy), events, last)
