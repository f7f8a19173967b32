"""The items of one round as the client sees them: which kind each one is to it, under which id, and from where on.

In: an item of the accumulator, and the tool that its name means. Out: its lifecycle, at the next output index. What the
client has of a response over all rounds is `Shown`. Called by `translator.round`, which decides when an item is shown.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from translator import ids
from translator.citations import Citations
from translator.function_sse import (
    CallLifecycle,
    CustomLifecycle,
    FunctionLifecycle,
    NativeCustomLifecycle,
)
from translator.gateway_items import (
    ApprovalLifecycle,
    GatewayLifecycle,
    McpCallLifecycle,
    WebSearchLifecycle,
)
from translator.grammar import GrammarPrefix
from translator.hosted_items import HostedLifecycle
from translator.items import Item
from translator.lifecycle import (
    Lifecycle,
    MessageLifecycle,
    ReasoningLifecycle,
)
from translator.output import Output
from translator.toolmap import Tool, ToolKind
from translator.upstream_item import call_id_of


@dataclass(slots=True)
class Shown:
    """What the client has of a response, over all rounds: the items in output order, the call ids in use.

    `calls` counts what the gateway was asked to run, up to `max_calls`; `citations` are what its searches have found.
    """

    items: list[Lifecycle] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    max_calls: int = 0
    calls: int = 0
    citations: Citations = field(default_factory=Citations)

    def output(self) -> list[dict[str, Any]]:
        """The items as they ended, in output order."""
        return [shown.final for shown in self.items if shown.final is not None]


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """What the request says about its rounds.

    With `sealed` reasoning items carry their text in an opaque value of ours, for clients that hand it back. Calls of
    other tools than the `allowed` ones are not shown (None: all are), and the gateway `runs` none where the choice is
    `none`. `approved` are the ids of the questions behind the
    first calls of the round, which the client has answered. `include` as in the request.
    """

    sealed: bool = False
    allowed: frozenset[str] | None = None
    runs: bool = True
    approved: Sequence[str] = ()
    include: Collection[str] = ()


class PublicItems:
    """Makes the lifecycles of one round."""

    def __init__(
        self, response_id: str, number: int, shown: Shown, out: Output, options: RoundOptions
    ) -> None:
        self._response_id = response_id
        self._number = number
        self._shown = shown
        self._out = out
        self._options = options
        self._hosted_ids: dict[str, str] = {}  # the upstream's call ids of what it runs, and ours

    def lifecycle(self, item: Item, tool: Tool | None) -> Lifecycle:
        """What an item is that the gateway does not run."""
        if item.is_call:
            return self._call(item, tool)
        index, public_id = self._place(item, item.type)
        if item.type == "message":
            return MessageLifecycle(item, index, public_id, self._out)
        if item.type == "reasoning":
            sealed = self._options.sealed
            return ReasoningLifecycle(item, index, public_id, self._out, sealed=sealed)
        return HostedLifecycle(item, index, public_id, self._out, call_id=self._hosted_id(item))

    def running(self, item: Item, tool: Tool) -> GatewayLifecycle:
        """A call that the gateway runs."""
        if tool.kind is ToolKind.MCP:
            index, public_id = self._place(item, McpCallLifecycle.public_type)
            approved = self._options.approved
            approval = approved[item.slot] if item.slot < len(approved) else None
            return McpCallLifecycle(item, index, public_id, self._out, tool=tool, approval=approval)
        index, public_id = self._place(item, WebSearchLifecycle.public_type)
        include = self._options.include
        return WebSearchLifecycle(item, index, public_id, self._out, tool=tool, include=include)

    def call_id(self, item: Item) -> str:
        """The upstream's call id where it gave one that is not in use; else one of ours (contract.md section 9)."""
        taken = self._shown.call_ids
        found = item.call_id
        if not found or found in taken:
            found = ids.call_id(self._response_id, self._number, item.slot)
        taken.add(found)
        return found

    def _hosted_id(self, item: Item) -> str | None:
        """The call id of an item that the upstream runs, where it has one: its own, once; an output has its call's."""
        told = call_id_of(item.payload)
        if told is None or item.type.endswith("_output"):
            return self._hosted_ids.get(told or "", told)
        public = told
        if told in self._shown.call_ids:
            public = ids.call_id(self._response_id, self._number, item.slot)
        self._shown.call_ids.add(public)
        self._hosted_ids[told] = public
        return public

    def _call(self, item: Item, tool: Tool | None) -> Lifecycle:
        """A call that the client runs, or that it is asked about."""
        if tool is not None and tool.is_gateway_run:
            index, public_id = self._place(item, ApprovalLifecycle.public_type)
            return ApprovalLifecycle(item, index, public_id, self._out, tool=tool)
        kind = _kind(item, tool)
        index, public_id = self._place(item, kind.public_type)
        return kind(
            item,
            index,
            public_id,
            self._out,
            call_id=self.call_id(item),
            name=tool.name if tool else item.name or "",
            namespace=tool.namespace if tool else item.namespace,
            grammar=grammar_of(tool),
        )

    def _place(self, item: Item, public_type: str) -> tuple[int, str]:
        """The next output index, and the id that an item of that type has for ever."""
        public_id = ids.item_id(self._response_id, public_type, self._number, item.slot)
        return len(self._shown.items), public_id


def grammar_of(tool: Tool | None) -> GrammarPrefix | None:
    """What a call's input is held against: the grammar of a custom tool, where it declares one."""
    if tool is None or tool.format is None or tool.format.get("type") != "grammar":
        return None
    return GrammarPrefix(tool.format)


def _kind(item: Item, tool: Tool | None) -> type[CallLifecycle]:
    """What a call is to the client: what the request says of its name, never what the upstream calls it."""
    native = item.type == "custom_tool_call"
    if tool is None:
        return NativeCustomLifecycle if native else FunctionLifecycle
    if tool.kind is ToolKind.CUSTOM:
        return NativeCustomLifecycle if native else CustomLifecycle
    return FunctionLifecycle
