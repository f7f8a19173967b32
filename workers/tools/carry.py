"""One job of one response, from its claim to its result in the log.

In: a response that has jobs. Out: at most one claim, run within the time-out with a heartbeat
beside it, and its result. Whatever the tool does or the store says, `run` ends by itself. Called by
`workers.tools.role`, one task each.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from streams import metrics
from streams.faults import StoreFull
from streams.scripts import tools
from streams.scripts.refused import Reason, Refused
from streams.store import Store
from streams.tracing import Span, Trace, tracing
from translator.protocol.entries import Kind
from translator.protocol.errors import StoreError
from workers.tools.job import Failed, Job, Listing, Outcome, list_data, result_data
from workers.tools.registry import Registry
from workers.tools.session import TIMEOUT_CODE

log = logging.getLogger(__name__)

LEASE_BEATS: Final = 3
"""Heartbeats a lease: one or two may be late without the job being given to somebody else."""

LISTEN_S: Final = 0.5
"""A call hears at least so often whether it is still wanted."""

STOPPED_TEXT: Final = "The worker that ran this call was stopped."
BROKEN_TEXT: Final = "The tool could not be run."
TOOK: Final = metrics.histogram("tool_call_seconds")

FULL_TEXT: Final = "The result is larger than what the response may still hold."


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """What bounds a call. `concurrency` counts the calls of one response, in all processes together."""

    lease_ms: int
    timeout_s: float
    concurrency: int
    max_in_bytes: int


class Carried:
    """One claim. `retired` says what may still happen when the process is about to end."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        limits: ToolLimits,
        rid: str,
        on_more: Callable[[str], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._limits = limits
        self.rid = rid
        self._on_more = on_more
        self._stopped = asyncio.Event()  # set by `stop`
        self.held = False  # from the claim to the end: the call is ours

    def stop(self) -> None:
        """End now: what may run again is given back, the rest gets a failed result."""
        self._stopped.set()

    async def run(self) -> None:
        """Claim and carry out; never raises but for cancellation."""
        try:
            claimed = await self._claim()
            if claimed is not None:
                await self._carry(claimed)
        except Refused as refusal:
            about = {"response": self.rid}
            log.debug("%s moved on without its call: %s", self.rid, refusal.reason, extra=about)
        except StoreError as error:
            # Its claim runs out: the call is given to somebody else, or failed by the sweeper.
            about = {"response": self.rid}
            log.warning("A call of %s has no result: %s", self.rid, error.message, extra=about)

    async def _claim(self) -> tools.Job | None:
        call = tools.claim_tool(
            self._store.keys,
            self.rid,
            token=secrets.token_hex(8),
            lease_ms=self._limits.lease_ms,
            limit=self._limits.concurrency,
        )
        try:
            return await self._store.writer.do(call)
        except Refused as refusal:
            metrics.count("tool_claims_refused_total", reason=refusal.reason)
            return None

    async def _carry(self, claimed: tools.Job) -> None:
        began = time.monotonic()
        self.held = True
        if claimed.free:
            self._on_more(self.rid)
        job = Job.of(claimed.data)
        done = await self._supervised(job, claimed)
        if done is None:
            return
        took = time.monotonic() - began
        ok = done.ok if isinstance(done, Outcome) else done.error is None
        metrics.count("tool_calls_total", tool=_label(job), ok=str(ok).lower())
        TOOK.observe(took)
        log.info(
            "%s %s of %s: %s after %.0f ms",
            *(job.tool, job.key, self.rid, "ok" if ok else "failed", took * 1000),
            extra={"response": self.rid, "tool": _label(job), "ms": round(took * 1000)},
        )
        if tracing.on and (trace := Trace.of(job.trace)) is not None:
            about: dict[str, str | int] = {
                "respool.response": self.rid,
                "respool.tool": _label(job),
            }
            ended = claimed.t + took * 1000
            tracing.emit(Span("tool", "client", trace.child(), claimed.t, ended, not ok, about))
        await self._write(job, done, claimed.t, claimed.t + round(took * 1000))

    async def _supervised(self, job: Job, claimed: tools.Job) -> Outcome | Listing | None:
        """What the job came to, or None where nobody wants it from us any more."""
        work = asyncio.create_task(self._worked(job))
        beat = asyncio.create_task(self._beaten(claimed.fence))
        stop = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({work, beat, stop}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if beat.done():
                metrics.count("tool_calls_dropped_total", reason=beat.result())
                return None
            return await self._cut_off(job, claimed)
        finally:
            for task in (work, beat, stop):
                task.cancel()
            await asyncio.gather(work, beat, stop, return_exceptions=True)

    async def _cut_off(self, job: Job, claimed: tools.Job) -> Outcome | Listing | None:
        if not job.again:
            return _failure(job, Failed.http(503, STOPPED_TEXT))
        release = tools.release_tool(self._store.keys, self.rid, fence=claimed.fence)
        await self._store.writer.do(release)
        self._on_more(self.rid)
        return None

    async def _worked(self, job: Job) -> Outcome | Listing:
        """Run the tool within its time. A failure is a result."""
        limit_s = self._limits.timeout_s
        try:
            await self._registry.ready(job)
            async with asyncio.timeout(limit_s):
                known = await self._store.reads.do(tools.read_secrets(self._store.keys, self.rid))
                return await self._registry.run(job, known)
        except Failed as failure:
            return _failure(job, failure)
        except TimeoutError:
            text = f"The call took longer than {limit_s:g} s."
            return _failure(job, Failed.http(TIMEOUT_CODE, text))
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a tool's bug is its call's failure; its text may hold anything
            line = (job.tool, job.key, self.rid, type(error).__name__)
            log.error("%s %s of %s broke: %s", *line, extra={"response": self.rid})  # noqa: TRY400
            return _failure(job, Failed.protocol(-32603, BROKEN_TEXT))

    async def _beaten(self, fence: str) -> str:
        """Keep the claim; returns, with the reason, when the call is not wanted any more."""
        lease_ms = self._limits.lease_ms
        pause_s = min(lease_ms / 1000 / LEASE_BEATS, LISTEN_S)
        call = tools.heartbeat_tool(self._store.keys, self.rid, fence=fence, lease_ms=lease_ms)
        while True:
            await asyncio.sleep(pause_s)
            try:
                wanted = await self._store.writer.do(call)
            except Refused as refusal:
                return refusal.reason
            except StoreError as error:
                # The call may well end before the store is back; its result then goes the same way.
                about = {"response": self.rid}
                log.info("A heartbeat of %s was lost: %s", self.rid, error.message, extra=about)
                continue
            if wanted.cancelled or wanted.done:
                return "cancelled" if wanted.cancelled else "done"

    async def _write(self, job: Job, done: Outcome | Listing, started: int, ended: int) -> None:
        try:
            data = _data(job, done, started, ended)
        except (TypeError, ValueError):  # nested too deeply, or halves of surrogate pairs
            failure = _failure(
                job, Failed.protocol(-32603, "The result cannot be written as JSON.")
            )
            data = _data(job, failure, started, ended)
        try:
            end = await self._append(job, data)
        except (Refused, StoreFull) as refusal:
            if isinstance(refusal, Refused) and refusal.reason is not Reason.TOO_LARGE:
                raise
            failure = _failure(job, Failed.protocol(-32603, FULL_TEXT))
            end = await self._append(job, _data(job, failure, started, ended))
        if end.entry is not None:
            self._store.handover.publish_input(self.rid, [end.entry])
        if end.left:
            self._on_more(self.rid)

    async def _append(self, job: Job, data: bytes) -> tools.ToolEnd:
        call = tools.tool_result(
            self._store.keys,
            self.rid,
            key=job.key,
            data=data,
            kind=Kind.TOOLS_LISTED if job.kind == "list" else Kind.TOOL_RESULT,
            max_in_bytes=self._limits.max_in_bytes,
        )
        return await self._store.writer.do(call)


def _label(job: Job) -> str:
    return job.tool if job.tool in ("web_search", "mcp") else "other"


def _failure(job: Job, failure: Failed) -> Outcome | Listing:
    if job.kind == "list":
        return Listing([], failure.message)
    outcome = Outcome.of(failure)
    if job.tool == "mcp" and outcome.error is None:
        failure = Failed.protocol(-32603, failure.message)
        return Outcome.of(failure)
    if job.tool != "mcp" and outcome.error is not None:
        return Outcome.of(Failed(failure.message))
    return outcome


def _data(job: Job, done: Outcome | Listing, started: int, ended: int) -> bytes:
    if isinstance(done, Listing):
        return list_data(job.key, done)
    return result_data(job.key, done, started=started, ended=ended)
