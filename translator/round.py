"""One inference round on its way to the client: fold, classify, hold or show, run, close.

In: the events of one upstream stream, then the results of the calls that the gateway runs. Out: public item frames in the
`Output`, jobs for the tool workers, and at the end what the next round's model hears of this one. Called by the machine,
which owns numbering, the response's life and everything that spans rounds. Step 3 of the data's way: accumulator →
boundary → lifecycle.

    take … ─► end (the upstream is done) ─► jobs ─► take_result … ─► finish
       └───────────────────┴──────── close (the response ends first) ┘
"""

from collections.abc import Callable
from dataclasses import asdict
from itertools import dropwhile
from operator import itemgetter
from typing import Any, Final

from translator.accumulator import Accumulator, RoundResult
from translator.boundary import Boundary, Wall
from translator.function_sse import CallLifecycle, CustomLifecycle
from translator.gateway_calls import NOT_ALLOWED, GatewayCall, refused
from translator.gateway_items import ApprovalLifecycle, GatewayLifecycle, Result
from translator.items import Ended, Item
from translator.lifecycle import Lifecycle, TextLifecycle
from translator.output import Output
from translator.protocol.errors import ProtocolFault
from translator.public_items import PublicItems, RoundOptions, Shown
from translator.replay import error_text
from translator.text_run import Growing
from translator.toolmap import Tool, ToolMap
from translator.upstream_event import Event
from translator.upstream_item import is_json

COUNTED_FALLBACK: Final = "custom input without its envelope"


class Round:
    """One round of one attempt. `take` each event; the drawing in the module's docstring shows the rest."""

    def __init__(
        self,
        response_id: str,
        number: int,
        tools: ToolMap,
        shown: Shown,
        out: Output,
        *,
        note: Callable[[str, str, int], None],
        options: RoundOptions,
    ) -> None:
        """`note(kind, name, size)` takes what is worth counting outside the core."""
        self.number = number
        self.public = (
            False  # set once an item of this round was shown: then it cannot be tried again
        )
        self._tools = tools
        self._shown = shown
        self._public = PublicItems(response_id, number, shown, out, options)
        self._note = note
        self._options = options
        self._kept_back: set[int] = (
            set()
        )  # slots of calls that are not shown: not allowed, or given up
        self._accumulator = Accumulator()
        self._items = self._accumulator.items
        self._boundary = Boundary()
        self._lifecycles: dict[int, Lifecycle] = {}  # by slot, from `added` on
        self._calls: dict[int, GatewayCall] = {}  # by slot: what the gateway runs or refuses
        self._waiting_dones: list[Lifecycle] = []  # of ended items whose end is not certain yet
        self._seen = 0  # items that have appeared
        self._touched: Item | None = None  # by the last event
        self._ended = ""  # set by `end`: how the upstream's part ended
        self._broken_off = False  # set by `close`: it did not end by itself

    @property
    def result(self) -> RoundResult | None:
        """How the upstream ended the round, once it did."""
        return self._accumulator.result

    @property
    def tolerated(self) -> dict[str, int]:
        """Quirks that were put right so far."""
        return self._accumulator.tolerated

    @property
    def has_gateway_calls(self) -> bool:
        """Whether the model has called what the client does not run, and not been cut off in it; known after `end`."""
        return any(not call.cut for call in self._calls.values())

    @property
    def only_refused(self) -> bool:
        """Whether every such call was refused."""
        return all(call.refusal is not None for call in self._calls.values())

    @property
    def over_limit(self) -> bool:
        """Whether one of them was one too many."""
        return any(call.refusal not in (None, NOT_ALLOWED) for call in self._calls.values())

    @property
    def has_client_calls(self) -> bool:
        """Whether the client has calls to run, or questions to answer."""
        kinds = (CallLifecycle, ApprovalLifecycle)
        return any(isinstance(shown, kinds) for shown in self._lifecycles.values())

    @property
    def waits(self) -> bool:
        """Whether a call that the gateway runs has no result yet."""
        return any(call.runs and call.result is None for call in self._calls.values())

    def take(self, event: Event) -> None:
        """Fold one event and show what may be shown. Raises ProtocolFault."""
        item = self._touched = self._accumulator.fold(event)
        if self._seen < len(self._items):
            self._seen = len(self._items)
            self._settle_dones()
        if item is None:
            return
        waiting = self._boundary.waiting
        if not waiting and item.slot in self._lifecycles:
            self._show(item)
            return
        if item.slot in self._calls:
            self._advance(self._calls[item.slot])
            return
        wall = self._wall(item)
        if not waiting and wall is None:
            self._show(item)
            return
        delta = event.get("delta")
        size = len(delta) if isinstance(delta, str) else 0
        if self._boundary.hold(item, wall, size=size):
            self._release()

    @property
    def growing(self) -> Growing | None:
        """The text to which the last event was a delta, if the next of its like would only make it longer."""
        item = self._touched
        if item is None or self._boundary.waiting:
            return None
        text, lifecycle = self._accumulator.growing(item), self._lifecycles.get(item.slot)
        if text is None or lifecycle is None:
            return None
        if not isinstance(lifecycle, TextLifecycle):
            return Growing(text, lambda _: lifecycle.advance())
        show = lifecycle.growing(text)
        return None if show is None else Growing(text, show)

    def end(self, status: str) -> None:
        """The upstream is done: `status` is completed or incomplete. Whole calls of the gateway's now wait for results.

        Raises ProtocolFault, with nothing closed, if the upstream says completed and a call has no name to this day.
        """
        completed = status == "completed"
        nameless = (i for i in self._boundary.walls(Wall.UNKNOWN) if i.is_call and i.unnamed)
        if completed and any(nameless):
            raise ProtocolFault("The upstream completed, but one of its calls has no name.")
        self._ended = status
        for item in self._items:
            if item.ended is Ended.OPEN:
                whole = completed or (self._gateway_tool(item) and is_json(item.text.joined()))
                self._accumulator.close(item, Ended.DONE if whole else Ended.CUT)
            elif item.is_call and completed:
                # Said to be cut off, but whole: else the round were incomplete.
                item.ended = Ended.DONE
        self._drop_lost()
        for item in self._items:
            if item.slot not in self._calls and not self._lost(item):
                self._boundary.hold(item, self._wall(item))
        for item in self._boundary.in_order():
            if self._boundary.wall(item) is Wall.RUNNING:
                self._admitted(item)
        self._release()
        self._close_shown()

    def jobs(self) -> list[tuple[str, bytes]]:
        """The calls for the tool workers, in the model's order: key and data each."""
        waiting = [call for call in self._in_order() if call.runs]
        keys = [f"{self.number}.{call.item.slot}" for call in waiting]
        return [(key, call.job(key)) for key, call in zip(keys, waiting, strict=True)]

    def take_result(self, slot: int, result: Result) -> None:
        """A call has run. The first result of a call counts; completions are shown in output order."""
        call = self._calls.get(slot)
        if call is None or call.result is not None or call.refusal is not None:
            return
        call.result = result
        self._release()

    def finish(self) -> None:
        """All results are there: what waited behind them is shown, everything is closed, and later texts may cite them."""
        self._release()
        self._close_shown()
        for call in self._in_order():
            self._shown.citations.add((call.result or {}).get("results") or ())

    def close(self) -> None:
        """The response ends before the round has: what is open is incomplete, what is whole is shown."""
        if not self._ended:
            self._ended, self._broken_off = "incomplete", True
            for item in self._items:
                if item.ended is Ended.OPEN:
                    self._accumulator.close(item, Ended.CUT)
        self._drop_lost()
        for item in self._boundary.in_order():
            if self._boundary.wall(item) is not Wall.RUNNING:
                continue
            call = self._calls.get(item.slot)
            if call is None or call.lifecycle is None:
                self._note("call dropped", item.name or "", item.text.size)
            else:
                call.end()
            self._boundary.drop(item)
            self._kept_back.add(item.slot)
        for item in self._items:
            if item.slot not in self._calls and not self._lost(item):
                self._boundary.hold(item, None)
        self._release()
        self._close_shown()

    def forget(self) -> None:
        """The round begins anew, and nothing of it is public: what it has taken is free again."""
        for call in self._calls.values():
            self._shown.call_ids.discard(call.call_id)

    def told(self) -> list[dict[str, Any]]:
        """The round as the next one's model knows it: all that it said and called, then the outputs in its order.

        Servers want no text between a call and its output (upstream-quirks.md section 5); where there is none, what the
        model thought stays before the call that came of it.
        """
        told: list[tuple[bool, dict[str, Any]]] = []  # whether it is a call, and the item
        outputs: list[dict[str, Any]] = []
        for item in sorted(self._items, key=lambda item: (item.place, item.slot)):
            call = self._calls.get(item.slot)
            if call is None and item.slot not in self._kept_back:
                told.append((item.is_call, self._lifecycles[item.slot].ended))
                continue
            asked, answer = call.told() if call else refused(item, self._public.call_id(item))
            told.append((True, asked))
            outputs.append(answer)
        behind = dropwhile(lambda one: not one[0], told)
        if any(item["type"] == "message" for _, item in behind):
            told.sort(key=itemgetter(0))
        return [item for _, item in told] + outputs

    def answered(self) -> list[dict[str, Any]]:
        """Of a round of approved calls: an item for each question, with what the model hears."""
        found = []
        for call in self._in_order():
            item = call.lifecycle.ended if call.lifecycle is not None else {"type": "mcp_call"}
            question = self._options.approved[call.item.slot]
            result = call.result or {"content": error_text(call.refusal or NOT_ALLOWED)}
            found.append({**item, "approval_request_id": question, "result": result})
        return found

    def picture(self) -> dict[str, Any]:
        """The round so far as plain JSON: what the upstream said, and what of it waits."""
        waiting = self._boundary.waiting
        items = []
        for item in self._items:
            wall = self._boundary.wall(item)
            held = wall.name.lower() if wall is not None else "behind"
            items.append({**item.picture(), "held": held if item.slot in waiting else None})
        result = self.result
        return {
            "number": self.number,
            "public": self.public,
            "result": asdict(result) if result is not None else None,
            "items": items,
            "calls": [call.picture() for call in self._in_order()],
            "tolerated": dict(self.tolerated),
        }

    # ---- who waits for whom -------------------------------------------------------------------

    def _gateway_tool(self, item: Item) -> Tool | None:
        """The tool of a call that is not the client's; an upstream's own namespaces are none of ours."""
        known = item.is_call and not item.namespace
        tool = self._tools.get(item.name or "") if known else None
        return tool if tool is not None and tool.is_gateway_run else None

    def _asks(self, item: Item, tool: Tool) -> bool:
        asked = item.slot < len(self._options.approved)
        return tool.asks and not asked and self._options.runs and self._allows(item)

    def _allows(self, item: Item) -> bool:
        allowed, name = self._options.allowed, item.name or ""
        offered = bool(item.namespace) or self._tools.offers(name)
        return offered and (allowed is None or name in allowed)

    def _wall(self, item: Item) -> Wall | None:
        """What an item is to those behind it, as far as it is not shown."""
        if item.slot in self._lifecycles:
            return None
        if item.unnamed:
            return Wall.UNKNOWN
        if not item.is_call:
            return None
        tool = self._gateway_tool(item)
        if tool is None:
            return None
        if self._asks(item, tool):
            return None if item.ended is Ended.DONE else Wall.UNKNOWN
        return Wall.RUNNING

    def _lost(self, item: Item) -> bool:
        """Whether a call is never shown: nobody knows what it is, or it was cut off and nobody will run it."""
        if item.slot in self._kept_back:
            return True
        if item.slot in self._lifecycles or not item.is_call:
            return False
        cut = item.ended is Ended.CUT
        return item.unnamed or (cut and self._gateway_tool(item) is not None)

    def _drop_lost(self) -> None:
        """Give up the calls that nobody will run; one that was shown ends as incomplete, in its turn."""
        for item in self._items:
            call = self._calls.get(item.slot)
            if call is not None and call.lifecycle is not None and item.ended is Ended.CUT:
                call.cut = True
            elif self._lost(item) and item.slot in self._boundary.waiting:
                self._boundary.drop(item)
                self._note("call dropped", item.name or "", item.text.size)

    def _release(self) -> None:
        coalesce = self._boundary.coalesce
        behind = False  # a call that the gateway runs is not over
        for item in self._boundary.in_order():
            wall = self._boundary.wall(item)
            if wall is Wall.UNKNOWN:
                break
            if wall is Wall.RUNNING:
                behind = not self._run(item, first=not behind) or behind
            elif behind:
                break
            else:
                self._boundary.drop(item)
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
        if self._shown.citations and item.type == "message":
            self._cite(item)
        lifecycle.advance(coalesce=coalesce)
        if lifecycle.waits and isinstance(lifecycle, (CallLifecycle, TextLifecycle)):
            if item.is_call or item is self._items[-1]:
                self._waiting_dones.append(lifecycle)
            else:
                lifecycle.settle()

    def _cite(self, item: Item) -> None:
        """Mark, in texts that are whole, the addresses that a search has found."""
        for part in item.parts:
            if part.kind == "output_text" and part.done and not part.annotations:
                for annotation in self._shown.citations.of(part.joined()):
                    part.annotate(annotation)

    def _forbidden(self, item: Item) -> bool:
        """Whether a call is of a tool that this request does not allow (contract.md section 6): counted, once."""
        if not item.is_call or self._allows(item):
            return False
        if item.slot not in self._kept_back:
            self._kept_back.add(item.slot)
            self._note("call of a tool that is not allowed", item.name or "", item.text.size)
        return True

    def _settle_dones(self) -> None:
        """Another item follows: what the upstream had ended before it is whole."""
        for lifecycle in self._waiting_dones:
            lifecycle.settle()
            self._observe(lifecycle)
        self._waiting_dones.clear()

    def _close_shown(self) -> None:
        """Close what the client has seen, but for calls whose result is still to come."""
        for lifecycle in sorted(self._lifecycles.values(), key=lambda shown: shown.index):
            held = lifecycle.item.slot in self._boundary.waiting  # behind a call that runs
            if lifecycle.final is None and not held and not isinstance(lifecycle, GatewayLifecycle):
                # It takes the upstream to say that a limit has ended a text that it had called completed.
                believed = self._broken_off and isinstance(lifecycle, TextLifecycle)
                whole = believed and lifecycle.waits
                lifecycle.close("completed" if whole else self._ended)
                self._observe(lifecycle)

    def _observe(self, lifecycle: Lifecycle) -> None:
        if isinstance(lifecycle, CustomLifecycle) and lifecycle.fallback and lifecycle.final:
            self._note(COUNTED_FALLBACK, lifecycle.final["name"], lifecycle.item.text.size)

    # ---- calls that the gateway runs ----------------------------------------------------------

    def _in_order(self) -> list[GatewayCall]:
        """The calls in the model's order."""
        return sorted(self._calls.values(), key=lambda call: (call.item.place, call.item.slot))

    def _admitted(self, item: Item) -> GatewayCall:
        """The call, with the decision whether it is run: made once, in output order."""
        call, tool = self._calls.get(item.slot), self._gateway_tool(item)
        if call is not None:
            return call
        if tool is None:
            raise AssertionError("only a call of the gateway's is a running one")
        shown, refusal = self._shown, None
        if not self._allows(item) or not self._options.runs:
            refusal = NOT_ALLOWED
            self._note("call of a tool that is not allowed", item.name or "", item.text.size)
        elif shown.calls >= shown.max_calls:
            refusal = f"The limit of {shown.max_calls} tool calls for this response is reached."
            self._note("call over the limit", item.name or "", item.text.size)
        else:
            shown.calls += 1
        call = GatewayCall(item, self._public.call_id(item), tool, refusal)
        self._calls[item.slot] = call
        return call

    def _run(self, item: Item, *, first: bool) -> bool:
        """Show a call as far as it is; whether it is over. Only the `first` one that is not may end."""
        call = self._admitted(item)
        if call.refusal is None:
            if call.lifecycle is None:
                call.lifecycle = self._public.running(item, call.tool)
                self._announce(call.lifecycle)
            self._advance(call)
            if not first or (call.result is None and not call.cut):
                return False
            call.end()
        self._boundary.drop(item)
        return True

    def _advance(self, call: GatewayCall) -> None:
        if call.lifecycle is None:
            return
        if self._ended and not call.cut:
            call.lifecycle.settle()
        else:
            call.lifecycle.advance()

    # ---- items -------------------------------------------------------------------------------

    def _begin(self, item: Item) -> Lifecycle:
        tool = self._tools.get(item.name or "")
        if tool is not None and tool.is_gateway_run:
            tool = self._gateway_tool(item)
        lifecycle = self._public.lifecycle(item, tool)
        self._announce(lifecycle)
        return lifecycle

    def _announce(self, lifecycle: Lifecycle) -> None:
        """Announce an item: from here on its public id, type, call id and name stand."""
        self._lifecycles[lifecycle.item.slot] = lifecycle
        self._shown.items.append(lifecycle)
        self.public = True
        lifecycle.announce()
