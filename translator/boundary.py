"""What waits, and until when: the order of items behind a call whose owner is not known yet.

In: items that were touched. Out: items that may be shown now, in output order. The boundary is the lowest place of a
call without a name, or of one that the gateway owns; nothing at or past it reaches the client, everything below it
flows. A named client call is no boundary (upstream-quirks.md section 7).

Waiting costs no second copy: the accumulator holds all pieces. Up to KEPT_BYTES a release shows the pieces as they
came; past it what waited comes as one catch-up delta per part. Waiting never fails a response.
"""

from typing import Final

from translator.items import Item

KEPT_BYTES: Final = 256 * 1024
"""Text that may wait piece by piece, one bound for calls without a name and one for what waits behind them (seed 000).
Past it a client gets one large delta instead of thousands at once."""


class Boundary:
    """The waiting items of one round. `hold` an item, then show what `release` gives."""

    def __init__(self) -> None:
        self.waiting: dict[int, Item] = {}  # by slot; where it is empty, items are shown at once
        self._blocking: set[int] = set()  # slots of the calls that make the boundary
        self._sizes = {
            True: 0,
            False: 0,
        }  # text of deltas that waited, of blocking items and others

    def hold(self, item: Item, *, blocking: bool, size: int = 0) -> bool:
        """Let an item wait; `blocking` if it is itself a call that nobody can place yet, or the gateway's.

        `size` is what the text of its latest delta adds to what waits. Returns whether anything can be released now:
        thousands of items may wait, so that is not asked for nothing.
        """
        self.waiting[item.slot] = item
        self._sizes[blocking] += size
        if blocking:
            self._blocking.add(item.slot)
            return False
        if item.slot in self._blocking:
            self._blocking.discard(item.slot)
            return True
        limit = self._limit()
        return limit is None or item.place < limit

    def _limit(self) -> int | None:
        return min((self.waiting[slot].place for slot in self._blocking), default=None)

    def release(self) -> list[Item]:
        """Take out what lies below the boundary, in output order."""
        limit = self._limit()
        below = [
            item
            for item in self.waiting.values()
            if item.slot not in self._blocking and (limit is None or item.place < limit)
        ]
        below.sort(key=lambda item: (item.place, item.slot))
        for item in below:
            del self.waiting[item.slot]
        return below

    def blocking(self) -> list[Item]:
        """The calls that make the boundary, in order of appearance."""
        return [self.waiting[slot] for slot in sorted(self._blocking)]

    def drop_blocking(self) -> list[Item]:
        """Give the blocking items up: they will never be shown. What waited behind them can be released."""
        dropped = self.blocking()
        for item in dropped:
            del self.waiting[item.slot]
        self._blocking.clear()
        return dropped

    @property
    def coalesce(self) -> bool:
        """Whether so much has waited that a release is one delta per part; forgotten once nothing waits."""
        return max(self._sizes.values()) > KEPT_BYTES

    def settle(self) -> None:
        """Call after a release was shown: with nothing left waiting the counts begin anew."""
        if not self.waiting:
            self._sizes = {True: 0, False: 0}
