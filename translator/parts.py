"""Which part of an item an upstream's text event is about, and what a whole part tells beside its text.

In: an item and an event, or a finished item's list of parts. Out: the part, found or opened. Indexes are not to be
trusted (upstream-quirks.md section 3): missing is 0, and one that grows with each delta is one part. Called by the
accumulator, which alone writes texts.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from translator.items import Item, Part, PartKind
from translator.protocol.errors import ProtocolFault
from translator.upstream_event import Event
from translator.upstream_item import listed, part_kind, parts_in, text_of


def part_of(item: Item, kind: PartKind, event: Event, *, closing: bool = False) -> Part:
    """The part meant: by its index, else the last open one of its kind (vllm#29947), else a new one.

    An event that is `closing` may mean a part that is done already.
    """
    index = part_index(event, kind)
    last: Part | None = None
    for part in reversed(item.parts):
        if part.kind == kind:
            if part.upstream_index == index and (closing or not part.done):
                return part
            last = last or part
    if last is not None and (closing or not last.done):
        return last
    part = Part(kind, index)
    item.begin_part(part)
    return part


def pairs(
    item: Item, finished: list[dict[str, Any]], *, summary: bool
) -> Iterator[tuple[Part, dict[str, Any]]]:
    """The parts of a finished item beside what was streamed in their position; a part too many is a new one.

    Unless all of them together are what was streamed in fewer, whose indexes were taken for growing ones: then the last
    of these has their details.
    """
    family = [part for part in item.parts if (part.kind == "summary_text") is summary]
    if 0 < len(family) < len(finished):
        streamed, told = [part.joined() for part in family], [*map(text_of, finished)]
        kinds = {kind_of(item, whole, summary=summary) for whole in finished}
        matched = all(whole.startswith(text) for whole, text in zip(told, streamed, strict=False))
        if len(kinds) == 1 and not matched and "".join(streamed) == "".join(told):
            yield from ((family[-1], {**whole, "text": ""}) for whole in finished)
            return
    for position, whole in enumerate(finished):
        if position < len(family):
            yield family[position], whole
            continue
        part = Part(kind_of(item, whole, summary=summary), position)
        item.begin_part(part)
        yield part, whole


def kind_of(item: Item, whole: dict[str, Any], *, summary: bool) -> PartKind:
    """What a part of a finished item's list is. Raises ProtocolFault for one that it cannot hold."""
    return "summary_text" if summary else fitting(item, part_kind(whole))


def readable(item: Item, payload: dict[str, Any]) -> dict[str, Any]:
    """An item as it was announced, without parts that it cannot hold: nobody has ended it with them."""
    content = []
    for part in parts_in(payload.get("content")):
        with suppress(ProtocolFault):
            kind_of(item, part, summary=False)
            content.append(part)
    return {**payload, "content": content}


def add_details(part: Part, whole: dict[str, Any]) -> None:
    """Annotations and log probabilities that only the whole part tells; none but output texts can show them."""
    if part.kind != "output_text":
        return
    for annotation in listed(whole.get("annotations")):
        part.annotate(annotation)
    logprobs = listed(whole.get("logprobs"))
    if logprobs and not part.logprobs:
        part.logprobs = [logprobs]


def fitting(item: Item, kind: PartKind) -> PartKind:
    """A reasoning item holds reasoning text, whatever its parts are called (vLLM)."""
    if item.type == "reasoning":
        return kind if kind == "summary_text" else "reasoning_text"
    if kind in ("reasoning_text", "summary_text"):
        raise ProtocolFault("The upstream sent reasoning for a message.")
    return kind


def part_index(event: Event, kind: PartKind) -> int:
    """The index that an event gives its part; missing, or no index at all, is 0."""
    index = event.get("summary_index" if kind == "summary_text" else "content_index")
    return index if isinstance(index, int) and not isinstance(index, bool) else 0
