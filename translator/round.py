"""One inference round on its way to the client: fold, classify, hold or show, close.

In: the events of one upstream stream. Out: public item frames in the `Output`, and at the end the round's items as the
terminal response lists them. Called by the machine, which owns numbering, the response's life and everything that
spans rounds. Step 3 of the data's way: accumulator → boundary → lifecycle.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from translator.accumulator import Accumulator, RoundResult
from translator.boundary import Boundary
from translator.function_sse import (
    CallLifecycle,
    CustomLifecycle,
    FunctionLifecycle,
    NativeCustomLifecycle,
)
from translator.grammar import GrammarPrefix
from translator.ids import call_id, item_id
from translator.items import Ended, Item
from translator.lifecycle import (
    HostedLifecycle,
    Lifecycle,
    MessageLifecycle,
    ReasoningLifecycle,
)
from translator.output import Output
from translator.protocol.errors import ProtocolFault
from translator.toolmap import Tool, ToolKind, ToolMap
from translator.upstream_event import Event

COUNTED_FALLBACK: Final = "custom input without its envelope"


@dataclass(slots=True)
class Shown:
    """What the client has of a response, over all rounds: the next output index, the items, the call ids in use."""

    items: list[Lifecycle] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)

    def output(self) -> list[dict[str, Any]]:
        """The items as they ended, in output order."""
        return [shown.final for shown in self.items if shown.final is not None]


class Round:
    """One round of one attempt. `take` each event; then `close` once."""

    def __init__(
        self,
        response_id: str,
        number: int,
        tools: ToolMap,
        shown: Shown,
        out: Output,
        *,
        note: Callable[[str, str, int], None],
        sealed: bool = False,
        allowed: frozenset[str] | None = None,
    ) -> None:
        """`note(kind, name, size)` takes what is worth counting outside the core.

        With `sealed` reasoning items carry their text in an opaque value of ours, for clients that hand it back. Calls
        of other tools than the `allowed` ones are not shown (None: all are).
        """
        self.number = number
        self.public = (
            False  # set once an item of this round was shown: then it cannot be tried again
        )
        self._response_id = response_id
        self._tools = tools
        self._shown = shown
        self._out = out
        self._note = note
        self._sealed = sealed
        self._allowed = allowed
        self._kept_back: set[int] = set()  # slots of calls that are not allowed
        self._accumulator = Accumulator()
        self._items = self._accumulator.items
        self._boundary = Boundary()
        self._lifecycles: dict[int, Lifecycle] = {}  # by slot, from `added` on
        self._waiting_dones: list[CallLifecycle] = []  # ended calls whose end is not certain yet
        self._seen = 0  # items that have appeared

    @property
    def result(self) -> RoundResult | None:
        """How the upstream ended the round, once it did."""
        return self._accumulator.result

    @property
    def tolerated(self) -> dict[str, int]:
        """Quirks that were put right so far."""
        return self._accumulator.tolerated

    def take(self, event: Event) -> None:
        """Fold one event and show what may be shown. Raises ProtocolFault."""
        item = self._accumulator.fold(event)
        if self._seen < len(self._items):
            self._seen = len(self._items)
            self._settle_dones()
        if item is None:
            return
        if not self._boundary.waiting and (item.slot in self._lifecycles or not self._blocks(item)):
            self._show(item)
            return
        delta = event.get("delta")
        size = len(delta) if isinstance(delta, str) else 0
        if self._boundary.hold(item, blocking=self._blocks(item), size=size):
            self._release()

    def close(self, status: str) -> None:
        """End the round: `status` is completed, or incomplete where anything else ended it.

        Raises ProtocolFault, with nothing closed, if the upstream says completed and a call has no name to this day.
        """
        completed = status == "completed"
        if completed and (blocking := self._boundary.blocking()):
            unnamed = any(item.unnamed for item in blocking)
            lacks = "name" if unnamed else "worker"
            raise ProtocolFault(f"The upstream completed, but one of its calls has no {lacks}.")
        dropped = self._boundary.drop_blocking()
        for item in dropped:
            self._note("call dropped", item.name or "", item.text.size)
        for item in self._items:
            if item.ended is Ended.OPEN:
                self._accumulator.close(item, Ended.DONE if completed else Ended.CUT)
            if item not in dropped:
                self._boundary.hold(item, blocking=False)
        self._release()
        for lifecycle in sorted(self._lifecycles.values(), key=lambda shown: shown.index):
            if lifecycle.final is None:
                lifecycle.close("completed" if completed else "incomplete")
                self._observe(lifecycle)

    def _blocks(self, item: Item) -> bool:
        """Whether a call makes a boundary: nobody knows its owner, or the gateway is."""
        if item.slot in self._lifecycles or not item.is_call:
            return False
        if item.unnamed:
            return True
        tool = self._tools.get(item.name or "")
        return tool is not None and tool.kind is ToolKind.GATEWAY

    def _release(self) -> None:
        coalesce = self._boundary.coalesce
        for item in self._boundary.release():
            self._show(item, coalesce=coalesce)
        self._boundary.settle()

    def _show(self, item: Item, *, coalesce: bool = False) -> None:
        lifecycle = self._lifecycles.get(item.slot)
        if lifecycle is None:
            if self._forbidden(item):
                return
            lifecycle = self._begin(item)
        if lifecycle.final is not None:
            return
        lifecycle.advance(coalesce=coalesce)
        if item.ended is Ended.DONE and isinstance(lifecycle, CallLifecycle) and lifecycle.waits:
            self._waiting_dones.append(lifecycle)

    def _forbidden(self, item: Item) -> bool:
        """Whether a call is of a tool that this request does not allow (contract.md section 6): counted, once."""
        if self._allowed is None or not item.is_call or item.name in self._allowed:
            return False
        if item.slot not in self._kept_back:
            self._kept_back.add(item.slot)
            self._note("call of a tool that is not allowed", item.name or "", item.text.size)
        return True

    def _settle_dones(self) -> None:
        """Another item follows: the calls that the upstream had ended before it are whole."""
        for lifecycle in self._waiting_dones:
            lifecycle.settle()
            self._observe(lifecycle)
        self._waiting_dones.clear()

    def _observe(self, lifecycle: Lifecycle) -> None:
        if isinstance(lifecycle, CustomLifecycle) and lifecycle.fallback and lifecycle.final:
            self._note(COUNTED_FALLBACK, lifecycle.final["name"], lifecycle.item.text.size)

    def _begin(self, item: Item) -> Lifecycle:
        """Announce an item: from here on its public id, type, call id and name stand."""
        index = len(self._shown.items)
        lifecycle = self._call(item, index) if item.is_call else self._plain(item, index)
        self._lifecycles[item.slot] = lifecycle
        self._shown.items.append(lifecycle)
        self.public = True
        lifecycle.announce()
        return lifecycle

    def _plain(self, item: Item, index: int) -> Lifecycle:
        public_id = self._id(item, item.type)
        if item.type == "message":
            return MessageLifecycle(item, index, public_id, self._out)
        if item.type == "reasoning":
            return ReasoningLifecycle(item, index, public_id, self._out, sealed=self._sealed)
        return HostedLifecycle(item, index, public_id, self._out)

    def _call(self, item: Item, index: int) -> CallLifecycle:
        name = item.name or ""
        tool = self._tools.get(name)
        kind = _kind(item, tool)
        return kind(
            item,
            index,
            self._id(item, kind.public_type),
            self._out,
            call_id=self._call_id(item),
            name=tool.name if tool else name,
            namespace=tool.namespace if tool else item.namespace,
            grammar=grammar_of(tool),
        )

    def _id(self, item: Item, item_type: str) -> str:
        return item_id(self._response_id, item_type, self.number, item.slot)

    def _call_id(self, item: Item) -> str:
        """The upstream's call id where it gave one that is not in use; else one of ours (contract.md section 9)."""
        taken = self._shown.call_ids
        found = item.call_id
        if not found or found in taken:
            found = call_id(self._response_id, self.number, item.slot)
        taken.add(found)
        return found


def grammar_of(tool: Tool | None) -> GrammarPrefix | None:
    """What a call's input is held against: the grammar of a custom tool, where it declares one."""
    if tool is None or tool.format is None or tool.format.get("type") != "grammar":
        return None
    return GrammarPrefix(tool.format)


def _kind(item: Item, tool: Tool | None) -> type[CallLifecycle]:
    """What a call is to the client: what the request says of its name, never what the upstream calls it."""
    if item.type == "custom_tool_call":
        return NativeCustomLifecycle
    if tool is not None and tool.kind is ToolKind.CUSTOM:
        return CustomLifecycle
    return FunctionLifecycle
