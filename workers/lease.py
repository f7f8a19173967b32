"""The translate lease on one response: asked for, kept through silence, given back.

In: the commits of the holder, which keep it too (`heard`). Out: heartbeats where there are none, and
what they hear: how long the input log is, and whether the lease is still ours. Called by
`workers.translate`; one timer, no task.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Final

from streams.asked import Asked
from streams.scripts.outputs import Alive, Lease, acquire, heartbeat, release
from streams.store import Store
from translator.protocol.errors import RespoolError, StoreError

log = logging.getLogger(__name__)

LISTEN_S: Final = 0.5
"""A holder hears from its response at least so often; a lost bell costs no more."""

LEASE_BEATS: Final = 3
"""Heartbeats a lease: one or two may be late without another process taking over."""


class Holding:
    """One lease: `ask` (or `asked`), then `keep` what was granted until `stop`."""

    def __init__(
        self,
        store: Store,
        rid: str,
        lease_ms: int,
        *,
        on_beat: Callable[[], None],
        on_reply: Callable[[Alive | RespoolError], None],
    ) -> None:
        self._store = store
        self._rid = rid
        self._lease_ms = lease_ms
        self._beat_s = min(lease_ms / 1000 / LEASE_BEATS, LISTEN_S)
        self._on_beat = on_beat
        self._on_reply = on_reply
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()  # when the store last answered
        self._beating = False  # a heartbeat is in flight
        self._timer: asyncio.TimerHandle | None = None  # from `keep` to `stop`
        self.fence = ""  # set by `keep`

    def ask(self, on_reply: Callable[[Lease | RespoolError], None]) -> None:
        """Ask for the lease."""
        token = secrets.token_hex(8)
        call = acquire(self._store.keys, self._rid, token=token, lease_ms=self._lease_ms)
        self._store.writer.submit(call, on_reply)

    def asked(self, answer: Callable[[Lease | None], None]) -> Asked[Lease]:
        """Ask for the lease of a response that is about to be created."""
        return Asked(secrets.token_hex(8), self._lease_ms, answer)

    def keep(self, lease: Lease) -> None:
        """Keep a granted lease from now on."""
        self.fence = lease.fence
        self.heard()
        self._tick()

    def heard(self) -> None:
        """The store has acknowledged something that renewed the lease."""
        self._heard_at = self._loop.time()

    def stop(self) -> None:
        """Keep it no longer, and let go of whom it tells (see `workers.follow.Following.stop`)."""
        self._on_beat, self._on_reply = _nothing, _ignore
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def drop(self, lease: Lease) -> None:
        """Give back a lease that came too late to be wanted."""
        call = release(self._store.keys, self._rid, fence=lease.fence)
        self._store.writer.submit(call, _ignore)

    async def give_back(self) -> None:
        """Let a successor go on at once; what was submitted before comes first."""
        try:
            await self._store.writer.do(release(self._store.keys, self._rid, fence=self.fence))
        except StoreError as error:
            about = {"response": self._rid}
            log.info(
                "The lease on %s was left to run out: %s", self._rid, error.message, extra=about
            )

    def _tick(self) -> None:
        now, beat_s = self._loop.time(), self._beat_s
        if now - self._heard_at >= beat_s and not self._beating:
            self._beating = True
            call = heartbeat(self._store.keys, self._rid, fence=self.fence, lease_ms=self._lease_ms)
            self._store.writer.submit(call, self._beaten)
        self._on_beat()
        wait_s = self._heard_at + beat_s - now  # a quarter where an answer is late
        self._timer = self._loop.call_later(max(wait_s, beat_s / 4), self._tick)

    def _beaten(self, reply: Alive | RespoolError) -> None:
        self._beating = False
        if self._timer is None:
            return
        if not isinstance(reply, RespoolError):
            self.heard()
        self._on_reply(reply)


def _nothing() -> None:
    """Nobody counts any more."""


def _ignore(reply: object) -> None:
    """Whatever the answer: a lease that is not given back runs out."""
    del reply
