"""What one round has brought so far: items, their parts and their texts, as lists of pieces.

The accumulator writes these objects and nobody else does; what the client was shown is the lifecycle's own business
(`translator.lifecycle`), which only keeps cursors into the pieces here.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

import orjson

PartKind = Literal["output_text", "refusal", "reasoning_text", "summary_text"]

TEXT_KEY: Final[dict[PartKind, str]] = {
    "output_text": "text",
    "refusal": "refusal",
    "reasoning_text": "text",
    "summary_text": "text",
}
"""The field that holds a part's text."""

CALLS: Final = frozenset({"function_call", "custom_tool_call"})
"""Item types whose text is arguments or input."""

OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
"""Item types that answer them."""


class Ended(StrEnum):
    """How the upstream ended an item."""

    OPEN = "open"
    DONE = "done"
    CUT = "incomplete"


class Text:
    """A text that grows by pieces. `pieces` is append-only until the item is closed for good."""

    __slots__ = ("done", "half", "logprobs", "pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0  # characters over all pieces
        self.half = ""  # a high surrogate that waits for its other half in the next delta
        self.logprobs: list[list[Any]] = []  # one list a piece, only where the upstream sends any
        self.done = False  # set by the text's done event or the item's

    def append(self, piece: str) -> bool:
        """Add a delta; False if nothing came of it. Halves of a surrogate pair join over deltas, lone ones are mended."""
        if self.half or not piece.isascii():
            piece = self._paired(piece)
        if not piece:
            return False
        self.pieces.append(piece)
        self.size += len(piece)
        return True

    def finish(self) -> None:
        """No more will come: half a surrogate pair is alone now (contract.md D16)."""
        if self.half:
            self.half = ""
            self.pieces.append("\ufffd")
            self.size += 1

    def settle(self, whole: str) -> bool:
        """The whole text has come: add what it says more. False if it contradicts what is there, which stands."""
        self.finish()
        if not whole:
            return True
        mended = Text()
        mended.append(whole)
        mended.finish()
        whole, have = mended.joined(), self.joined()
        if whole.startswith(have):
            self.append(whole[len(have) :])
            return True
        return False

    def joined(self) -> str:
        """The whole text; the pieces are kept, for cursors point into them."""
        return "".join(self.pieces)

    def _paired(self, piece: str) -> str:
        piece, self.half = self.half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self.half = piece[:-1], piece[-1]
        try:
            piece.encode()
        except UnicodeEncodeError:
            return piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return piece


class Part(Text):
    """A content or summary part. `initial` is text that came with `part.added`; it counts if no delta follows."""

    __slots__ = (
        "_early",
        "_known",
        "annotations",
        "complete",
        "initial",
        "kind",
        "reopened",
        "upstream_index",
    )

    def __init__(self, kind: PartKind, upstream_index: int | None, initial: str = "") -> None:
        super().__init__()
        self.kind: PartKind = kind
        self.upstream_index = upstream_index
        self.initial = initial
        self.annotations: list[Any] = []
        self.reopened = False  # a part was announced in its place once it was done
        self._known: set[bytes] = set()  # the annotations as JSON, to tell repeats
        # Log probabilities of tokens whose text comes with the next piece.
        self._early: list[Any] = []
        # Set by the part's done event or the item's: between the text's end and this, annotations may still be told.
        self.complete = False

    def annotate(self, annotation: Any) -> None:
        """Add an annotation, once."""
        key = orjson.dumps(annotation, option=orjson.OPT_SORT_KEYS)
        if key not in self._known:
            self._known.add(key)
            self.annotations.append(annotation)

    def add_logprobs(self, logprobs: Any, *, grown: bool) -> None:
        """Keep the log probabilities of a delta; only output texts have any to show.

        A token may bring no text of its own, such as half a character: if the delta has not `grown` the part, its log
        probabilities go to the next piece that has some.
        """
        if not isinstance(logprobs, list) or self.kind != "output_text":
            return
        if not grown:
            self._early += logprobs
            return
        self.logprobs.extend([] for _ in range(len(self.pieces) - 1 - len(self.logprobs)))
        self.logprobs.append(self._early + logprobs)
        self._early = []

    @property
    def said_first(self) -> str:
        """Text that came with `part.added` and that no delta has taken the place of."""
        return "" if self.pieces else self.initial


@dataclass(slots=True, eq=False)
class Item:
    """One output item of a round.

    slot: its number in order of appearance; with the round it makes the public id. place: the upstream's output index,
    which orders items behind a boundary. `ids`: every id the upstream ever used for it. `announced_upstream` is set
    once `output_item.added` came. For calls `name` and `call_id` are None until known, `text` holds arguments or input,
    `initial` arguments that came with `added`, `held` an empty object that may be but a parser's false
    start. `payload` is the item as last seen whole (opaque items, extra fields).
    """

    slot: int
    place: int
    type: str
    ids: set[str] = field(default_factory=set)
    announced_upstream: bool = False
    name: str | None = None
    call_id: str | None = None
    namespace: str | None = None
    text: Text = field(default_factory=Text)
    initial: str = ""
    held: str = ""
    parts: list[Part] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)
    ended: Ended = Ended.OPEN
    events: list[dict[str, Any]] = field(default_factory=list)
    """Events of an opaque item that the client has not seen yet."""
    done_payload: dict[str, Any] | None = None
    """The first `output_item.done`, to tell an equal repeat from a contradiction."""

    def begin_part(self, part: Part) -> None:
        """Another part begins: the one before it that has ended is complete, for the client sees it close now."""
        if self.parts and self.parts[-1].done:
            self.parts[-1].complete = True
        self.parts.append(part)

    @property
    def is_call(self) -> bool:
        """A function or custom call, whoever owns it."""
        return self.type in CALLS

    @property
    def unnamed(self) -> bool:
        """A call whose owner cannot be told yet (upstream-quirks.md section 7), or one that the upstream runs."""
        if self.type == "mcp_call":
            return self.ended is Ended.OPEN and not self.payload.get("name")
        return self.is_call and not self.name

    def picture(self) -> dict[str, Any]:
        """The item so far as plain JSON."""
        found: dict[str, Any] = {
            "slot": self.slot,
            "output_index": self.place,
            "type": self.type,
            "ids": sorted(self.ids),
            "ended": self.ended.value,
        }
        if self.is_call:
            named = {"name": self.name, "call_id": self.call_id, "namespace": self.namespace}
            return {**found, **named, "text": self.held + self.text.joined() or self.initial}
        parts = [
            {"kind": part.kind, "done": part.done, "text": part.joined()} for part in self.parts
        ]
        return {**found, "parts": parts}
