"""What the client has been shown of one output item, and the frames that are due.

In: an item of the accumulator, which holds everything. Out: public frames, into the `Output`. A lifecycle keeps cursors
only, so a release after waiting and a live stream are the same code: `advance` writes whatever the item has that the
client has not seen. Event families and their order: contract.md section 8. Calls: `translator.function_sse`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from translator.items import TEXT_KEY, Ended, Item, Part, Text
from translator.output import Output
from translator.protocol.sse import DeltaTemplate
from translator.reasoning_seal import seal


class Lifecycle(ABC):
    """The public side of one item. `index` and `id` are given at `output_item.added` and never change.

    `final` is set when the item is closed: the item as it stands in the terminal response, whatever was sent of it.
    """

    def __init__(self, item: Item, index: int, public_id: str, out: Output) -> None:
        self.item = item
        self.index = index
        self.id = public_id
        self.final: dict[str, Any] | None = None
        self._out = out

    def picture(self) -> dict[str, Any]:
        """What the client knows of the item, as plain JSON, its text aside."""
        return {
            "output_index": self.index,
            "id": self.id,
            "type": self.item.type,
            "slot": self.item.slot,
            "closed": self.final is not None,
        }

    @property
    def waits(self) -> bool:
        """Whether the upstream has ended the item, but its end is not shown yet."""
        return self.item.ended is Ended.DONE and self.final is None

    def settle(self) -> None:
        """The item's end has become certain: another item follows, or the round completed."""
        self.close("completed")

    @property
    def ended(self) -> dict[str, Any]:
        """The item as it ended; to be asked for only once it has."""
        if self.final is None:
            raise AssertionError("the item is not closed")
        return self.final

    def announce(self) -> None:
        """Write `output_item.added`; the first frame of every item."""
        self._out.write(
            "response.output_item.added",
            {"output_index": self.index, "item": self.snapshot("in_progress")},
        )

    @abstractmethod
    def advance(self, *, coalesce: bool = False) -> None:
        """Write what is due; with `coalesce` all waiting text of a part goes as one delta."""

    @abstractmethod
    def close(self, status: str) -> None:
        """End the item as completed or incomplete: missing dones, then `output_item.done`."""

    @abstractmethod
    def snapshot(self, status: str) -> dict[str, Any]:
        """The item as it stands."""

    def _done(self, status: str) -> None:
        self.final = self.snapshot(status)
        self._out.write(
            "response.output_item.done", {"output_index": self.index, "item": self.final}
        )


class PartCursor:
    """How much of one part the client has seen."""

    __slots__ = ("annotations", "closed", "delta", "place", "sent")

    def __init__(self, part: Part, place: dict[str, Any]) -> None:
        self.place = place  # the fields that tell where the part is
        self.sent = 0  # pieces written as deltas
        self.annotations = 0  # annotations written
        self.closed = False
        after: dict[str, Any] = {"logprobs": []} if part.kind == "output_text" else {}
        self.delta = DeltaTemplate(_TEXT_EVENTS[part.kind] + ".delta", place, after)


class TextLifecycle(Lifecycle):
    """An item made of parts that open, grow and close; then it closes itself."""

    def __init__(self, item: Item, index: int, public_id: str, out: Output) -> None:
        super().__init__(item, index, public_id, out)
        self._cursors: list[PartCursor] = []
        self._opened = {True: 0, False: 0}  # summary parts, and others, that were announced
        self._open = 0  # parts before this one are closed

    def advance(self, *, coalesce: bool = False) -> None:
        """See Lifecycle. The item's own end waits for what follows.

        An upstream that runs into its limit may end the item as completed, and then the response as incomplete (vLLM;
        contract.md section 6).
        """
        parts, cursors = self.item.parts, self._cursors
        while len(cursors) < len(parts):
            if cursors and (last := parts[len(cursors) - 1]).done:
                self._close_part(last, cursors[-1])  # its annotations cannot follow any more
            self._open_part(parts[len(cursors)])
        for at in range(self._open, len(parts)):
            part, cursor = parts[at], cursors[at]
            self._grow(part, cursor, coalesce=coalesce)
            if part.complete or cursor.closed:
                self._close_part(part, cursor)
                self._open += at == self._open

    def growing(self, text: Text) -> Callable[[bytes | None], None] | None:
        """What shows the next piece of a text of this item, if nothing else would come of it."""
        for part, cursor in zip(self.item.parts, self._cursors, strict=True):
            if part is text and not part.logprobs:
                return partial(_show_last, part, cursor, self._out)
        return None

    def close(self, status: str) -> None:
        """See Lifecycle."""
        self.advance()
        for part, cursor in zip(self.item.parts, self._cursors, strict=True):
            self._close_part(part, cursor)
        self._done(status)

    def _parts(self, status: str) -> list[Part]:
        """The parts that the client has seen; an item is announced without any."""
        return [] if status == "in_progress" else self.item.parts[: len(self._cursors)]

    def _open_part(self, part: Part) -> None:
        summary = part.kind == "summary_text"
        index = self._opened[summary]
        self._opened[summary] += 1
        place = {
            "item_id": self.id,
            "output_index": self.index,
            "summary_index" if summary else "content_index": index,
        }
        self._cursors.append(PartCursor(part, place))
        event = "reasoning_summary_part.added" if summary else "content_part.added"
        self._out.write(f"response.{event}", {**place, "part": empty_part(part)})

    def _grow(self, part: Part, cursor: PartCursor, *, coalesce: bool) -> None:
        pieces, sent = part.pieces, cursor.sent
        cursor.sent = len(pieces)
        if part.logprobs:
            self._grow_with_logprobs(part, cursor, sent)
        elif coalesce and sent < len(pieces):
            self._out.write_delta(cursor.delta, "".join(pieces[sent:]))
        else:
            for at in range(sent, len(pieces)):
                self._out.write_delta(cursor.delta, pieces[at])
        if cursor.annotations < len(part.annotations):
            self._annotate(part, cursor)

    def _grow_with_logprobs(self, part: Part, cursor: PartCursor, sent: int) -> None:
        """Deltas of a text whose upstream tells log probabilities: each piece with its own, never joined."""
        for at in range(sent, len(part.pieces)):
            logprobs = part.logprobs[at] if at < len(part.logprobs) else []
            fields = {**cursor.place, "delta": part.pieces[at], "logprobs": logprobs}
            self._out.write("response.output_text.delta", fields)

    def _annotate(self, part: Part, cursor: PartCursor) -> None:
        for at in range(cursor.annotations, len(part.annotations)):
            fields = {"annotation_index": at, "annotation": part.annotations[at]}
            self._out.write("response.output_text.annotation.added", {**cursor.place, **fields})
        cursor.annotations = len(part.annotations)

    def _close_part(self, part: Part, cursor: PartCursor) -> None:
        if cursor.closed:
            return
        self._grow(part, cursor, coalesce=False)
        cursor.closed = True
        whole = part_object(part)
        key = TEXT_KEY[part.kind]
        fields = {**cursor.place, key: whole[key]}
        if part.kind == "output_text":
            fields["logprobs"] = whole["logprobs"]
        self._out.write(_TEXT_EVENTS[part.kind] + ".done", fields)
        summary = part.kind == "summary_text"
        event = "reasoning_summary_part.done" if summary else "content_part.done"
        self._out.write(f"response.{event}", {**cursor.place, "part": whole})


class MessageLifecycle(TextLifecycle):
    """A message of the assistant."""

    def snapshot(self, status: str) -> dict[str, Any]:
        """See Lifecycle."""
        item = {
            "id": self.id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [part_object(part) for part in self._parts(status)],
        }
        phase = self.item.payload.get("phase")
        return {**item, "phase": phase} if isinstance(phase, str) else item


class ReasoningLifecycle(TextLifecycle):
    """A reasoning item: summaries and text."""

    def __init__(
        self, item: Item, index: int, public_id: str, out: Output, *, sealed: bool
    ) -> None:
        """`sealed`: where the upstream gives no opaque value of its own, the item carries one of ours."""
        super().__init__(item, index, public_id, out)
        self._sealed = sealed

    def snapshot(self, status: str) -> dict[str, Any]:
        """See Lifecycle."""
        parts = self._parts(status)
        texts = [part for part in parts if part.kind != "summary_text"]
        item = {
            "id": self.id,
            "type": "reasoning",
            "status": status,
            "summary": [part_object(part) for part in parts if part.kind == "summary_text"],
            "content": [part_object(part) for part in texts],
        }
        encrypted = self.item.payload.get("encrypted_content")
        if not (isinstance(encrypted, str) and encrypted):
            sealed = self._sealed and bool(texts)
            encrypted = seal("".join(part.joined() for part in texts)) if sealed else None
        return {**item, "encrypted_content": encrypted} if encrypted else item


def _show_last(part: Part, cursor: PartCursor, out: Output, written: bytes | None) -> None:
    cursor.sent += 1
    out.write_delta(cursor.delta, part.pieces[-1], written)


_TEXT_EVENTS: Final = {
    kind: f"response.{event}"
    for kind, event in {
        "output_text": "output_text",
        "refusal": "refusal",
        "reasoning_text": "reasoning_text",
        "summary_text": "reasoning_summary_text",
    }.items()
}


def part_object(part: Part) -> dict[str, Any]:
    """A part with its whole text, as it stands in a done event and in the item."""
    whole: dict[str, Any] = {"type": part.kind, TEXT_KEY[part.kind]: part.joined()}
    if part.kind == "output_text":
        whole["annotations"] = list(part.annotations)
        whole["logprobs"] = [one for piece in part.logprobs for one in piece]
    return whole


def empty_part(part: Part) -> dict[str, Any]:
    """A part as it is announced: no text yet."""
    empty: dict[str, Any] = {"type": part.kind, TEXT_KEY[part.kind]: ""}
    return {**empty, "annotations": [], "logprobs": []} if part.kind == "output_text" else empty
