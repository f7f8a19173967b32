"""One round, from its claim to its end in the log (step 2 of the data's way).

In: the id of a response whose round is open. Out: `opened`, the upstream's blocks as `frame`
entries, and one `round_end` on every way out but two: the log says that this attempt is no longer
wanted, or this process dies (then the sweeper writes it). Called by `ingest.role`, as one task a
round; a chunk of the upstream is cut and appended without waiting for anything.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ingest.attempt import TAKES_NO_MORE, Attempt, Stop
from ingest.job import Job, job_of
from ingest.redaction import Redaction, may_tell
from ingest.refusal import RoundError, failed, misspoken, timed_out
from ingest.upstream import UpstreamClient
from streams import metrics
from streams.asked import Asked
from streams.faults import StoreFull
from streams.scripts.refused import Refused
from streams.scripts.rounds import Claim, Held, claim_round
from streams.store import Store
from streams.tracing import Span, Trace, tracing
from streams.writer import into
from translator.protocol.entries import FRAME, Kind, RoundEnd
from translator.protocol.errors import LimitPassed, StoreError
from translator.protocol.sse import MAX_BLOCK_BYTES, Blocks, is_end, may_end
from translator.protocol.upstream import Upstream

log = logging.getLogger(__name__)

HEARTBEAT_S: Final = 0.5
"""How long an attempt hears nothing from its log: a cancel closes the upstream within a second."""

LEASE_BEATS: Final = 3
"""Heartbeats a lease: one or two may be late without another process taking over."""

IGNORED_BYTES: Final = MAX_BLOCK_BYTES + 4 * 1024 * 1024
"""What of a body may come beyond twice what enters the log: a block that is not complete yet, and
the keep-alives of an hour many times over. More is an upstream that only costs time."""

TOO_MANY: Final = "The upstream sent more events than one response may hold."

OPENED: Final = b'{"status":200}'

ENDED: Final[RoundEnd] = {"how": "ok"}
MAX_ENTRIES: Final = 500_000
"""What an input log may hold where nobody says otherwise: some times the frames of the longest answers, and the half
minute that its successor needs to fold it again."""
FIRST: Final = metrics.histogram("upstream_first_frame_seconds")

Resolve = Callable[[str], Upstream | None]
"""Who an upstream is now, by the id that the request entry names."""


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """What bounds a round."""

    lease_ms: int
    idle_timeout_s: float
    """Silence of the upstream, before its first byte as well as between two."""
    total_timeout_s: float
    """From the request to the end."""
    max_in_bytes: int
    """What the input log of one response may hold."""
    max_entries: int = MAX_ENTRIES
    """The same as a number of entries: tiny frames cost more than their bytes."""

    @property
    def beat_s(self) -> float:
        """How often the log is heard at least."""
        return min(self.lease_ms / 1000 / LEASE_BEATS, HEARTBEAT_S)


class Round:
    """One attempt at the open round of a response: `run` once, `lose` from outside."""

    def __init__(
        self, store: Store, client: UpstreamClient, resolve: Resolve, limits: RoundLimits, rid: str
    ) -> None:
        self._store = store
        self._client = client
        self._resolve = resolve
        self._limits = limits
        self.rid = rid
        self._beat_s = limits.beat_s
        self._loop = asyncio.get_running_loop()
        self._streaming: asyncio.Timeout | None = None  # while the upstream is open
        self.held = False  # from the claim to the end: the lease on the round is ours
        self._end: RoundEnd | None = None  # set by whoever ends the round before its upstream does
        self._heard_at = self._started_at = self._loop.time()  # the upstream's last byte
        self._heard = False  # anything of it
        self._bytes = self._frames = 0  # what came and is not yet counted: once a look, not a frame
        self._redaction = Redaction()  # of the upstream, once it is known
        self._entries = 0  # of the whole log, from the claim on
        self._ignored = 0  # bytes that came less twice those of the blocks that were appended
        self._timer: asyncio.TimerHandle | None = None
        self._about: dict[str, str | int] = {}  # which round this is; set with the claim
        self._claimed_at = self._began = 0.0  # when, by our clock and (in ms) by the store's
        self._trace: Trace | None = None  # this round's place in a trace; set with the claim
        self._asked: asyncio.Future[Claim | None] | None = None  # set where the create claims it

    def asked(self) -> Asked[Claim]:
        """Have the round claimed with the create of its response; then `run` waits for that."""
        future: asyncio.Future[Claim | None] = self._loop.create_future()
        self._asked = future
        return Asked(secrets.token_hex(8), self._limits.lease_ms, into(future))

    async def run(self) -> None:
        """Claim the round and see it through. Raises nothing but cancellation."""
        try:
            claim = await self._claimed()
        except Refused as refusal:
            metrics.count("claims_refused_total", reason=refusal.reason)
        except StoreError as error:
            about = {"response": self.rid}
            log.warning("A round of %s was not claimed: %s", self.rid, error.message, extra=about)
        else:
            if claim is None:
                return
            self._store.handover.publish_input(self.rid, [claim.entry])
            metrics.count("rounds_started_total")
            self._entries = claim.entry.n
            self._claimed_at, self._began = self._loop.time(), claim.entry.t
            self._about = {"response": self.rid, "round": claim.round, "attempt": claim.attempt}
            job, attempt = job_of(claim), self._attempt(claim.held)
            del claim  # with what it brought: a stream may last for hours
            await self._carry(job, attempt)

    def lose(self) -> None:
        """Close the upstream and leave the round to another process (the end of a drain)."""
        self._finish({"how": "lost"})

    async def _claimed(self) -> Claim | None:
        """The claim, for which the create was asked or the log is now; None where the create gave none."""
        asked, self._asked = self._asked, None
        if asked is not None:
            return await asked
        token, lease_ms = secrets.token_hex(8), self._limits.lease_ms
        call = claim_round(self._store.keys, self.rid, token=token, lease_ms=lease_ms)
        return await self._store.writer.do(call)

    def _attempt(self, held: Held) -> Attempt:
        return Attempt(
            self._store,
            self.rid,
            held,
            lease_ms=self._limits.lease_ms,
            max_in_bytes=self._limits.max_in_bytes,
            on_stop=self._stopped,
        )

    async def _carry(self, job: Job, attempt: Attempt) -> None:
        """Stream, then say in the log how the round ended."""
        self.held = True
        if (
            job.trace is not None
        ):  # where nobody takes spans, the upstream's are below the response's
            self._trace = job.trace.child() if tracing.on else job.trace
        self._watch(attempt)
        try:
            end = await self._streamed(job, attempt)
            metrics.count("rounds_ended_total", how=end["how"])
            self._tell(end["how"])
            if end["how"] == "lost":
                await attempt.lose()
                return
            attempt.end(end)
            await attempt.settled()
            if attempt.stopped in TAKES_NO_MORE:  # the refused batch took the end with it
                attempt.end(_ENDS[attempt.stopped]())
                await attempt.settled()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self.held = False
            self._count()

    def _tell(self, how: str) -> None:
        ms = round((self._loop.time() - self._started_at) * 1000)
        about = {**self._about, "how": how, "ms": ms}
        log.info("A round of %s ended, %s, after %d ms", self.rid, how, ms, extra=about)
        if self._trace is not None and tracing.on:
            ended = self._began + (self._loop.time() - self._claimed_at) * 1000
            said = {f"respool.{name}": value for name, value in {**self._about, "how": how}.items()}
            failed = how not in ("ok", "eof")
            tracing.emit(Span("round", "client", self._trace, self._began, ended, failed, said))

    async def _streamed(self, job: Job, attempt: Attempt) -> RoundEnd:
        try:
            async with asyncio.timeout(None) as self._streaming:
                return await self._stream(job, attempt)
        except TimeoutError:
            return self._end or failed("reset", "The round was ended.")
        except RoundError as error:
            return error.end
        except LimitPassed as error:
            return misspoken("too_large", error.message)
        except Exception:
            log.exception("A round failed by a fault of the gateway", extra=self._about)
            return failed("reset", "The gateway could not go on with the upstream's answer.")
        finally:
            self._streaming = None

    async def _stream(self, job: Job, attempt: Attempt) -> RoundEnd:
        if self._end is not None:  # a drain was faster than the claim
            return self._end
        upstream = self._resolve(job.upstream_id)
        if upstream is None:
            return failed("refused", "The upstream of this response is no longer there.")
        self._redaction = Redaction.of(upstream)
        self._started_at = self._heard_at = self._loop.time()
        trace = self._trace.headers if self._trace else None
        async with self._client.open(upstream, job.api, job.take_body(), trace) as answer:
            self._store.handover.publish_opened(self.rid)
            attempt.add_soon([(Kind.OPENED, OPENED)])
            blocks = Blocks()
            take = partial(self._take, attempt, blocks)
            while not await answer.deliver(take):
                if self._end is ENDED:
                    await answer.linger()
                    return ENDED
                await attempt.room()
            rest = blocks.flush()
            ended = self._append(attempt, rest) or (bool(rest) and rest[0].lstrip()[:1] == b"{")
            return ENDED if ended else {"how": "eof"}

    def _take(self, attempt: Attempt, blocks: Blocks, piece: bytes) -> bool:
        """A piece of the body, in the callback of its socket; whether more is wanted now. Raises LimitPassed."""
        self._heard_at = self._loop.time()
        if not self._heard:
            self._heard = True
            FIRST.observe(self._heard_at - self._started_at)
        size = len(piece)
        self._bytes += size
        self._ignored += size
        if self._append(attempt, blocks.feed(piece)):
            return False
        if self._ignored > IGNORED_BYTES:
            raise LimitPassed("The upstream sent too much that is no event.")
        return not attempt.full

    def _append(self, attempt: Attempt, blocks: list[bytes]) -> bool:
        """Append blocks up to the one that ends the stream; whether there was one, and with it the round's end.

        Raises LimitPassed.
        """
        # One look at all of them: what stands in none stands in no block.
        whole = b"\n\n".join(blocks)
        special = may_tell(whole) or may_end(whole)
        entries = self._looked_at(blocks) if special else [(FRAME, one) for one in blocks]
        self._ignored -= 2 * sum(map(len, blocks))
        self._frames += len(entries)
        self._entries += len(entries)
        if self._entries > self._limits.max_entries:
            raise LimitPassed(TOO_MANY)
        if self._end is ENDED:
            attempt.end(ENDED, entries)
        elif entries:
            attempt.add(entries)
        return self._end is ENDED

    def _looked_at(self, blocks: list[bytes]) -> list[tuple[str, bytes]]:
        """The entries of blocks one of which may tell of an error, or be the last."""
        entries: list[tuple[str, bytes]] = []
        for block in blocks:
            entries.append((FRAME, self._redaction.block(block)))
            if is_end(block):
                self._end = ENDED  # whatever comes now, this is how it ended
                break
        return entries

    # ---- what ends a round from outside, all of it in callbacks -----------------------------------

    def _stopped(self, reason: Stop) -> None:
        self._finish(_ENDS[reason]() if reason in TAKES_NO_MORE else {"how": "reset"})

    def _finish(self, end: RoundEnd) -> None:
        if self._end is None:
            self._end = end
        if self._streaming is not None and not self._streaming.expired():
            self._streaming.reschedule(self._loop.time())

    def _watch(self, attempt: Attempt) -> None:
        """The one timer of a round: its lease, and the patience with its upstream."""
        now, limits, beat_s = self._loop.time(), self._limits, self._beat_s
        attempt.beat(now, beat_s)
        if attempt.full:
            self._heard_at = now  # it is we who are not listening
        if now - self._heard_at > limits.idle_timeout_s:
            self._finish(timed_out("The upstream was silent for too long."))
        elif now - self._started_at > limits.total_timeout_s:
            self._finish(timed_out("The upstream took too long."))
        self._count()
        wait_s = attempt.heard_at + beat_s - now  # a quarter where an answer is late
        self._timer = self._loop.call_later(max(wait_s, beat_s / 4), self._watch, attempt)

    def _count(self) -> None:
        metrics.count("upstream_bytes_total", self._bytes)
        metrics.count("upstream_frames_total", self._frames)
        self._bytes = self._frames = 0


def full() -> RoundEnd:
    """The end of a round whose response has reached its bound."""
    return failed("too_large", "The response is larger than this gateway stores.")


def store_full() -> RoundEnd:
    """The end of a round for whose frames the store has no memory left."""
    return failed("reset", "The store of this gateway is full.", status=503, code=StoreFull.code)


_ENDS: Final = {Stop.TOO_LARGE: full, Stop.FULL: store_full}
