"""The sweeper: sees to it that every response reaches its end, whatever process died (invariant 7).

In: the due set, in which every response stands that is not finished, or not yet sealed. Out: work
offered again, dead attempts ended as lost, failed results for calls whose tool worker died, cancels for
what is past its deadline or has lost its readers, finished responses for the sealer. Called by
`workers.role`; any number may run, each takes other responses, and all that they do may be repeated.
"""

import asyncio
import logging
import secrets
from typing import Final

from streams import metrics
from streams.logs import State
from streams.scripts.refused import Refused
from streams.scripts.responses import cancel
from streams.scripts.rounds import LOST_DATA, lost
from streams.scripts.tools import NO_WAIT_BOUND, expire_tools
from streams.store import Store
from streams.writer import LONGEST_PAUSE_S
from translator.protocol.entries import Entry, Kind
from translator.protocol.errors import StoreError
from workers.seal import Sealer
from workers.verdict import LOST_GRACE_MS, Action, judge

log = logging.getLogger(__name__)

TURN_S: Final = 0.25
"""Between two looks at the due set where nothing is due sooner: what is entered meanwhile is due later than that."""

SOONEST_TURN_S: Final = 0.02
"""Where something is due sooner the sweeper wakes for it, but no more often than this: what a takeover may cost beyond
the lease. With thousands of responses some are due at any moment, and are then looked at together."""

RETURN_S: Final = 2 * LONGEST_PAUSE_S + 0.25
"""From the last failure of this process to the first success of any other: the store came back within our pause, theirs
has begun by then, and the rest is a handshake and a pipeline."""

MISSING_GRACE_MS: Final = 30_000
"""A response is entered before it is created: one that is not there may still be on its way."""

MISSING_LOOK_MS: Final = 5_000
"""How often such a one is looked at."""


TOLD: Final = {
    Action.DEADLINE: "its time is over",
    Action.ABANDONED: "nobody reads it any more",
    Action.LOST: "the lease on its round has run out",
}
"""What somebody who looks for the end of a response wants to read in the log."""


class Sweeper:
    """One per process of the translate role."""

    def __init__(
        self,
        store: Store,
        *,
        lease_ms: int,
        seal_after_ms: int = 0,
        tool_wait_ms: int = NO_WAIT_BOUND,
    ) -> None:
        """`seal_after_ms`: from a response's end to its sealing; 0: never.

        `tool_wait_ms`: how long a response's calls may wait for any worker before they have failed.
        """
        self._store = store
        self._lease_ms = lease_ms
        self._seal_after_ms = seal_after_ms
        self._tool_wait_ms = tool_wait_ms
        self._sealer = Sealer(store)
        self._missing: dict[str, int] = {}  # when a response was first not there; left by `_gone`

    async def run(self) -> None:
        """Sweep and seal until cancelled; a long sealing never holds up a look."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sealer.run())
            group.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Trouble with the store ends a turn, never the sweeper."""
        while True:
            try:
                pause_s = 0.0 if await self.turn() else self._pause_s()
            except StoreError as error:
                log.warning("The sweeper could not look: %s", error.message)
                pause_s = TURN_S
            if pause_s:
                await asyncio.sleep(pause_s)

    def _pause_s(self) -> float:
        """Until something may be due: a lease that runs out is noticed when it does."""
        next_in_ms = self._store.due.next_in_ms
        soon = TURN_S if next_in_ms is None else next_in_ms / 1000
        return min(max(soon, SOONEST_TURN_S), TURN_S)

    async def turn(self) -> int:
        """Look at what is due; how many there were."""
        rids = await self._store.due.take()
        if rids:
            await self._let_holders_return()
            now = await self._store.logs.now()
            async with asyncio.TaskGroup() as group:
                for rid in rids:
                    group.create_task(self._look(rid, now))
        return len(rids)

    async def _let_holders_return(self) -> None:
        """An outage longer than a lease is nobody's death: whoever lives renews what ran out meanwhile."""
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._store.writer.trouble_at + RETURN_S - now))

    async def _look(self, rid: str, now: int) -> None:
        """Judge one response. What fails is looked at again when the due set gives it out again."""
        metrics.count("sweeps_total")
        try:
            state = await self._store.logs.state(rid)
            if state is None:
                await self._gone(rid, now)
                return
            self._missing.pop(rid, None)
            verdict = judge(state, now, self._lease_ms, seal_after_ms=self._seal_after_ms)
            next_at = verdict.next_at
            for action in verdict.actions:
                metrics.count("sweep_actions_total", action=action)
                if action in TOLD:
                    log.info("%s: %s", rid, TOLD[action], extra={"response": rid})
                sooner = await self._do(action, rid, state)
                next_at = min(next_at, sooner or next_at)
            if next_at:
                due = self._store.due
                await (due.ended if state.done else due.move)(rid, next_at)
        except Refused as refusal:
            log.debug("%s moved on by itself: %s", rid, refusal.reason, extra={"response": rid})
        except StoreError as error:
            about = {"response": rid}
            log.warning("%s could not be looked at: %s", rid, error.message, extra=about)

    async def _do(self, action: Action, rid: str, state: State) -> int:
        """Do one thing; a moment at which to look again where it brought one to light, else 0."""
        store = self._store
        match action:
            case Action.DROP:
                await store.due.drop(rid)
            case Action.SEAL:
                self._sealer.take(rid, state)
            case Action.DEADLINE | Action.ABANDONED:
                found = await store.writer.do(cancel(store.keys, rid, reason=action))
                if found.entry is not None:
                    store.handover.publish_input(rid, [found.entry])
            case Action.LOST:
                end = await store.writer.do(lost(store.keys, rid, token=secrets.token_hex(8)))
                entry = Entry(end.n, Kind.ROUND_END, end.t, LOST_DATA, state.round, state.attempt)
                store.handover.publish_input(rid, [entry])
            case Action.OFFER_ROUND:
                store.work.offer("rounds", rid)
            case Action.TOOLS:
                return await self._look_after_tools(rid)
            case Action.OFFER_TRANSLATE:
                store.work.offer("translate", rid)
        return 0

    async def _look_after_tools(self, rid: str) -> int:
        """Failed results for calls that nobody will end; when the next claim runs out, or 0."""
        store = self._store
        expired = await store.writer.do(expire_tools(store.keys, rid, wait_ms=self._tool_wait_ms))
        if expired.entries:
            store.handover.publish_input(rid, expired.entries)
        if expired.free:
            store.work.offer("tools", rid)
        return expired.next_at and expired.next_at + LOST_GRACE_MS

    async def _gone(self, rid: str, now: int) -> None:
        since = self._missing.setdefault(rid, now)
        if now - since < MISSING_GRACE_MS:
            await self._store.due.move(rid, now + MISSING_LOOK_MS)
            return
        del self._missing[rid]
        await self._store.due.drop(rid)
