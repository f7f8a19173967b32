"""The readers of an unstored response: the only reason why it runs.

In: a response that was created with `store: false`. Out: a lease on it, renewed while its client is there; when the client
leaves, and no repeat of its create is there to read on, the run is cancelled at once, so that nobody's GPU works for
nobody. If this process dies the lease lapses, and the sweeper does the same. Used through `api.attendance`.
"""

import logging
import secrets
from typing import Final

import anyio

from streams.scripts import responses
from streams.scripts.refused import Reason, Refused
from streams.store import Store
from translator.protocol.errors import StoreError

log = logging.getLogger(__name__)

LEASE_S: Final = 6.0
"""How long a run goes on after its api process has died; short, for a GPU is waiting."""

RENEW_S: Final = LEASE_S / 3
"""Two renewals may fail before the lease lapses. As many before the end of a grace that is shorter than the lease."""

SHORTEST_S: Final = 0.2
"""However short the grace: each renewal is a write."""


class ReaderLease:
    """One client's hold on one unstored response."""

    def __init__(self, store: Store, rid: str, grace_s: float) -> None:
        self._store = store
        self._rid = rid
        self._reader = secrets.token_hex(8)
        self._renew_s = max(SHORTEST_S, min(RENEW_S, grace_s / 3))
        self._grace_ms = int(max(grace_s, 3 * self._renew_s) * 1000)

    async def hold(self) -> None:
        """Renew for ever: a watcher of `api.attendance`."""
        call = responses.keep(
            *(self._store.keys, self._rid),
            reader=self._reader,
            lease_ms=int(LEASE_S * 1000),
            grace_ms=self._grace_ms,
        )
        while True:
            try:
                await self._store.writer.do(call)
            except Refused:
                # It is gone, which the reader itself will see and say.
                await anyio.sleep_forever()
            except StoreError as error:
                log.warning(
                    "the reader's lease of %s was not renewed: %s",
                    self._rid,
                    error,
                    extra={"response": self._rid},
                )
            await anyio.sleep(self._renew_s)

    async def abandon(self) -> None:
        """The client has left: the run ends now, unless others read it."""
        await cancel(self._store, self._rid, reason="abandoned", reader=self._reader)


async def cancel(
    store: Store, rid: str, *, reason: str, reader: str = ""
) -> responses.Cancelled | None:
    """Write the cancel entry and tell whoever follows the log in this process. None: there is no such response."""
    try:
        found = await store.writer.do(
            responses.cancel(store.keys, rid, reason=reason, reader=reader)
        )
    except Refused as refused:
        if refused.reason is not Reason.MISSING:
            raise
        return None
    if found.entry is not None:
        store.handover.publish_input(rid, [found.entry])
        # Should nobody translate it, somebody must: the end is an event like any other.
        store.work.offer("translate", rid)
    return found
