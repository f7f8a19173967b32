"""Closing a public stream from its own frames: for a response whose fold cannot go on.

In: the events that the client has seen. Out: the events that close what is open, and the output as it ends. Texts are
what the deltas said; a client's call that is open is only listed (contract.md D9, D19). Pure; called by
`workers.translate_end`, when neither accumulator nor lifecycle can be trusted any more.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from translator.items import CALLS, TEXT_KEY, PartKind

Event = dict[str, Any]

BASES: Final[dict[str, str]] = {
    "output_text": "response.output_text",
    "refusal": "response.refusal",
    "reasoning_text": "response.reasoning_text",
    "summary_text": "response.reasoning_summary_text",
}
CALL_FIELD: Final = {"function_call": "arguments", "custom_tool_call": "input"}


@dataclass(slots=True)
class SeenPart:
    """A part as the client has seen it."""

    kind: PartKind
    said: list[str] = field(default_factory=list)
    """The pieces of its text: joined once, as there may be a hundred thousand."""
    annotations: list[Any] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    text_done: bool = False
    done: bool = False

    def whole(self) -> Event:
        """The part as it ends."""
        part: Event = {"type": self.kind, TEXT_KEY[self.kind]: "".join(self.said)}
        if self.kind == "output_text":
            part |= {"annotations": self.annotations, "logprobs": self.logprobs}
        return part


@dataclass(slots=True)
class SeenItem:
    """An item as the client has seen it; `final` once it was closed."""

    added: Event
    parts: list[SeenPart] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """The pieces of a call's arguments or input."""
    told: bool = False
    """Of a call: the client has its whole text."""
    final: Event | None = None

    def part(self, event: Event) -> SeenPart:
        """The part that an event is about."""
        summary = "summary_index" in event
        family = [one for one in self.parts if (one.kind == "summary_text") is summary]
        return family[event["summary_index" if summary else "content_index"]]


class Closing:
    """Reads the events of a stream in order (`see`), then closes it (`close`)."""

    def __init__(self) -> None:
        self._items: list[SeenItem] = []

    def see(self, event: Event) -> None:
        """Take one public event in."""
        kind: str = event["type"]
        if kind == "response.output_item.added":
            self._items.append(SeenItem(event["item"]))
        elif event.get("output_index", len(self._items)) < len(self._items):
            self._of_item(kind, event, self._items[event["output_index"]])

    def close(self) -> tuple[list[Event], list[Event]]:
        """The events that close what is open (without numbers), and the output."""
        events: list[Event] = []
        for index, item in enumerate(self._items):
            if item.final is None:
                events += self._close(index, item)
        return events, [item.final for item in self._items if item.final is not None]

    def _of_item(self, kind: str, event: Event, item: SeenItem) -> None:
        match kind.removeprefix("response.").rsplit(".", 1):
            case ["output_item", "done"]:
                item.final = event["item"]
            case ["content_part" | "reasoning_summary_part", "added"]:
                item.parts.append(SeenPart(event["part"]["type"]))
            case ["content_part" | "reasoning_summary_part", "done"]:
                item.part(event).done = True
            case ["output_text.annotation", "added"]:
                item.part(event).annotations.append(event["annotation"])
            case [
                "function_call_arguments" | "custom_tool_call_input" | "mcp_call_arguments",
                "delta",
            ]:
                item.said.append(event["delta"])
            case ["function_call_arguments" | "custom_tool_call_input", "done"]:
                item.told = True
            case [_, verb] if kind.rpartition(".")[0] in BASES.values():
                part = item.part(event)
                if verb == "delta":
                    part.said.append(event["delta"])
                    part.logprobs += event.get("logprobs", [])
                part.text_done = verb == "done"

    def _close(self, index: int, item: SeenItem) -> list[Event]:
        item_type = item.added["type"]
        events: list[Event] = []
        if item_type in CALLS:
            status = "completed" if item.told else "incomplete"
            item.final = item.added | {"status": status, CALL_FIELD[item_type]: "".join(item.said)}
            if not item.told:
                return []
        else:
            events = self._close_parts(index, item)
            item.final = self._final(item)
        done = {"type": "response.output_item.done", "output_index": index, "item": item.final}
        return [*events, done]

    @staticmethod
    def _close_parts(index: int, item: SeenItem) -> list[Event]:
        events: list[Event] = []
        counts = {True: 0, False: 0}
        for part in item.parts:
            summary = part.kind == "summary_text"
            number, counts[summary] = counts[summary], counts[summary] + 1
            at = "summary_index" if summary else "content_index"
            place = {"item_id": item.added["id"], "output_index": index, at: number}
            whole = part.whole()
            if not part.text_done:
                said = {
                    key: value
                    for key, value in whole.items()
                    if key in (TEXT_KEY[part.kind], "logprobs")
                }
                events.append({"type": f"{BASES[part.kind]}.done", **place, **said})
            if not part.done:
                base = "reasoning_summary_part" if summary else "content_part"
                events.append({"type": f"response.{base}.done", **place, "part": whole})
        return events

    @staticmethod
    def _final(item: SeenItem) -> Event:
        final = dict(item.added)
        if "status" in final:
            final["status"] = "failed" if final["type"] == "web_search_call" else "incomplete"
        if final["type"] == "mcp_call":
            final["arguments"] = "".join(item.said)
        if final["type"] in ("message", "reasoning"):
            final["content"] = [one.whole() for one in item.parts if one.kind != "summary_text"]
        if final["type"] == "reasoning":
            final["summary"] = [one.whole() for one in item.parts if one.kind == "summary_text"]
        return final
