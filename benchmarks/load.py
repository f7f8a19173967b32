"""A load client: many streams at once, each delta's age taken when it arrives.

In: addresses and a `Load`. Out: a `Figures`. It parses nothing but the stamps (`benchmarks.upstream`), so that it costs
little on a machine that also runs the gateway. Streams that are lost, repeated or out of order are counted, not raised;
whoever asked for the run judges them.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import orjson

from benchmarks.exchange import READ, Exchange, Whole, exchange, whole
from benchmarks.figures import MS_NS, Figures

STAMP = re.compile(rb'"delta":\s?"t=(\d+);"')
TEXT_STAMP = re.compile(rb"t=(\d+);")
NUMBER = re.compile(rb'"sequence_number":\s?(\d+)')
RESPONSE = re.compile(rb'"id":\s?"(resp_[0-9a-zA-Z_-]+)"')
LONGEST_FRAME = 4096
LONGEST_S = 120.0
"""A run that takes so much longer than its upstream is given up; peers need a minute for 500 streams."""
NEARLY = 0.9
"""So much of a response is through when its followers are looked at a last time: none has left yet."""
CUSTOM = [{"type": "custom", "name": "exec", "description": "runs it"}]


class Way(StrEnum):
    """What each client does."""

    STREAM = "stream"
    """Creates a response and reads it as it comes."""
    BLOCKING = "blocking"
    """Creates a response and waits for the whole of it."""
    FOLLOW = "follow"
    """One creates a response, all read it; at least one client at every address."""
    RESUME = "resume"
    """Reads a finished response from its second event on."""


@dataclass(frozen=True, slots=True)
class Load:
    """So many clients at once, each of so many frames, so far apart; and all that so many times, one after another."""

    streams: int
    frames: int
    interval_ms: float
    api: str = "responses"
    """Which the gateway finds behind it: responses, chat, or custom (a custom tool's function, over responses)."""
    way: Way = Way.STREAM
    times: int = 1
    expects: bytes = b""
    """What every stream must have in it somewhere, for instance an event that only the gateway makes."""

    @property
    def model(self) -> str:
        """The name that tells the gateway which upstream to use, and the scripted one what to play."""
        return f"{self.api}:{self.frames}:{self.interval_ms:g}"

    @property
    def shortest_s(self) -> float:
        """How long the upstream itself takes."""
        return self.frames * self.interval_ms * self.times / 1000

    def body(self, *, stream: bool = True) -> bytes:
        """A request for one of its responses."""
        asked: dict[str, object] = {"model": self.model, "input": "hi", "stream": stream}
        if self.api == "custom":
            asked["tools"] = CUSTOM
        return orjson.dumps(asked)


Marked = Callable[[], Awaitable[None]]
Client = Callable[[str, Load, Figures], Awaitable[None]]


async def run(
    bases: Sequence[str], load: Load, *, rid: str = "", marked: Marked | None = None
) -> Figures:
    """The whole load, its clients spread over the addresses.

    `rid` is the response to resume (`made`). `marked` is called twice while a response is followed: when every client
    has had its first byte, and before the first one leaves.
    """
    figures = Figures(load.frames)
    try:
        async with asyncio.timeout(load.shortest_s * 2 + LONGEST_S):
            for _ in range(load.times):
                began = time.monotonic()
                await _once(bases, load, figures, rid, marked)
                figures.wall_s += time.monotonic() - began
                _look_into(figures)
    except TimeoutError:
        figures.errors.append("given up: it took too long")
        figures.lost = load.streams * load.frames * load.times - figures.frames
    return figures


async def made(base: str, load: Load) -> str:
    """A finished response of the load's frames; its id. Raises RuntimeError where there is none."""
    answer = await whole(base, "POST", "/responses", load.body(stream=False))
    if answer.status != 200:
        raise RuntimeError(answer.body[:500].decode(errors="replace"))
    return str(orjson.loads(answer.body)["id"])


async def _once(
    bases: Sequence[str], load: Load, figures: Figures, rid: str, marked: Marked | None
) -> None:
    if load.way is Way.FOLLOW:
        await _follow(bases, load, figures, marked)
        return
    clients: dict[Way, Client] = {Way.STREAM: _stream, Way.BLOCKING: _block}
    # Who keeps nothing has nothing to resume: it streams as much.
    clients[Way.RESUME] = partial(_resume, rid) if rid else _stream
    client = clients[load.way]
    places = (bases[n % len(bases)] for n in range(load.streams))
    await asyncio.gather(*(_kept(client(base, load, figures), figures) for base in places))


async def _kept(client: Awaitable[None], figures: Figures) -> None:
    """A client whose connection breaks is one error, and the others go on."""
    try:
        await client
    except (asyncio.IncompleteReadError, OSError) as error:
        figures.errors.append(repr(error))
        figures.lost += figures.expected


async def _stream(base: str, load: Load, figures: Figures) -> None:
    async with exchange(base, "POST", "/responses", load.body()) as asked:
        await _read(asked, load, figures)


async def _block(base: str, load: Load, figures: Figures) -> None:
    answer = await whole(base, "POST", "/responses", load.body(stream=False))
    if _refused(answer, figures):
        return
    figures.first_bytes.append(answer.first_s * 1000)
    figures.count([int(stamp) for stamp in TEXT_STAMP.findall(answer.body)])


async def _resume(rid: str, base: str, load: Load, figures: Figures) -> None:
    del load
    answer = await whole(base, "GET", f"/responses/{rid}?stream=true&starting_after=0")
    if _refused(answer, figures):
        return
    figures.first_bytes.append(answer.first_s * 1000)
    figures.unread.append(answer.body)


def _look_into(figures: Figures) -> None:
    """What was resumed, when the time is taken: this takes as long as the reading."""
    for body in figures.unread:
        numbers = [int(number) for number in NUMBER.findall(body)]
        # What stands around the deltas is not counted; that nothing is missing among them all is seen.
        if numbers != list(range(1, len(numbers) + 1)):
            figures.disordered += 1
        figures.count([int(stamp) for stamp in STAMP.findall(body)])
    figures.unread.clear()


def _refused(answer: Whole, figures: Figures) -> bool:
    if answer.status == 200:
        return False
    figures.errors.append(answer.body[:500].decode(errors="replace"))
    figures.lost += figures.expected
    return True


class Attendance:
    """Who follows a response: its id once it is known, how many have begun to read, how far the first one is."""

    def __init__(self, followers: int, frames: int) -> None:
        self.rid: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.all_there = asyncio.Event()
        self.nearly_over = asyncio.Event()
        self._missing = followers
        self._left = int(frames * NEARLY)

    def begun(self, chunk: bytes) -> None:
        """A client has its first bytes."""
        if not self.rid.done() and (found := RESPONSE.search(chunk)):
            self.rid.set_result(found[1].decode())
        self._missing -= 1
        if self._missing == 0:
            self.all_there.set()

    def over(self) -> None:
        """The one that created it is gone: who still waits for its id waits in vain."""
        if not self.rid.done():
            self.rid.set_exception(ConnectionError("no response to follow"))
            self.rid.exception()  # looked at, also where nobody follows

    def read(self, frames: int) -> None:
        """A client has read so many by now."""
        if frames >= self._left:
            self.nearly_over.set()


async def _follow(
    bases: Sequence[str], load: Load, figures: Figures, marked: Marked | None
) -> None:
    followers = max(load.streams, len(bases))
    attendance = Attendance(followers, load.frames)

    async def lead() -> None:
        try:
            async with exchange(bases[0], "POST", "/responses", load.body()) as asked:
                await _read(asked, load, figures, attendance)
        finally:
            attendance.over()

    async def join(base: str) -> None:
        rid = await attendance.rid
        async with exchange(base, "GET", f"/responses/{rid}?stream=true") as asked:
            await _read(asked, load, figures, attendance)

    async def watch() -> None:
        for event in (attendance.all_there, attendance.nearly_over):
            await event.wait()
            if marked is not None:
                await marked()

    others = (join(bases[n % len(bases)]) for n in range(1, followers))
    watching = asyncio.create_task(watch())
    try:
        await asyncio.gather(*(_kept(one, figures) for one in (lead(), *others)))
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    if not watching.cancelled():
        watching.result()


async def _read(
    asked: Exchange, load: Load, figures: Figures, attendance: Attendance | None = None
) -> None:
    if asked.status != 200:
        figures.errors.append((await asked.reader.read(500)).decode(errors="replace"))
        figures.lost += figures.expected
        return
    rest, first, expected = b"", 0, not load.expects
    stamps: list[int] = []
    while chunk := await asked.reader.read(READ):
        now = time.monotonic_ns()
        if not first:
            first = now
            if attendance:
                attendance.begun(chunk)
        rest += chunk
        figures.received += len(chunk)
        end = 0
        for match in STAMP.finditer(rest):
            stamp = int(match[1])
            stamps.append(stamp)
            if (
                stamp > asked.sent_ns
            ):  # what was said before somebody followed is read later by nature
                figures.ages.append((now - stamp) / MS_NS)
            end = match.end()
        expected = expected or load.expects in rest
        rest = rest[end:][-LONGEST_FRAME:]
        if attendance:
            attendance.read(len(stamps))
    if first:
        figures.first_bytes.append((first - asked.sent_ns) / MS_NS)
    figures.count(stamps)
    if not expected:
        figures.errors.append(f"a stream without {load.expects!r}")
