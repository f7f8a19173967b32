"""What the workers of this process ask of a create: the leases that it grants them in the same step.

In: the kinds of work that a new response begins with. Out: each worker's answer, as soon as the store has answered the
create, whether or not whoever sent it still waits. Called by `api.create`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from streams.asked import Asked
from streams.scripts.call import Call
from streams.scripts.outputs import Lease
from streams.scripts.responses import Created
from streams.scripts.rounds import Claim
from streams.work import Work
from streams.writer import Sender, into
from translator.protocol.errors import RespoolError


@dataclass(frozen=True, slots=True)
class Wanted:
    """For one response; None where this process does not do that work, or has no room."""

    lease: Asked[Lease] | None
    claim: Asked[Claim] | None

    @classmethod
    def of(cls, work: Work, rid: str, *, opens: bool) -> Self:
        """Ask the workers. `opens`: round 1 is created with the response."""
        return cls(work.ask("translate", rid), work.ask("rounds", rid) if opens else None)

    def send(
        self,
        writer: Sender,
        make: Callable[["Wanted"], Call[Created]],
        entered: "asyncio.Future[None]",
    ) -> "asyncio.Future[Created]":
        """Make the create that asks for these, send it, and have the workers answered. Raises LimitPassed.

        `entered` is the answer of the due set, which comes first: what no sweeper would find must not run, even where it
        was created. Call it once, and in any case: nobody else answers the workers.
        """
        future: asyncio.Future[Created] = asyncio.get_running_loop().create_future()
        settle = into(future)

        def on_reply(reply: Created | RespoolError) -> None:
            settle(reply)
            found = entered.done() and not entered.cancelled() and entered.exception() is None
            self._answer(reply if found and isinstance(reply, Created) else None)

        try:
            writer.submit(make(self), on_reply)
        except Exception:
            self._answer(None)
            raise
        return future

    def _answer(self, created: Created | None) -> None:
        if self.lease is not None:
            self.lease.answer(created.lease if created else None)
        if self.claim is not None:
            self.claim.answer(created.claim if created else None)
