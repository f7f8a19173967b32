"""The function SSE translator: one call of the accumulator → the events of the tool that the client declared.

In: a function call as the upstream streams it (authoritative in the accumulator), and what the request says of its
name. Out: `function_call_arguments.*` for a function, `custom_tool_call_input.*` for a custom tool, incrementally;
never both, and nothing for a call that the gateway owns. It keeps a cursor into the call's pieces and, for a custom
tool, the decoder's state: no second copy of the arguments (seeds 000 and 001).

The done of a call is never sent before its end is certain, and never for one that was cut off: clients run a call as
soon as its `output_item.done` arrives (contract.md D19). An upstream's done is certain when the arguments are whole;
otherwise it waits until the next item opens or the round ends.
"""

from abc import abstractmethod
from typing import Any

from translator.custom_input import CustomInput, decode
from translator.grammar import GrammarPrefix
from translator.items import Ended, Item
from translator.lifecycle import Lifecycle
from translator.output import Output
from translator.protocol.errors import ProtocolFault
from translator.protocol.sse import DeltaTemplate
from translator.upstream_item import is_json


class CallLifecycle(Lifecycle):
    """A call that the client runs. `call_id`, `name` and `namespace` are public and fixed from here on."""

    public_type: str
    event: str  # prefix of the delta and done events
    field: str  # where the item holds the text

    def __init__(
        self,
        item: Item,
        index: int,
        public_id: str,
        out: Output,
        *,
        call_id: str,
        name: str,
        namespace: str | None,
        grammar: GrammarPrefix | None = None,
    ) -> None:
        """`grammar` is a custom tool's own: no more of the text is shown than is in its language."""
        super().__init__(item, index, public_id, out)
        self._grammar = grammar
        self._shown = 0  # characters of the text that were shown; counted only under a grammar
        self._refused = False  # the text has left its grammar: nothing of it is shown any more
        self._head = {"id": public_id, "type": self.public_type}
        self._identity = {"call_id": call_id, "name": name}
        if namespace is not None:
            self._identity["namespace"] = namespace
        self._place = {"item_id": public_id, "output_index": index}
        self._template = DeltaTemplate(f"response.{self.event}.delta", self._place, {})
        self._sent = 0  # pieces of the call's text that were taken
        self._told = False  # the text's own done event was written

    def advance(self, *, coalesce: bool = False) -> None:
        """See Lifecycle."""
        if self._refused:
            return
        self._grow(coalesce=coalesce)
        if self.item.text.done and not self._told and self._certain():
            self._tell()
        if self._told and self.item.ended is Ended.DONE:
            self._done("completed")

    def close(self, status: str) -> None:
        """See Lifecycle; a call that was cut off is only listed in the terminal response."""
        if not self._refused:
            self._grow(coalesce=False)
            if status == "completed" and not self._told:
                self._tell()
        if self._told:
            self._done("completed")
        else:
            self.final = self.snapshot("incomplete")

    def snapshot(self, status: str) -> dict[str, Any]:
        """The public call."""
        text = "" if status == "in_progress" else self._whole(cut=status == "incomplete")
        if self._refused:
            text = text[: self._shown]
        return {**self._head, "status": status, **self._identity, self.field: text}

    def _grow(self, *, coalesce: bool) -> None:
        pieces = self.item.text.pieces
        if self._sent == len(pieces):
            return
        fresh, self._sent = pieces[self._sent :], len(pieces)
        for piece in ["".join(fresh)] if coalesce else fresh:
            self._delta(self._decoded(piece))

    def _delta(self, delta: str) -> None:
        if self._grammar is not None:
            delta = self._grammar.feed(delta) if delta else ""
            self._shown += len(delta)
        if delta:
            self._out.write_delta(self._template, delta)
        if self._grammar is not None and self._grammar.violated:
            self._refuse(self._grammar)

    def _refuse(self, grammar: GrammarPrefix) -> None:
        """What was shown cannot be taken back: the response ends, and the call keeps its valid part (contract.md 6)."""
        self._refused = True
        raise ProtocolFault(f"The input of the tool {self._identity['name']!r} {grammar.fault}.")

    def _tell(self) -> None:
        """Write what is still missing of the text, and its done event."""
        self._delta(self._last())
        if self._grammar is not None and not self._grammar.finish():
            self._refuse(self._grammar)
        self._told = True
        self._out.write(f"response.{self.event}.done", {**self._place, **self._done_fields()})

    @abstractmethod
    def _certain(self) -> bool:
        """Whether the text is whole, so that an upstream's done can be believed."""

    def _decoded(self, piece: str) -> str:
        """What a piece of the call's text shows."""
        return piece

    def _last(self) -> str:
        """What the end of the text shows."""
        return ""

    @abstractmethod
    def _whole(self, *, cut: bool) -> str:
        """The public text; of a call that was `cut`, what was streamed of it."""

    def _done_fields(self) -> dict[str, Any]:
        return {self.field: self._whole(cut=False)}


class FunctionLifecycle(CallLifecycle):
    """An ordinary function, a namespace's member, or a name that nobody declared: passes as it is."""

    public_type = "function_call"
    event = "function_call_arguments"
    field = "arguments"

    def _certain(self) -> bool:
        return is_json(self.item.text.joined())

    def _last(self) -> str:
        return "" if self.item.text.pieces else "{}"

    def _whole(self, *, cut: bool) -> str:
        return self.item.text.joined() or ("" if cut else "{}")

    def _done_fields(self) -> dict[str, Any]:
        return {"name": self._identity["name"], **super()._done_fields()}


class CustomLifecycle(CallLifecycle):
    """A custom tool that the upstream calls as a function with one string `input`."""

    public_type = "custom_tool_call"
    event = "custom_tool_call_input"
    field = "input"

    def __init__(self, *args: Any, **identity: Any) -> None:
        super().__init__(*args, **identity)
        self._scanner = CustomInput()
        self._input: str | None = (
            None  # the whole input, decoded once; set when the call is told as done
        )

    @property
    def fallback(self) -> bool:
        """Whether the arguments had no envelope and were shown verbatim; to be counted (upstream-quirks.md section 6)."""
        return self._scanner.fallback

    def _certain(self) -> bool:
        return self._scanner.whole

    def _decoded(self, piece: str) -> str:
        return self._scanner.feed(piece)

    def _last(self) -> str:
        return self._scanner.finish(self.item.text.joined())

    def _whole(self, *, cut: bool) -> str:
        arguments = self.item.text.joined()
        if cut and not self._scanner.fallback:
            return CustomInput().feed(arguments)
        if self._input is None or cut:
            self._input = decode(arguments)[0]
        return self._input


class NativeCustomLifecycle(CallLifecycle):
    """A custom call that the upstream knows as such: its text is the input."""

    public_type = "custom_tool_call"
    event = "custom_tool_call_input"
    field = "input"

    def _certain(self) -> bool:
        return False  # free text has no end of its own

    def _whole(self, *, cut: bool) -> str:  # noqa: ARG002 (all of it was streamed, cut or not)
        return self.item.text.joined()
