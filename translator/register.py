"""Finds the item that an upstream event is about: by id, else by output index, else the last open one that fits.

Upstreams leave out ids and indexes, change ids between `added` and `done`, and use one index twice (upstream-quirks.md
section 3). The register learns every id that an item ever had; places are never given twice.
"""

from collections.abc import Callable
from typing import Any

from translator.items import CALLS, Ended, Item
from translator.protocol.errors import ProtocolFault


class Register:
    """The items of one round, in order of appearance."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_index: dict[int, Item] = {}  # the item that last came under an upstream index
        self._places: set[int] = set()
        self._next_place = 0  # every place below is taken

    def find(
        self,
        item_id: str | None,
        index: int | None,
        types: frozenset[str] | None = None,
        call_id: str | None = None,
    ) -> Item | None:
        """The item meant. An unknown id beside a known index, or for an open item that has none, is learned.

        Without an index a call id tells as well, which some servers send as the item's (llama.cpp#20607). `types` limits
        the guess by last open item.
        """
        if item_id is not None and (item := self._by_id.get(item_id)) is not None:
            return item
        if index is None and (item := self._open_call(call_id or item_id)) is not None:
            self.learn(item, item_id)
            return item
        if index is not None:
            item = self._by_index.get(index)
            if item is None or (item_id is not None and item.ended is not Ended.OPEN):
                return None
            self.learn(item, item_id)
            return item
        for item in reversed(self.items):
            fits = item.ended is Ended.OPEN and (types is None or item.type in types)
            if fits and (item_id is None or not item.ids):
                self.learn(item, item_id)
                return item
        return None

    def _open_call(self, call_id: str | None) -> Item | None:
        """The open call of this call id; the last, where upstreams use one twice."""
        if call_id is None:
            return None
        fitting = (
            i for i in reversed(self.items) if i.ended is Ended.OPEN and i.call_id == call_id
        )
        return next(fitting, None)

    def find_done(
        self,
        item_id: str | None,
        index: int | None,
        item_type: str,
        call_id: str | None,
        fits: Callable[[Item], bool],
    ) -> Item | None:
        """The item that an `output_item.done` closes. Its id may be new: then index, call id or type decide.

        Where type alone would, `fits` says whether an item may end like that.
        """
        if item_id is not None and (item := self._by_id.get(item_id)) is not None:
            return item
        if index is not None:
            item = self._by_index.get(index)
            if item is not None and item.ended is Ended.OPEN:
                self.learn(item, item_id)
                return item
            return item if item_id is None else None
        found = self._by_likeness(item_id, item_type, call_id, fits)
        if found is not None:
            self.learn(found, item_id)
        return found

    def _by_likeness(
        self,
        item_id: str | None,
        item_type: str,
        call_id: str | None,
        fits: Callable[[Item], bool],
    ) -> Item | None:
        """The open item of a type that a done without index must mean, if there is only one that it can."""
        fitting = [i for i in self.items if i.ended is Ended.OPEN and i.type == item_type]
        same_call = [item for item in fitting if call_id is not None and item.call_id == call_id]
        if same_call:
            return same_call[0]
        alike = [item for item in fitting if fits(item)]
        if item_id is None:
            # Nothing says that a text is another one; of a call its name and arguments do.
            left = alike or ([] if item_type in CALLS else fitting)
            return left[-1] if left else None
        alike = [item for item in alike if not item.ids] or alike
        return alike[0] if len(alike) == 1 else None

    def knows(self, item_id: str | None) -> bool:
        """Whether some item ever had this id."""
        return item_id in self._by_id

    def holds_text(self, index: int | None, item_id: str | None) -> bool:
        """Whether an index is that of an open message or reasoning item, and an id one that nothing has yet.

        Ollama counts the calls of a response from 0, whatever text stands before them and is still open.
        """
        item = self._by_index.get(-1 if index is None else index)
        if item is None or item.ended is not Ended.OPEN or item.is_call or not item.ids:
            return False
        return item_id is not None and item_id not in self._by_id

    def add(
        self, item_type: str, item_id: str | None, index: int | None, *, beside: bool = False
    ) -> Item:
        """A new item. Raises ProtocolFault for a second live item on one index or id.

        One `beside` the count (`holds_text`) is found by its id alone: its place is some other item's index.
        """
        for live in (
            self._by_id.get(item_id or ""),
            self._by_index.get(-1 if index is None else index),
        ):
            if live is not None and live.ended is Ended.OPEN:
                raise ProtocolFault("The upstream opened two items under one id or output index.")
        item = Item(slot=len(self.items), place=self._place(index), type=item_type)
        self.items.append(item)
        if index is not None:
            self._by_index[index] = item
        elif not beside:
            self._by_index.setdefault(item.place, item)
        self.learn(item, item_id)
        return item

    def learn(self, item: Item, item_id: str | None) -> None:
        """Remember one more id of an item."""
        if item_id is not None:
            item.ids.add(item_id)
            self._by_id[item_id] = item

    def _place(self, index: int | None) -> int:
        """The upstream's index where it is free, else the lowest free one."""
        place = index
        if place is None or place in self._places:
            while self._next_place in self._places:
                self._next_place += 1
            place = self._next_place
        self._places.add(place)
        return place


def index_of(event: dict[str, Any]) -> int | None:
    """The event's output index, None where it is not said. Raises ProtocolFault for what is no index."""
    index = event.get("output_index")
    if index is None:
        return None
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise ProtocolFault("The upstream sent an output_index that is no index.")
    return index


def id_of(value: Any) -> str | None:
    """An upstream id; missing, null, empty and what is no string are all "not said"."""
    return value if isinstance(value, str) and value else None
