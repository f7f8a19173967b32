"""The input log of one response, followed: from its first entry to its end, then live.

In: entries handed over by the ingest of this process; else pages, read when the bell rings or a
heartbeat says that there is more. Out: entries in order and without a hole, given to a `Folder` in
slices of a few ms. Called by `workers.translate`; everything here is a callback.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, Protocol

from streams import metrics
from streams.scripts.outputs import FIRST_ENTRIES
from streams.store import Store
from translator.protocol.entries import Entry
from translator.protocol.errors import RespoolError
from workers.slices import SLICE_S, Slices

PAGE: Final = 200
"""Entries read at once."""

LIVE_ENTRIES: Final = 32
"""A page up to this is folded at once: it is the log's tail, and waiting a turn would only cost."""

PENDING_BYTES: Final = 4 * 1024 * 1024
"""Frames of one response that are folded and not committed; past it the log is not followed until
commits have caught up, and then it is read: it holds everything anyway."""


class Folder(Protocol):
    """What a follower feeds."""

    @property
    def fed(self) -> int:
        """Number of the last entry that was taken."""
        ...

    @property
    def pending_bytes(self) -> int:
        """What was folded and is not yet committed."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no further entry can change anything."""
        ...

    def take(self, entries: Sequence[Entry], start: int, until: float | None) -> int:
        """Fold entries until the clock says stop; the index of the first left over."""
        ...

    def caught_up(self) -> None:
        """The log was read to its end for the first time."""
        ...

    def flush(self) -> None:
        """Commit what was folded."""
        ...

    def away(self, error: RespoolError) -> None:
        """The log cannot be read."""
        ...


class Following:
    """Follows one log from `begin` to `stop`."""

    def __init__(self, store: Store, rid: str, slices: Slices, folder: Folder) -> None:
        self._store = store
        self._rid = rid
        self._slices = slices
        self._folder = folder
        self._stopped = False  # set by `stop`
        self._begun = False  # set by `begin`
        self._refolded = False  # set once the log was read to its end
        self._page: Sequence[Entry] = ()  # what was read and is being folded, from `_at` on
        self._at = 0
        self._full = False  # the page is as long as it could be: there may be more
        self._reading = False  # a page is asked for, or not yet folded
        self._anew = False  # what is being read is of no use any more
        self._again = False  # something came that was not taken: read on as soon as that is over
        self._unlisten: Callable[[], None] | None = None  # the bell, while ingest is elsewhere

    def watch(self) -> None:
        """Note from now on that there is news; nothing is read before `begin`."""
        self._store.handover.subscribe_input(self._rid, self)

    def begin(self, first: Sequence[Entry]) -> None:
        """Follow from the first entry; `first` are the log's first ones, where they are known."""
        self._begun = True
        self.ingesting_changed()
        if first:
            self._reading = True
            self._full = len(first) >= FIRST_ENTRIES
            self._read(first)
        else:
            self.read()

    @property
    def live(self) -> bool:
        """Whether all that is known of the log was folded, and nothing is being read."""
        return self._refolded and not (self._reading or self._again or self._stopped)

    def begin_anew(self) -> None:
        """The folder has begun anew: read from the first entry, whatever is being read."""
        self._refolded = False
        self._anew = self._reading
        self.ingesting_changed()
        self.read()

    def stop(self) -> None:
        """Follow no longer. Called once."""
        self._stopped = True
        self._store.handover.unsubscribe_input(self._rid, self)
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        # The two hold each other no longer: what a response leaves behind is freed now, and not by
        # the cyclic collector, which would stop every stream for it.
        del self._folder

    def read(self) -> None:
        """Read the log from where the fold stands to its end."""
        if self._stopped:
            return
        if self._reading or self._folder.pending_bytes > PENDING_BYTES:
            self._again = True
            return
        self._reading, self._again = True, False
        self._store.logs.request_input(self._rid, self._folder.fed, PAGE, self._pulled)

    def resume(self) -> None:
        """A commit has made room: read what was left."""
        if self._again and not self._reading:
            self.read()

    # ---- what the hand-over calls ---------------------------------------------------------------

    def entries_appended(self, entries: Sequence[Entry]) -> None:
        """Entries that this process appended to the log."""
        if self._stopped:
            return
        folder = self._folder
        if not self._begun:
            self._again = True
        elif not self._refolded:
            self.read()
        elif entries[0].n > folder.fed + 1 or folder.pending_bytes > PENDING_BYTES:
            metrics.count("handovers_missed_total")
            self.read()
        else:
            folder.take(entries, 0, None)
            folder.flush()

    def upstream_opened(self) -> None:
        """Nothing to fold (`streams.handover.InputFollower`)."""

    def ingesting_changed(self) -> None:
        """Listen to the bell while the round is run elsewhere; a subscription rings as it stands."""
        if not self._begun or self._stopped:
            return
        if not self._store.handover.ingesting(self._rid):
            if self._unlisten is None and not self._folder.ended:
                channel = self._store.keys.bell_in(self._rid)
                self._unlisten = self._store.doorbell.subscribe(channel, self.read)
        elif self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    # ---- pages ----------------------------------------------------------------------------------

    def _pulled(self, reply: list[Entry] | RespoolError) -> None:
        if self._stopped:
            return
        if self._anew:
            self._leave_page()
            return
        if isinstance(reply, RespoolError):
            self._folder.away(reply)
            return
        self._full = len(reply) == PAGE
        self._read(reply)

    def _leave_page(self) -> None:
        self._page, self._reading, self._anew = (), False, False
        self.read()

    def _read(self, page: Sequence[Entry]) -> None:
        self._page, self._at = page, 0
        if len(page) <= LIVE_ENTRIES:
            self._slice()
        else:
            self._slices.add(self._slice)

    def _slice(self) -> None:
        """Fold for a few ms; what is left of the page waits for the next slice."""
        if self._stopped:
            return
        if self._anew:
            self._leave_page()
            return
        page = self._page
        self._at = self._folder.take(page, self._at, perf_counter() + SLICE_S)
        if self._at < len(page):
            self._slices.add(self._slice)
        else:
            self._page, self._reading = (), False
            if self._full:
                self._again = True
            elif not self._refolded:
                self._refolded = True
                self._folder.caught_up()
            if self._again:
                self.read()
        self._folder.flush()
