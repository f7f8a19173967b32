"""The tool calls of a chat stream: which fragment belongs to which call, and when a call can be announced.

In: the entries of `delta.tool_calls`. Out: Responses events of function calls. Identity (upstream-quirks.md section 4):

| the fragment has      | it belongs to                                                       |
|-----------------------|---------------------------------------------------------------------|
| an index that is new  | a new call, whatever its id                                         |
| a known index         | that call, or another one                                           |
| no index, a known id  | that call, or another one                                           |
| no index, a new id    | the call without an id that comes next in this table, or a new one  |
| neither, alone        | the last call, or another one                                       |
| neither, one of some  | that at its place in the list, or another one                       |

Another one begins with another id, unless that only changes from piece to piece; with another declared name where nothing
has come of arguments; and behind whole arguments with another name, or with an object that is not those arguments again.
A new call that says nothing at all is none.

A call takes its place in the order of items at once, without a name; `output_item.added` with id and name comes when
both are known, or at the call's end. Until then the accumulator holds it as a call without a name. Called by
`translator.chat`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from translator.chat_arguments import ChatArguments, piece_of
from translator.upstream_event import Event, mended
from translator.upstream_item import call_id_of


@dataclass(slots=True, eq=False)
class ChatCall:
    """One call; `announced` once `added` was told, `ended` once nothing more is expected.

    `named_again` is its name if that came once more behind whole arguments, of a server that gives no ids: what follows
    may be another call of the same tool.
    """

    index: int
    call_id: str | None = None
    name: str = ""
    arguments: ChatArguments = field(default_factory=ChatArguments)
    announced: bool = False
    ended: bool = False
    named_again: str = ""


@dataclass(frozen=True, slots=True)
class Fragment:
    """What an entry of `delta.tool_calls` says."""

    slot: int | None
    call_id: str | None
    name: str
    piece: str

    @classmethod
    def of(cls, entry: dict[str, Any]) -> "Fragment":
        """Read an entry; what is no index, id, name or text is not said."""
        slot, function = entry.get("index"), entry.get("function")
        function = function if isinstance(function, dict) else {}
        name = function.get("name")
        return cls(
            slot if isinstance(slot, int) and not isinstance(slot, bool) else None,
            said(entry),
            mended(name) if isinstance(name, str) else "",
            piece_of(function.get("arguments")),
        )

    @property
    def empty(self) -> bool:
        """Whether it says nothing: such a one begins no call."""
        return self.call_id is None and not self.name and not self.piece.strip()


class ChatCalls:
    """All calls of one attempt."""

    def __init__(self, names: frozenset[str], take_index: Callable[[], int]) -> None:
        self._names = names
        self._take_index = take_index
        self._calls: list[ChatCall] = []
        self._by_slot: dict[int, ChatCall] = {}  # the call that an upstream index means now
        self._by_id: dict[str, ChatCall] = {}

    def take(self, entry: dict[str, Any], position: int | None) -> Iterator[Event]:
        """The events of one fragment; `position` is its place in the chunk's list, None if it is alone there."""
        fragment = Fragment.of(entry)
        call, name = self._known(fragment, position), fragment.name
        if call is None or self._is_of_another(call, fragment):
            if fragment.empty:
                return
            name = name or (call.named_again if call is not None else "")
            yield from self._end_previous()
            call = self._begin(fragment.slot, position)
            yield added(call, named=False)
        elif name and name == call.name and call.call_id is None and call.arguments.whole:
            call.named_again = name
        if fragment.call_id is not None and call.call_id is None:
            call.call_id = fragment.call_id
            self._by_id.setdefault(fragment.call_id, call)
        self._name(call, name)
        piece = call.arguments.take(fragment.piece)
        declared, grows = call.name in self._names, self._may_grow(call.name)
        if (declared and not grows) or (piece and (declared or not grows)):
            yield from self._announce(call)
        if piece:
            yield {
                "type": "response.function_call_arguments.delta",
                "output_index": call.index,
                "delta": piece,
            }

    @property
    def begun(self) -> bool:
        """Whether any call came."""
        return bool(self._calls)

    def end(self) -> Iterator[Event]:
        """No more fragments come: what is not announced yet is announced as far as it is known."""
        for call in self._calls:
            if call.name:
                yield from self._announce(call, at_end=True)

    def _known(self, fragment: Fragment, position: int | None) -> ChatCall | None:
        """The call whose index, id or place the fragment has."""
        if fragment.slot is not None:
            return self._by_slot.get(fragment.slot)
        call_id = fragment.call_id
        if call_id is not None and call_id in self._by_id:
            return self._by_id[call_id]
        known = self._last() if position is None else self._by_slot.get(position)
        taken = call_id is not None and known is not None and known.call_id is not None
        return None if taken else known

    def _is_of_another(self, known: ChatCall, fragment: Fragment) -> bool:
        """Whether the fragment begins another call than the one it would continue."""
        told, arguments = fragment.call_id, known.arguments
        object_begins = fragment.piece.lstrip()[:1] == "{"
        if told is not None and known.call_id is not None and told != known.call_id:
            # Old vLLM, where a function is forced: a new id with each piece.
            goes_on = fragment.name == known.name and fragment.piece and not object_begins
            return not (goes_on and arguments.begun and not arguments.whole)
        if fragment.name and known.name and fragment.name != known.name:
            return arguments.whole or (
                not arguments.begun and self._differ(known.name, fragment.name)
            )
        if not object_begins or not arguments.whole:
            return False
        if arguments.bare and known.call_id is not None:
            return False  # a false start: the arguments come now
        if arguments.says(fragment.piece):
            # A repeat; but where no call has an id, two equal ones are two.
            return bool(fragment.name) and told is None and known.call_id is None
        return bool(fragment.name or known.named_again)

    def _differ(self, name: str, other: str) -> bool:
        """Whether two names are those of two tools, and not pieces of one name."""
        both = name in self._names and other in self._names and not other.startswith(name)
        joined = name + other
        return both and joined not in self._names and not self._may_grow(joined)

    def _last(self) -> ChatCall | None:
        return self._calls[-1] if self._calls else None

    def _begin(self, slot: int | None, position: int | None) -> ChatCall:
        call = ChatCall(self._take_index())
        self._calls.append(call)
        self._by_slot[slot if slot is not None else position or 0] = call
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
        elif piece.startswith(call.name):
            call.name = piece
        elif call.name not in self._names:
            call.name = joined

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


def said(entry: dict[str, Any]) -> str | None:
    """An entry's call id; the word "null" says none."""
    call_id = call_id_of(entry, "id")
    return None if call_id in (None, "null") else mended(call_id)
