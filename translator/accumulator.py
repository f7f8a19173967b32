"""The fold of one inference round: upstream events in, items out. First of all, always, and authoritative.

Nothing else joins text or arguments. A frame is folded here before anything is derived from it (upstream-quirks.md
section 1); public frames are made by `translator.lifecycle` from the items that this module writes.

| event                                   | what it does                                                                |
|-----------------------------------------|-----------------------------------------------------------------------------|
| output_item.added                       | opens an item, or tells more of one that a delta opened before              |
| content_part.added, reasoning_part.added, reasoning_summary_part.added | opens a part                                 |
| *.delta                                 | adds a piece to a part, or to a call's text; opens what was never announced |
| *.done                                  | the whole text: says the rest, or the only word, never takes back           |
| output_text.annotation.added            | adds an annotation, once                                                    |
| output_item.done                        | the whole item: wins for all that the client has not seen                   |
| completed, done, incomplete, failed, error | the round's end, with usage, reason or error                             |

Events of a response's life (created, queued, in_progress) say nothing new; unknown events are counted and ignored.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from translator.items import CALLS, Ended, Item, Part, PartKind, Text
from translator.parts import add_details, fitting, pairs, part_index, part_of, readable
from translator.protocol.errors import ProtocolFault
from translator.register import Register, id_of, index_of
from translator.upstream_event import Event, showable
from translator.upstream_item import (
    arguments_of,
    call_id_of,
    error_of,
    is_empty,
    is_json,
    listed,
    part_kind,
    parts_in,
    text_of,
    type_of,
)

MESSAGE: Final = frozenset({"message"})
REASONING: Final = frozenset({"reasoning"})

DELTAS: Final[dict[str, PartKind]] = {
    "response.output_text.delta": "output_text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_text",
    "response.reasoning.delta": "reasoning_text",
    "response.reasoning_summary_text.delta": "summary_text",
}
"""Text events, the Open Responses spelling of reasoning among them, and the part that they write to."""

CALL_DELTAS: Final = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)

GROWING: Final = CALL_DELTAS | set(DELTAS)
"""Events that make a text longer."""

DONES: Final = {event.removesuffix("delta") + "done": kind for event, kind in DELTAS.items()}

REASON: Final = re.compile(r"[a-z_]{1,40}", re.ASCII)
"""A reason is a word of the API; anything else an upstream says there is not passed on."""

LIFE: Final = frozenset({"response.created", "response.queued", "response.in_progress"})


@dataclass(frozen=True, slots=True)
class RoundResult:
    """How the upstream ended a round: `status` is completed, incomplete or failed."""

    status: str
    usage: dict[str, Any] | None = None
    reason: str | None = None
    code: str | None = None
    message: str | None = None


def holders(kind: PartKind) -> frozenset[str]:
    """The types of the items that a part of this kind can be in."""
    return REASONING if kind in ("reasoning_text", "summary_text") else MESSAGE


class Accumulator:
    """The items of one round and its end. Call `fold` with each event in order up to the end; read `items` and `result`."""

    def __init__(self) -> None:
        self.register = Register()
        self.items = self.register.items  # all items of the round, in order of appearance
        self.result: RoundResult | None = (
            None  # set by the upstream's terminal event, never cleared
        )
        self.tolerated: Counter[str] = Counter()  # quirks that were put right, for metrics
        # The part that the last text delta went to, and the fields that led there: most deltas follow one of their own.
        self._where: tuple[Any, ...] = ()
        self._last: tuple[Item, Part] | tuple[None, None] = (None, None)

    def fold(self, event: Event) -> Item | None:
        """Take one event in; the item it touched. Raises ProtocolFault for what cannot be put right."""
        kind = DELTAS.get(event["type"])
        if kind is not None:
            return self._delta(event, kind)
        fold = self._FOLDS.get(event["type"])
        if fold is not None:
            return fold(self, event)
        kind = DONES.get(event["type"])
        if kind is not None:
            return self._text_done(event, kind)
        return None if event["type"] in LIFE else self._other(event)

    def growing(self, item: Item) -> Text | None:
        """The text of the item to which the last event was a delta, if the next one would be added to it as it is."""
        if item.is_call:
            return item.text if item.text.size and not item.text.done else None
        return self._last[1]

    # ---- items ------------------------------------------------------------------------------

    def _item_added(self, event: Event) -> Item | None:
        payload = event.get("item")
        if payload is None:
            self.tolerated["null item"] += 1
            return None
        item_type = type_of(payload)
        item_id, index = id_of(payload.get("id")) or id_of(event.get("item_id")), index_of(event)
        beside = item_type in CALLS and self.register.holds_text(index, item_id)
        if beside:
            self.tolerated["call under the output index of an open text"] += 1
            index = None
        known = self.register.find(item_id, index) if item_id or index is not None else None
        if known is not None and known.ended is Ended.OPEN:
            item = self._announced_late(known, item_type, payload)
        else:
            item = self.register.add(item_type, item_id, index, beside=beside)
        item.announced_upstream = True
        item.payload = payload
        self._identify(item, payload)
        if item.is_call:
            item.initial = arguments_of(payload)
        return item

    def _announced_late(self, item: Item, item_type: str, payload: dict[str, Any]) -> Item:
        """An `added` for an item that is there: a delta opened it, it had no name yet, or this is an equal repeat."""
        if item.announced_upstream and item.payload != payload and not item.unnamed:
            raise ProtocolFault("The upstream opened two items under one id or output index.")
        if item.type != item_type and not (item.is_call and item_type in CALLS):
            raise ProtocolFault("The upstream announced an item as another type than its text had.")
        if not item.unnamed:
            self.tolerated["late or repeated output_item.added"] += 1
        item.type = item_type
        return item

    def _item_done(self, event: Event) -> Item | None:
        payload = event.get("item")
        if payload is None:
            payload = {}
        if not isinstance(payload, dict):
            raise ProtocolFault("The upstream closed an item that is no object.")
        item_id, index = id_of(payload.get("id")) or id_of(event.get("item_id")), index_of(event)
        item_type = payload.get("type")
        if item_id is None and index is None and self._has_ended(payload):
            self.tolerated["repeated output_item.done"] += 1
            return None
        item = self.register.find_done(
            item_id, index, str(item_type), call_id_of(payload), partial(may_end, payload)
        )
        if item is None:
            if not payload or is_empty(payload):
                self.tolerated["closed an item that was never opened"] += 1
                return None
            self.tolerated["item that is only done"] += 1
            item = self.register.add(type_of(payload), item_id, index)
        elif item.ended is not Ended.OPEN:
            self._done_again(item, payload)
            return None
        self._complete(item, payload)
        return item

    def _has_ended(self, payload: dict[str, Any]) -> bool:
        """Whether a call has ended with this very payload, an id apart: nothing but the call id tells which it was."""
        call_id = call_id_of(payload)
        same = (i.done_payload for i in self.register.items if call_id and i.call_id == call_id)
        return any(said(ended) == said(payload) for ended in same if ended)

    def _done_again(self, item: Item, payload: dict[str, Any]) -> None:
        if payload and item.done_payload and said(payload) != said(item.done_payload):
            raise ProtocolFault("The upstream closed an item twice, differently.")
        self.tolerated["repeated output_item.done"] += 1

    def _complete(self, item: Item, payload: dict[str, Any]) -> None:
        """Fold the whole of a finished item."""
        if payload:
            item_type = type_of(payload) if payload.get("type") else item.type
            may_change = item.unnamed and item_type in CALLS
            if item.type != item_type and not may_change:
                raise ProtocolFault(
                    "The upstream closed an item as another type than it opened it."
                )
            item.type = item_type
            item.payload = payload
            item.done_payload = payload
        self._identify(item, payload)
        if item.is_call:
            self._settle(item.text, arguments_of(payload), strict=True)
        else:
            self._read_parts(item, payload)
        cut = ("incomplete", "failed", "cancelled") if item.is_call else ("incomplete",)
        self.close(item, Ended.CUT if payload.get("status") in cut else Ended.DONE)

    def close(self, item: Item, ended: Ended) -> None:
        """End an item: nothing more will be said of it. Text that only came with `added` counts now."""
        if not item.parts:
            self._read_parts(item, readable(item, item.payload))
        for part in item.parts:
            if not part.done:
                self._settle(part, part.said_first, strict=False)
            part.done = ended is Ended.DONE or part.done
            part.complete = ended is Ended.DONE or part.complete
        if item.is_call and not item.text.pieces:
            item.text.append(item.held or item.initial)
        item.text.finish()
        item.text.done = True
        item.ended = ended

    def _identify(self, item: Item, payload: dict[str, Any]) -> None:
        """Learn a call's name, call id and namespace; what is known stands (upstream-quirks.md section 1, rule 3)."""
        if not item.is_call:
            return
        name, call_id = payload.get("name"), call_id_of(payload)
        if isinstance(name, str) and name:
            if item.name is None:
                item.name = name
            elif item.name != name:
                self.tolerated["call named twice"] += 1
        if call_id is not None:
            if item.call_id is None:
                item.call_id = call_id
            elif item.call_id != call_id:
                self.tolerated["call id changed"] += 1
        namespace = payload.get("namespace")
        if item.namespace is None and isinstance(namespace, str) and namespace:
            item.namespace = namespace

    # ---- parts ------------------------------------------------------------------------------

    def _part_added(self, event: Event) -> Item | None:
        summary = event["type"] == "response.reasoning_summary_part.added"
        part = event.get("part")
        if not isinstance(part, dict):
            self.tolerated["null part"] += 1
            return None
        kind = "summary_text" if summary else part_kind(part)
        item = self._text_item(event, kind)
        kind = fitting(item, kind)
        upstream_index = part_index(event, kind)
        for known in item.parts:
            if known.kind == kind and known.upstream_index == upstream_index:
                if known.done and text_of(part) not in ("", known.joined()):
                    continue
                known.reopened = known.done  # told again, or another part, which its text will tell
                return item
        item.begin_part(Part(kind, upstream_index, text_of(part)))
        return item

    def _delta(self, event: Event, kind: PartKind) -> Item | None:
        delta = event.get("delta")
        if not isinstance(delta, str):
            _refuse(delta)
            return None
        where = (
            kind,
            event.get("item_id"),
            event.get("output_index"),
            event.get("content_index"),
            event.get("summary_index"),
        )
        item, part = self._last if where == self._where else (None, None)
        if item is None or part is None or part.done or item.ended is not Ended.OPEN:
            if self._is_late(event, delta, holders(kind)):
                return None
            item = self._text_item(event, kind)
            part = part_of(item, fitting(item, kind), event)
            self._where, self._last = where, (item, part)
            if part.said_first and not repeats(delta, part.initial):
                part.append(part.initial)
        grown = part.append(delta)
        if logprobs := event.get("logprobs"):
            part.add_logprobs(logprobs, grown=grown)
        return item

    def _is_late(self, event: Event, delta: str, types: frozenset[str]) -> bool:
        """Whether a delta of nothing but blanks comes behind the end of its item: it is no reason to fail a response."""
        if delta and not delta.isspace():
            return False
        item = self.register.find(id_of(event.get("item_id")), index_of(event), types)
        late = item is not None and item.ended is not Ended.OPEN
        if late:
            self.tolerated["blanks behind an item's end"] += 1
        return late

    def _text_done(self, event: Event, kind: PartKind) -> Item | None:
        """`output_text.done` and its like, `content_part.done` and its like: the whole text of a part."""
        whole = event.get("part") if "part" in event else event
        text = text_of(whole) if isinstance(whole, dict) else ""
        types = holders(kind)
        item = self.register.find(id_of(event.get("item_id")), index_of(event), types)
        if item is None or item.ended is not Ended.OPEN:
            if not text or item is not None:
                self.tolerated["closed a part that was never opened"] += 1
                return None
            item = self._text_item(event, kind)
        part = part_of(item, fitting(item, kind), event, closing=True)
        if part.reopened and text not in ("", part.joined()):
            part = Part(part.kind, part.upstream_index)
            item.begin_part(part)
        if not part.done:
            self._settle(part, text or part.said_first, strict=False)
        if not part.complete:
            if isinstance(whole, dict):
                add_details(part, whole)
            part.done = bool(
                part.pieces
            )  # an empty one may be told at the part's or the item's end
            part.complete = part.done and ("part" in event or part.kind != "output_text")
        return item

    def _part_done(self, event: Event) -> Item | None:
        if event["type"] == "response.reasoning_summary_part.done":
            return self._text_done(event, "summary_text")
        part = event.get("part")
        return self._text_done(event, part_kind(part)) if isinstance(part, dict) else None

    def _annotation(self, event: Event) -> Item | None:
        """An annotation may follow its text; behind the end of its part it comes too late to be shown."""
        item = self.register.find(id_of(event.get("item_id")), index_of(event), MESSAGE)
        if item is None or item.ended is Ended.OPEN:
            item = self._text_item(event, "output_text")
            part = part_of(item, "output_text", event, closing=True)
            if not part.complete:
                if (annotation := event.get("annotation")) is not None:
                    part.annotate(annotation)
                return item
        self.tolerated["annotation of a part that is closed"] += 1
        return None

    def _text_item(self, event: Event, kind: PartKind) -> Item:
        """The message or reasoning item of a text event; one that was never announced is opened."""
        types = holders(kind)
        item_id, index = id_of(event.get("item_id")), index_of(event)
        item = self.register.find(item_id, index, types)
        if item is None:
            self.tolerated["text of an item that was never opened"] += 1
            return self.register.add(
                "reasoning" if types is REASONING else "message", item_id, index
            )
        if item.ended is not Ended.OPEN or item.type not in ("message", "reasoning"):
            raise ProtocolFault("The upstream sent text for an item that cannot take any.")
        return item

    def _read_parts(self, item: Item, payload: dict[str, Any]) -> None:
        """Fold the parts of a whole item; one that is done says nothing new."""
        lists = {"message": ("content",), "reasoning": ("summary", "content")}.get(item.type, ())
        for key in lists:
            finished = parts_in(payload.get(key))
            for part, whole in pairs(item, finished, summary=key == "summary"):
                if not part.done:
                    self._settle(part, text_of(whole), strict=False)
                if not part.complete:
                    add_details(part, whole)

    # ---- calls ------------------------------------------------------------------------------

    def _call_delta(self, event: Event) -> Item | None:
        delta = event.get("delta")
        if not isinstance(delta, str):
            _refuse(delta)
            return None
        if self._is_late(event, delta, CALLS):
            return None
        item = self._call(event)
        if item.text.done and is_json(item.text.joined()):
            self.tolerated["arguments after their end"] += 1
        elif item.text.size:
            item.text.append(delta)
        else:
            self._first_arguments(item, delta)
        return item

    def _first_arguments(self, item: Item, delta: str) -> None:
        """Hold an empty object that comes first: vLLM's parsers send one, and then the arguments as well."""
        if delta.strip() == "{}" and not item.held:
            item.held = delta
            return
        if item.held and delta.lstrip().startswith("{"):
            self.tolerated["empty object before the arguments"] += 1
            item.held = ""
        begun = item.held
        if item.initial and not repeats(delta, item.initial) and not is_json(item.initial):
            begun = item.initial
        item.text.append(begun + delta)
        item.held = ""

    def _call_done(self, event: Event) -> Item | None:
        item_id, index = id_of(event.get("item_id")), index_of(event)
        item = self.register.find(item_id, index, CALLS, call_id_of(event))
        if item is not None and item.ended is not Ended.OPEN:
            self.tolerated["closed a call twice"] += 1
            return None
        item = self._call(event)
        self._identify(item, event)
        self._settle(item.text, arguments_of(event) or item.held, strict=True)
        item.held = ""
        item.text.done = True
        return item

    def _call(self, event: Event) -> Item:
        """The call of an arguments event; before any `added` it is one whose name is not known yet."""
        item_id, index = id_of(event.get("item_id")), index_of(event)
        item = self.register.find(item_id, index, CALLS, call_id_of(event))
        if item is None:
            self.tolerated["arguments of a call that was never opened"] += 1
            native = event["type"].startswith("response.custom_tool_call_input")
            item = self.register.add(
                "custom_tool_call" if native else "function_call", item_id, index
            )
        elif item.ended is not Ended.OPEN or not item.is_call:
            raise ProtocolFault("The upstream sent arguments for an item that cannot take any.")
        return item

    def _settle(self, text: Text, whole: str, *, strict: bool) -> None:
        """A whole text after its deltas: nothing said changes nothing, more is the rest, a contradiction loses.

        `strict` is for arguments: what was streamed must then be whole JSON, or nobody knows what the model meant.
        """
        if text.done and is_json(text.joined()):
            self.tolerated["arguments told twice"] += bool(whole) and whole != text.joined()
            return
        if text.settle(whole):
            return
        if strict and not is_json(text.joined()):
            raise ProtocolFault(
                "The upstream finished a call with other arguments than it streamed."
            )
        self.tolerated["finished text differs from the streamed one"] += 1

    # ---- the rest ---------------------------------------------------------------------------

    def _other(self, event: Event) -> Item | None:
        """An event of an item that the upstream runs itself is kept for it; any other unknown one is ignored."""
        item_id, index = id_of(event.get("item_id")), index_of(event)
        item = self.register.find(item_id, index) if item_id or index is not None else None
        if (
            item is None
            or item.ended is not Ended.OPEN
            or item.is_call
            or item.type in ("message", "reasoning")
        ):
            self.tolerated["unknown event"] += 1
            return None
        item.events.append(showable(event))
        return item

    def _ended(self, event: Event) -> None:
        response = event.get("response")
        response = response if isinstance(response, dict) else {}
        output = listed(response.get("output"))
        if not self.items:
            for index, payload in enumerate(output):
                self._item_done({"type": event["type"], "output_index": index, "item": payload})
        usage, details = response.get("usage"), response.get("incomplete_details")
        usage = usage if isinstance(usage, dict) else None
        said = (event["type"].removeprefix("response."), response.get("status"))
        failed = "failed" in said or "cancelled" in said
        if self.items and not failed and not any(item.is_call for item in self.items):
            self._take_calls(output)
        error = response.get("error")
        if failed:
            code, message = error_of(error)
            self.result = RoundResult("failed", usage, code=code, message=message)
        elif "incomplete" in said:
            reason = id_of(details.get("reason")) if isinstance(details, dict) else None
            reason = reason if reason and REASON.fullmatch(reason) else None
            self.result = RoundResult("incomplete", usage, reason=reason or "max_output_tokens")
        elif any(cut_off(item) for item in self.items):
            self.tolerated["completed although a call was cut off"] += 1
            self.result = RoundResult("incomplete", usage, reason="max_output_tokens")
        else:
            self.result = RoundResult("completed", usage)

    def _take_calls(self, output: list[Any]) -> None:
        """SGLang streams what gpt-oss thinks and says, and tells of its calls at the end alone."""
        for payload in output:
            if isinstance(payload, dict) and payload.get("type") in CALLS:
                self.tolerated["call that only the terminal event tells"] += 1
                taken = self.register.knows(id_of(payload.get("id")))
                self._item_done({"item": {**payload, "id": None} if taken else payload})

    def _error_event(self, event: Event) -> None:
        code, message = error_of(event.get("error") or event)
        usage = event.get("usage")
        usage = usage if isinstance(usage, dict) else None
        self.result = RoundResult("failed", usage, code=code, message=message)

    _FOLDS: ClassVar[dict[str, Callable[["Accumulator", Event], Item | None]]] = {
        **dict.fromkeys(CALL_DELTAS, _call_delta),
        "response.function_call_arguments.done": _call_done,
        "response.custom_tool_call_input.done": _call_done,
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.content_part.added": _part_added,
        "response.reasoning_part.added": _part_added,
        "response.reasoning_summary_part.added": _part_added,
        "response.content_part.done": _part_done,
        "response.reasoning_part.done": _part_done,
        "response.reasoning_summary_part.done": _part_done,
        "response.output_text.annotation.added": _annotation,
        "response.completed": _ended,
        "response.done": _ended,
        "response.incomplete": _ended,
        "response.failed": _ended,
        "response.cancelled": _ended,
        "response.error": _error_event,
        "error": _error_event,
    }


def repeats(delta: str, begun: str) -> bool:
    """Whether the first delta says from the start what came with the announcement; else it goes on behind that."""
    return delta.startswith(begun) or begun.startswith(delta)


def said(payload: dict[str, Any]) -> dict[str, Any]:
    """What a finished item says beside its id: the same in an equal repeat, which may leave out what is known."""
    return {key: value for key, value in payload.items() if key != "id" and value not in (None, "")}


def may_end(payload: dict[str, Any], item: Item) -> bool:
    """Whether an open item may have ended as this: what was streamed of it stands in it, and a call is of the same name."""
    if item.is_call:
        name, arguments = payload.get("name"), arguments_of(payload)
        same = not (item.name and name) or name == item.name
        return same and (not arguments or arguments.startswith(item.text.joined()))
    return all(
        begins(
            [part.joined() for part in item.parts if (part.kind == "summary_text") is summary],
            map(text_of, parts_in(payload.get("summary" if summary else "content"))),
        )
        for summary in (True, False)
    )


def begins(streamed: Iterable[str], finished: Iterable[str]) -> bool:
    """Whether a finished text begins with what was streamed, blanks at either end apart; an empty one may."""
    whole = "".join(finished).strip()
    return not whole or whole.startswith("".join(streamed).strip())


def cut_off(item: Item) -> bool:
    """Whether the upstream ended a call as cut off, and it is: nobody may run half of it (contract.md D19)."""
    if not item.is_call or item.ended is not Ended.CUT:
        return False
    return item.type == "custom_tool_call" or not is_json(item.text.joined())


def _refuse(delta: Any) -> None:
    """A delta that is missing says nothing; one that is no text is broken."""
    if delta is not None:
        raise ProtocolFault("The upstream sent a delta that is no text.")
