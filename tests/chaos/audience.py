"""Clients that read streams side by side, leave in the middle, and go on at the other replica.

Each reads one response after another, of every kind in turn. What it has seen of one is a `Viewing`: the joined frames,
and when each came. It ends with the terminal frame, or with an error where the gateway says that there is no more.
"""

import asyncio
import itertools
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.chaos.model import TOOLS
from tests.frames import frames

KINDS = ("prose", "custom", "prose", "tools")
DONE = b"data: [DONE]\n\n"
NUMBER = re.compile(rb'"sequence_number":(\d+)')
NAME = re.compile(rb'"id":"(resp_[0-9a-f]{32})"')
TERMINAL = (b"event: response.completed\n", b"event: response.failed\n")
PATIENCE_S = 1.0
"""Silence after which a client tries the other replica; a process that stands still looks like that."""
CREATE_PATIENCE_S = 10.0
PAUSE_S = 0.03
"""Before the next try where a replica does not answer."""
STAY = 0.4
"""Of the connections, those that are read to the end."""
FRAMES_READ = (3, 20)
"""After how many frames the others are left."""

NUMBERS = itertools.count()
Request = Callable[[str], dict[str, Any]]
"""The body of a create, by its prompt."""


@dataclass
class Viewing:
    """What a client saw of one response."""

    kind: str
    tag: str = ""
    """The prompt."""
    rid: str = ""
    frames: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    connections: int = 0
    whole: bool = False
    """It has the terminal frame and `[DONE]`."""
    refused: str = ""
    """What the gateway said in place of more frames."""
    wronged: set[str] = field(default_factory=set)
    """Faults that this response may not survive: `ingest` was lost under it, its log was taken `back`."""
    lived_through: list[str] = field(default_factory=list)
    """The trials that fell into its life."""

    @property
    def last(self) -> int:
        return int(NUMBER.search(self.frames[-1])[1]) if self.frames else -1

    @property
    def over(self) -> bool:
        return self.whole or bool(self.refused)

    def saw(self, frame: bytes) -> None:
        if not self.rid:
            self.rid = NAME.search(frame)[1].decode()
        self.frames.append(frame)
        self.times.append(time.monotonic())

    def longest_gap(self, start: float, end: float) -> float:
        """The longest silence that touches a span of time."""
        pairs = itertools.pairwise([*self.times, *([] if self.over else [end])])
        return max((b - a for a, b in pairs if b > start and a < end), default=0.0)


class Client:
    """Reads one response."""

    def __init__(self, doors: Callable[[], list[str]], dice: random.Random) -> None:
        self._doors = doors
        self._dice = dice
        self._door = dice.randrange(2)

    async def view(self, viewing: Viewing, request: Request) -> None:
        """See it to its end, over as many connections as it takes. One whose id did not come is asked for anew."""
        while not viewing.over:
            url = self._doors()[self._door % 2]
            self._door += 1
            viewing.connections += 1
            try:
                async with aiohttp.ClientSession() as session:
                    await self._connect(session, url, viewing, request)
            except (aiohttp.ClientError, TimeoutError, OSError):
                await asyncio.sleep(PAUSE_S)

    async def _connect(
        self, session: aiohttp.ClientSession, url: str, viewing: Viewing, request: Request
    ) -> None:
        patience = aiohttp.ClientTimeout(sock_read=PATIENCE_S if viewing.rid else CREATE_PATIENCE_S)
        path = f"{url}/v1/responses"
        if viewing.rid:
            after = {"starting_after": str(viewing.last)} if viewing.frames else {}
            query = {"stream": "true", **after}
            asking = session.get(f"{path}/{viewing.rid}", params=query, timeout=patience)
        else:
            viewing.tag = f"{viewing.kind}-{next(NUMBERS)}"
            asking = session.post(path, json=request(viewing.tag), timeout=patience)
        async with asking as answer:
            if answer.status in (502, 503):
                await asyncio.sleep(PAUSE_S)
            elif answer.status != 200:
                viewing.refused = f"{answer.status} {(await answer.text())[:200]}"
            else:
                await self._read(answer, viewing)

    async def _read(self, answer: aiohttp.ClientResponse, viewing: Viewing) -> None:
        stays = self._dice.random() < STAY
        left = None if stays else self._dice.randint(*FRAMES_READ)
        async for frame in frames(answer):
            if frame == DONE:
                viewing.whole = bool(viewing.frames) and viewing.frames[-1].startswith(TERMINAL)
                viewing.refused = "" if viewing.whole else "[DONE] and no terminal frame"
                return
            if frame.startswith(b"event: error\n"):
                viewing.refused = frame.decode()
                return
            if frame.startswith(b"event: response."):
                viewing.saw(frame)
                if left is not None and (left := left - 1) == 0:
                    return


class Audience:
    """All clients: each reads until `leave`, and gives every viewing to the judge."""

    def __init__(
        self,
        doors: Callable[[], list[str]],
        mcp_url: str,
        judge: Callable[[Viewing], Awaitable[None]],
        seed: int,
    ) -> None:
        self._doors = doors
        self._mcp_url = mcp_url
        self._judge = judge
        self._seed = seed
        self._leaving = False
        self.viewings: list[Viewing] = []
        """Those that are not judged yet."""

    async def sit(self, place: int) -> None:
        """The life of one client."""
        dice = random.Random(f"{self._seed}-{place}")  # noqa: S311 - nothing secret
        client = Client(self._doors, dice)
        for kind in itertools.islice(itertools.cycle(KINDS), place, None):
            if self._leaving:
                return
            viewing = Viewing(kind)
            self.viewings.append(viewing)
            try:
                await client.view(viewing, self._request)
                await self._judge(viewing)
            finally:
                self.viewings.remove(viewing)

    def leave(self) -> None:
        """Read what has begun to its end, and begin nothing more."""
        self._leaving = True

    def _request(self, tag: str) -> dict[str, Any]:
        return {"model": "m", "input": tag, "stream": True, "tools": self._tools(tag)}

    def _tools(self, tag: str) -> list[dict[str, Any]]:
        kind = tag.partition("-")[0]
        if kind in TOOLS:
            return TOOLS[kind]
        server = {
            "type": "mcp",
            "server_label": "files",
            # Lists are kept for a while: each response asks for its own.
            "server_url": f"{self._mcp_url}?{tag}",
            "require_approval": "never",
        }
        return [{"type": "web_search"}, server]
