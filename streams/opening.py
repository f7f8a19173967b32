"""Whether the upstream accepted a response: awaited by api before it answers 200 (through `Hub.opened`).

In: the word of this process's ingest, else the state hash after a ring of the doorbell or a poll. Out:
`Opened` or `Refusal`, once.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from streams.doorbell import Doorbell
from streams.faults import Gone
from streams.handover import Handover
from streams.logs import Logs, State
from translator.protocol.entries import Entry, Kind, RoundEnd
from translator.protocol.errors import RespoolError
from translator.protocol.json import loads


@dataclass(frozen=True, slots=True)
class Opened:
    """The upstream said 200 (or the response ended otherwise): what happens next is in the stream."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The upstream refused the first round, or could not be reached: still an HTTP status."""

    end: RoundEnd


Outcome = Opened | Refusal


class Opening:
    """One wait for one response. Closed by whoever made it."""

    def __init__(
        self,
        rid: str,
        logs: Logs,
        handover: Handover,
        doorbell: Doorbell,
        channel: str,
        *,
        until: float,
        patient: bool,
    ) -> None:
        """`until`: the loop's time when the wait is over, at the next tick.

        `patient`: this process is likely to run the round itself, so channel and state can wait for a tick.
        """
        self._rid = rid
        self._logs = logs
        self._handover = handover
        self._doorbell = doorbell
        self._channel = channel
        self._until = until
        self._future: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        handover.subscribe_input(rid, self)
        self._unring: Callable[[], None] | None = None
        if not patient:
            self._listen()
            self.look()

    async def outcome(self) -> Outcome | None:
        """Wait for it; None where the time was over first. Raises Gone where there is no such response."""
        return await self._future

    def close(self) -> None:
        """Nobody waits any more."""
        self._handover.unsubscribe_input(self._rid, self)
        if self._unring is not None:
            self._unring()
            self._unring = None
        if not self._future.cancel() and not self._future.cancelled():
            self._future.exception()  # seen, also where the time was over first

    def entries_appended(self, entries: Sequence[Entry]) -> None:
        """This process's ingest has appended entries (`streams.handover.InputFollower`)."""
        if any(entry.kind == Kind.ROUND_END for entry in entries):
            self.look()

    def upstream_opened(self) -> None:
        """This process's upstream has accepted (`streams.handover.InputFollower`): its entry need not be waited for."""
        self._resolve(Opened())

    def ingesting_changed(self) -> None:
        """Hand-over begins or ends (`streams.handover.InputFollower`)."""
        if not self._handover.ingesting(self._rid):
            self._listen()
            self.look()

    def tick(self, now: float) -> None:
        """The hub's ticker: end a wait whose time is over; subscribe where that was put off, and look."""
        if now >= self._until:
            self._resolve(None)
            return
        if not self._handover.ingesting(self._rid):
            self._listen()
        self.look()

    def look(self) -> None:
        """Read the state."""
        if not self._future.done():
            self._logs.request_state(self._rid, self._learn)

    def _listen(self) -> None:
        if self._unring is None:
            self._unring = self._doorbell.subscribe(self._channel, self.look)

    def _learn(self, state: State | RespoolError | None) -> None:
        if isinstance(state, RespoolError):
            self._fail(state)
        elif state is None:
            self._fail(Gone(self._rid))
        elif state.refusal and not state.opened:
            self._resolve(Refusal(cast("RoundEnd", loads(state.refusal))))
        elif state.opened or state.done:
            self._resolve(Opened())

    def _resolve(self, outcome: Outcome | None) -> None:
        if not self._future.done():
            self._future.set_result(outcome)

    def _fail(self, error: RespoolError) -> None:
        if not self._future.done():
            self._future.set_exception(error)
