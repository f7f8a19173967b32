"""Items that the upstream runs by itself: web and file searches, code, images, MCP servers of its own.

In: an item of the accumulator, with the events that the upstream has told of it. Out: public frames, into the `Output`: what
the upstream says, under an id of ours, and no more than the item's kind may say. Called by `translator.public_items`.
"""

from typing import Any, Final

from translator.chat_parts import said
from translator.items import Ended, Item
from translator.lifecycle import Lifecycle
from translator.output import Output
from translator.upstream_item import listed

IDENTITY: Final = ("call_id", "name", "namespace", "server_label")
"""Besides id and type, what never changes after `output_item.added` (contract.md section 3, rule 5)."""

HOSTED_EVENTS: Final[dict[str, frozenset[str]]] = {
    item_type: frozenset(f"response.{event}" for event in events.split())
    for item_type, events in {
        "web_search_call": "web_search_call.in_progress web_search_call.searching web_search_call.completed",
        "file_search_call": "file_search_call.in_progress file_search_call.searching file_search_call.completed",
        "code_interpreter_call": "code_interpreter_call.in_progress code_interpreter_call.interpreting "
        "code_interpreter_call.completed code_interpreter_call_code.delta code_interpreter_call_code.done",
        "image_generation_call": "image_generation_call.in_progress image_generation_call.generating "
        "image_generation_call.partial_image image_generation_call.completed",
        "mcp_call": "mcp_call.in_progress mcp_call.completed mcp_call.failed "
        "mcp_call_arguments.delta mcp_call_arguments.done",
        "mcp_list_tools": "mcp_list_tools.in_progress mcp_list_tools.completed mcp_list_tools.failed",
    }.items()
}
"""Events of items that the upstream runs by itself; others of them would make strict clients throw (rule 11)."""

HOSTED_TEXTS: Final = {
    "mcp_call": ("arguments", "response.mcp_call_arguments"),
    "code_interpreter_call": ("code", "response.code_interpreter_call_code"),
}
"""What streams in an item that the upstream runs: the item's field, and the family of its events."""

TEXT: Final = "text"
HOSTED_STEPS: Final[dict[str, tuple[str, ...]]] = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "code_interpreter_call": ("in_progress", TEXT, "interpreting", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", TEXT, "completed"),
    "mcp_list_tools": ("in_progress", "completed"),
}
"""What an item that the upstream runs goes through, `failed` in the place of `completed` where there is such an event."""

STANDS_FOR: Final = {"failed": "completed", "partial_image": "generating"}
"""Events that come in the place of a step, or in the course of it."""

HOSTED_RESULTS: Final[dict[str, dict[str, Any]]] = {
    "file_search_call": {"results": None},
    "code_interpreter_call": {"outputs": None},
    "image_generation_call": {"result": None},
    "mcp_call": {"output": None, "error": None},
    "mcp_list_tools": {"tools": []},
}
"""What such an item cannot have when it is announced, and what stands in its place (contract.md section 7)."""

HOSTED_FIELDS: Final = (
    *("delta", "code", "arguments", "partial_image_index", "partial_image_b64"),
    *("size", "quality", "background", "output_format"),
)
"""What those events may say beside their place; other fields of an upstream do not leave."""


class HostedLifecycle(Lifecycle):
    """An item that the upstream runs and tells of by itself: shown as it is, under an id of ours.

    Steps that the upstream leaves out are told when it ends the item: clients wait for them.
    """

    def __init__(
        self, item: Item, index: int, public_id: str, out: Output, *, call_id: str | None = None
    ) -> None:
        super().__init__(item, index, public_id, out)
        self._call_id = call_id  # the public one, where the item has one
        self._sent = 0  # events of the item that were looked at
        self._identity: dict[str, Any] = {}  # what `added` said and nothing later changes
        self._field, self._family = HOSTED_TEXTS.get(item.type, ("", ""))
        self._pieces: list[str] = []  # what was streamed of the field
        self._told = False  # and its end
        self._known = HOSTED_EVENTS.get(item.type, frozenset())
        self._steps = HOSTED_STEPS.get(item.type, ())
        self._reached = 0  # steps that were told, or passed over
        self._made_up: set[str] = set()  # those that the upstream had not told by then
        self._failed = False  # it said so before its text had ended

    def advance(self, *, coalesce: bool = False) -> None:  # noqa: ARG002 (its events carry no joined text)
        """See Lifecycle."""
        for event in self.item.events[self._sent :]:
            if event["type"] == f"{self._family}.delta":
                self._grow(event.get("delta"))
            elif event["type"] == f"{self._family}.done":
                self._tell(event.get(self._field))
            elif event["type"] in self._known:
                self._step(event)
        self._sent = len(self.item.events)
        if self.item.ended is Ended.DONE:
            self.close("completed")

    def _step(self, event: dict[str, Any]) -> None:
        """An event of the upstream's, unless it is the item's end and the text before it has not ended."""
        name = event["type"].rpartition(".")[2]
        if name in self._made_up:
            return
        at = self._steps.index(STANDS_FOR.get(name, name))
        if TEXT in self._steps[self._reached : at] and name in ("completed", "failed"):
            self._failed = name == "failed"
            return
        self._reached = max(self._reached, at + 1)
        self._write(event["type"], {k: event[k] for k in HOSTED_FIELDS if k in event})

    def _tell_steps(self, end: int) -> None:
        """What the upstream has not told of the item's way, up to a step."""
        while self._reached < end:
            step, self._reached = self._steps[self._reached], self._reached + 1
            if step == TEXT:
                self._end_text()
                continue
            self._made_up.add(step)
            failed = f"response.{self.item.type}.failed"
            if step == "completed" and failed in self._known and self._has_failed():
                self._write(failed, {})
            else:
                self._write(f"response.{self.item.type}.{step}", {})

    def _has_failed(self) -> bool:
        told = self.item.payload
        return self._failed or told.get("status") == "failed" or bool(told.get("error"))

    def _write(self, event_type: str, fields: dict[str, Any]) -> None:
        self._out.write(event_type, {**fields, "item_id": self.id, "output_index": self.index})

    def _grow(self, piece: Any) -> None:
        if isinstance(piece, str) and piece and not self._told:
            self._tell_steps(self._steps.index(TEXT))
            self._pieces.append(piece)
            self._write(f"{self._family}.delta", {"delta": piece})

    def _tell(self, whole: Any) -> None:
        """The end of what streams: it says the rest, or the only word, and never takes back."""
        if self._told or not self._family:
            return
        text = "".join(self._pieces)
        if isinstance(whole, str) and whole.startswith(text):
            self._grow(whole[len(text) :])
        self._tell_steps(self._steps.index(TEXT))
        self._told = True
        self._reached = max(self._reached, self._steps.index(TEXT) + 1)
        self._write(f"{self._family}.done", {self._field: "".join(self._pieces)})

    def _end_text(self) -> None:
        whole = self.item.payload.get(self._field)
        if self._pieces or isinstance(whole, str):
            self._tell(whole)

    def close(self, status: str) -> None:
        """See Lifecycle."""
        if self.item.ended is Ended.DONE:
            self._tell_steps(len(self._steps))
        self._end_text()
        self._done(status)

    def snapshot(self, status: str) -> dict[str, Any]:
        """The upstream's item; that it failed is kept. What it was doing is no end."""
        item = {**self.item.payload, "id": self.id, "type": self.item.type, **self._identity}
        if self._call_id is not None:
            item["call_id"] = self._call_id
        if self._told or isinstance(item.get(self._field), str):
            item[self._field] = "".join(self._pieces)
        if status == "in_progress":
            item |= {k: v for k, v in HOSTED_RESULTS.get(self.item.type, {}).items() if k in item}
            self._identity = {key: item[key] for key in IDENTITY if item.get(key)}
        if self.item.type == "mcp_list_tools":
            item = said(**item)
            item["tools"] = [without_nulls(tool) for tool in listed(item.get("tools"))]
        if "status" in item and (status == "in_progress" or item["status"] != "failed"):
            item["status"] = status
        return item


def without_nulls(listed_tool: Any) -> Any:
    """An entry of a list of tools without what is not said: the AI SDK takes no null for it."""
    return said(**listed_tool) if isinstance(listed_tool, dict) else listed_tool
