"""The tool calls of a chat stream: which fragment belongs to which call, and when a call can be announced.

In: the entries of `delta.tool_calls`. Out: Responses events of function calls. Identity (upstream-quirks.md section 4):

| the fragment has      | it belongs to                                       |
|-----------------------|-----------------------------------------------------|
| an index that is new  | a new call, whatever its id                         |
| a known index         | that call; a new one if its id is another, or again |
| no index, a known id  | that call; a new one if again                       |
| no index, a new id    | a new call                                          |
| neither, alone        | the last call; a new one if again                   |
| neither, one of some  | that at its place in the list; a new one if again   |

Again: the call that it would continue has a name and whole arguments, and it brings another name, or arguments and no id.

A call takes its place in the order of items at once, without a name; `output_item.added` with id and name comes when
both are known, or at the call's end. Until then the accumulator holds it as a call without a name. Called by
`translator.chat`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from translator.chat_arguments import ChatArguments
from translator.upstream_event import Event, mended


@dataclass(slots=True, eq=False)
class ChatCall:
    """One call; `announced` once `added` was told, `ended` once nothing more is expected."""

    index: int
    call_id: str | None = None
    name: str = ""
    arguments: ChatArguments = field(default_factory=ChatArguments)
    announced: bool = False
    ended: bool = False


class ChatCalls:
    """All calls of one attempt."""

    def __init__(self, names: frozenset[str], take_index: Callable[[], int]) -> None:
        self._names = names
        self._take_index = take_index
        self._calls: list[ChatCall] = []
        self._by_slot: dict[int, ChatCall] = {}  # the call that an upstream index means now
        self._by_id: dict[str, ChatCall] = {}

    def take(self, fragment: dict[str, Any], position: int | None) -> Iterator[Event]:
        """The events of one fragment; `position` is its place in the chunk's list, None if it is alone there."""
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = said(fragment.get("id")), function.get("name")
        name = mended(name) if isinstance(name, str) else ""
        call = self._find(fragment.get("index"), call_id, name, position, function.get("arguments"))
        if call is None:
            yield from self._end_previous()
            call = self._begin(fragment.get("index"), position)
            yield added(call, named=False)
        if call_id is not None and call.call_id is None:
            call.call_id = call_id
            self._by_id.setdefault(call_id, call)
        self._name(call, name)
        piece = call.arguments.take(function.get("arguments"))
        declared, grows = call.name in self._names, self._may_grow(call.name)
        if (declared and not grows) or (piece and (declared or not grows)):
            yield from self._announce(call)
        if piece:
            yield {
                "type": "response.function_call_arguments.delta",
                "output_index": call.index,
                "delta": piece,
            }

    def end(self) -> Iterator[Event]:
        """No more fragments come: what is not announced yet is announced as far as it is known."""
        for call in self._calls:
            if call.name:
                yield from self._announce(call, at_end=True)

    def _find(
        self, slot: Any, call_id: str | None, name: str, position: int | None, arguments: Any
    ) -> ChatCall | None:
        known: ChatCall | None
        if isinstance(slot, int) and not isinstance(slot, bool):
            known = self._by_slot.get(slot)
        elif call_id is not None:
            known = self._by_id.get(call_id)
        else:
            known = self._last() if position is None else self._by_slot.get(position)
        if known is None:
            return None
        other_id = call_id is not None and known.call_id is not None and known.call_id != call_id
        more = name != known.name or (call_id is None and bool(arguments))
        again = bool(name and known.name) and more and known.arguments.whole
        return None if other_id or again else known

    def _last(self) -> ChatCall | None:
        return self._calls[-1] if self._calls else None

    def _begin(self, slot: Any, position: int | None) -> ChatCall:
        call = ChatCall(self._take_index())
        self._calls.append(call)
        key = slot if isinstance(slot, int) and not isinstance(slot, bool) else position or 0
        self._by_slot[key] = call
        return call

    def _end_previous(self) -> Iterator[Event]:
        """A call whose arguments are a whole object is done once the next one begins: nothing could follow in it.

        But for its name: one without is not.
        """
        call = self._last()
        if call is not None and call.name and not call.ended and call.arguments.whole:
            call.ended = True
            yield from self._announce(call, at_end=True)
            yield {"type": "response.output_item.done", "output_index": call.index}

    def _name(self, call: ChatCall, piece: str) -> None:
        """Join the fragments of a name; a repeat of the name so far is a repeat."""
        if not piece or call.announced or piece == call.name:
            return
        joined = call.name + piece
        if not call.name or self._may_grow(joined) or joined in self._names:
            call.name = joined
        elif call.name not in self._names:
            call.name = piece if piece.startswith(call.name) else joined

    def _may_grow(self, name: str) -> bool:
        """Whether a declared name begins with this one and goes on."""
        return any(declared.startswith(name) and declared != name for declared in self._names)

    def _announce(self, call: ChatCall, *, at_end: bool = False) -> Iterator[Event]:
        if call.announced or not call.name or (call.call_id is None and not at_end):
            return
        call.announced = True
        yield added(call, named=True)


def added(call: ChatCall, *, named: bool) -> Event:
    """An announcement; without the name it only keeps the call's place in the order of items."""
    identity = {"name": call.name, "call_id": call.call_id} if named else {}
    item = {"type": "function_call", "arguments": "", **identity}
    return {"type": "response.output_item.added", "output_index": call.index, "item": item}


def said(call_id: Any) -> str | None:
    """A call id; missing, null, empty and the word "null" are not said, a number is its digits."""
    if isinstance(call_id, int) and not isinstance(call_id, bool):
        return str(call_id)
    return mended(call_id) if isinstance(call_id, str) and call_id not in ("", "null") else None
