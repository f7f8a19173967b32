"""What waits, and until when: the order of items behind calls whose place in the stream is not certain yet.

In: items that were touched. Out: what waits, in output order. Walls make the boundary:

| wall     | which call                                                  | what it holds back                              |
|----------|-------------------------------------------------------------|-------------------------------------------------|
| UNKNOWN  | it has no name, or the client will be asked about it         | all that is at or past it                       |
| RUNNING  | the gateway runs it, and it is not over                     | the same, but for the starts of other such calls |

Everything below the first wall flows. A named client call is no wall (upstream-quirks.md section 7).

Waiting costs no second copy: the accumulator holds all pieces. Up to KEPT_BYTES a release shows the pieces as they
came; past it what waited comes as one catch-up delta per part. Waiting never fails a response.
"""

from enum import Enum, auto
from typing import Final

from translator.items import Item

KEPT_BYTES: Final = 256 * 1024
"""Text that may wait piece by piece, one bound for calls without a name and one for what waits behind them (seed 000).
Past it a client gets one large delta instead of thousands at once."""


class Wall(Enum):
    """Why an item holds others back; the table stands in the module's docstring."""

    UNKNOWN = auto()
    RUNNING = auto()


class Boundary:
    """The waiting items of one round. `hold` an item, then show what `in_order` gives and `drop` it."""

    def __init__(self) -> None:
        self.waiting: dict[
            int, Item
        ] = {}  # by slot, walls among them; empty: items are shown at once
        self._walls: dict[int, Wall] = {}  # by slot
        self._sizes = {
            True: 0,
            False: 0,
        }  # text of deltas that waited, of unknown calls and others

    def hold(self, item: Item, wall: Wall | None, *, size: int = 0) -> bool:
        """Let an item wait, as a wall or behind one.

        `size` is what the text of its latest delta adds to what waits. Returns whether anything can be shown now:
        thousands of items may wait, so that is not asked for nothing.
        """
        before = self._walls.get(item.slot)
        self.waiting[item.slot] = item
        if wall is not Wall.RUNNING:
            self._sizes[wall is Wall.UNKNOWN] += size
        if wall is not None:
            self._walls[item.slot] = wall
            return wall is Wall.RUNNING and before is not wall
        if before is not None:
            del self._walls[item.slot]
            return True
        limit = min((self.waiting[slot].place for slot in self._walls), default=None)
        return limit is None or item.place < limit

    def wall(self, item: Item) -> Wall | None:
        """What a waiting item is to the others."""
        return self._walls.get(item.slot)

    def in_order(self) -> list[Item]:
        """All that waits, in output order."""
        return sorted(self.waiting.values(), key=lambda item: (item.place, item.slot))

    def drop(self, item: Item) -> None:
        """An item waits no more: it was shown, or never will be."""
        del self.waiting[item.slot]
        self._walls.pop(item.slot, None)

    def walls(self, kind: Wall) -> list[Item]:
        """The calls of a kind of wall, in order of appearance."""
        return [self.waiting[slot] for slot in sorted(self._walls) if self._walls[slot] is kind]

    @property
    def coalesce(self) -> bool:
        """Whether so much has waited that a release is one delta per part; forgotten once nothing waits."""
        return max(self._sizes.values()) > KEPT_BYTES

    def settle(self) -> None:
        """Call after a release was shown: with nothing left waiting the counts begin anew."""
        if not self.waiting:
            self._sizes = {True: 0, False: 0}
