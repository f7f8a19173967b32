"""Reading output logs for clients: one feed per response and process, any number of readers.

In: `open(rid, after)` by api for every client. Out: a `Reader`, an async iterator of lists of frames that ends after the
terminal one. Readers pull by cursor: from the feed's ring where it holds the next frame, else a page from Redis. Frames
come in by hand-over where this process translates the response, else by doorbell and poll.

A reader that does not read costs nothing but its cursor. It raises Gone where the response is deleted or has expired
under it, and LogLost at a hole.
"""

import asyncio
from types import TracebackType
from typing import Self

from streams.doorbell import POLL_S, Doorbell
from streams.feed import Feed, fault_of
from streams.handover import Handover
from streams.keys import Keys
from streams.logs import Logs
from streams.opening import Opening, Outcome
from streams.scripts.outputs import Frame, Page
from streams.work import Work
from translator.protocol.errors import RespoolError


class Hub:
    """One per process; `run` is its ticker and must be running."""

    def __init__(
        self, keys: Keys, logs: Logs, handover: Handover, doorbell: Doorbell, work: Work
    ) -> None:
        self._keys = keys
        self._logs = logs
        self._handover = handover
        self._doorbell = doorbell
        self._work = work
        self._feeds: dict[str, Feed] = {}
        self._openings: set[Opening] = set()

    def open(self, rid: str, after: int = -1, page: Page | None = None) -> "Reader":
        """A reader of the frames after number `after`. Use it in `async with`, or read it to its end, or close it.

        A `page` of the log that was read before spares it the first look.
        """
        feed = self._feeds.get(rid)
        if feed is None:
            feed = self._feeds[rid] = Feed(
                rid,
                self._logs,
                self._handover,
                self._doorbell,
                self._keys.bell_out(rid),
                patient=self._work.registered("translate"),
            )
        if page is not None:
            feed.learn(page)
        feed.readers += 1
        return Reader(self, feed, self._logs, after)

    def leave(self, feed: Feed) -> None:
        """A reader lets go of its feed (called by the reader)."""
        feed.readers -= 1
        if feed.readers == 0:
            del self._feeds[feed.rid]
            feed.close()

    def deleted(self, rid: str) -> None:
        """This process is about to delete a response: its readers are told so, not that it was lost."""
        if feed := self._feeds.get(rid):
            feed.deleted = True

    async def opened(self, rid: str, timeout_s: float) -> Outcome | None:
        """Wait until the upstream accepted or refused the first round, or the response ended; None: not in time.

        The time is over at a tick: no timer of its own is set and cancelled for every response. Raises Gone where there
        is no such response.
        """
        opening = Opening(
            rid,
            self._logs,
            self._handover,
            self._doorbell,
            self._keys.bell_in(rid),
            until=asyncio.get_running_loop().time() + timeout_s,
            patient=self._work.registered("rounds"),
        )
        self._openings.add(opening)
        try:
            return await opening.outcome()
        finally:
            self._openings.discard(opening)
            opening.close()

    @property
    def feeds(self) -> int:
        """Responses that somebody reads here."""
        return len(self._feeds)

    async def run(self) -> None:
        """The ticker; ends only by cancellation."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(POLL_S)
            now = loop.time()
            for feed in list(self._feeds.values()):
                feed.tick(now)
            for opening in list(self._openings):
                opening.tick(now)


class Reader:
    """One client's place in an output log."""

    def __init__(self, hub: Hub, feed: Feed, logs: Logs, after: int) -> None:
        self._hub = hub
        self._feed = feed
        self._logs = logs
        self.after = after
        """The last frame that was given out (or the number to start after)."""
        self._open = True

    @property
    def deleted(self) -> bool:
        """Whether this process was asked to delete the response."""
        return self._feed.deleted

    async def __aenter__(self) -> Self:
        """Nothing to do: the reader was opened by the hub."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go."""
        self.close()

    def __aiter__(self) -> Self:
        """A reader is its own iterator."""
        return self

    async def __anext__(self) -> list[Frame]:
        """The next frames, as many as there are up to a bound; waits where there are none yet."""
        if not self._open:
            raise StopAsyncIteration
        try:
            frames = await self._next()
        except RespoolError as error:
            self.close()
            raise fault_of(error, self._feed.rid) from error
        if not frames:
            self.close()
            raise StopAsyncIteration
        self.after = frames[-1].seq
        if frames[-1].terminal:
            self.close()
        return frames

    async def _next(self) -> list[Frame]:
        feed = self._feed
        while True:
            if frames := feed.take(self.after):
                return frames
            if feed.told is not None and self.after < feed.told.seq:
                page = await self._logs.read_on(feed.rid, feed.told, self.after)
                feed.learn(page)
                return page.frames
            if feed.tail is None or self.after < feed.known:
                page = await self._logs.read_output(feed.rid, self.after)
                feed.learn(page)
                if page.frames or page.done:
                    return page.frames
            elif feed.done:
                return []
            else:
                await feed.news()

    def close(self) -> None:
        """Let go of the response; may be called more than once."""
        if self._open:
            self._open = False
            self._hub.leave(self._feed)
