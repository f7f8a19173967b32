"""Server-sent events, both ways: an upstream's bytes cut into blocks, and our own frames written.

In: the body of an upstream's answer in any chunks. Out: blocks, each the raw lines of one event with LF line ends and
without the blank line that closed it. Called by ingest (cutting, step 2 of the data's way) and by the machine (reading
a block's fields, writing frames). The rules are those of the WHATWG text on event streams and of upstream-quirks.md
section 2: LF, CR and CRLF end a line, nothing else does; one BOM at the start goes; any split of the bytes gives the
same blocks.
"""

import re
from itertools import takewhile
from typing import Any, Final

from translator.protocol.errors import LimitPassed
from translator.protocol.json import dumps, loads

MAX_BLOCK_BYTES: Final = 16 * 1024 * 1024
"""One event of an upstream. The largest seen are whole images in base64, a few MB; past this an endless line would
only fill memory."""

DONE: Final = b"data: [DONE]\n\n"
PING: Final = b": ping\n"
"""The only comment form that every client survives, with ids and without (contract.md D12): no blank line after it."""

BOM: Final = b"\xef\xbb\xbf"
END_TYPES: Final = frozenset(
    f"response.{end}" for end in ("completed", "failed", "incomplete", "cancelled", "done")
)
END_HINT: Final = re.compile(rb"response\.(?:completed|failed|incomplete|cancelled|done)")
"""Cheap sign that a block may be a terminal event; only then is its JSON read to be sure."""


class Blocks:
    """Cuts one upstream body into blocks.

    A body that is JSON instead of a stream (its first byte after blanks is an opening brace) is one block, given by
    `flush`. Blocks without a data field (comments, keep-alives, a lone `retry:`) are dropped, as the standard says.
    """

    def __init__(self, max_block_bytes: int = MAX_BLOCK_BYTES) -> None:
        """`max_block_bytes` bounds one block and so what is held between two calls."""
        self._max = max_block_bytes
        self._held = bytearray()  # what no blank line has closed yet
        self._searched = 0  # bytes of `_held` known to hold no blank line
        self._started = False  # set once the first significant bytes were seen
        self._past_bom = False  # set once one BOM was taken off, or there was none
        self._whole = False  # set at the start if the body is JSON
        self._after_cr = False  # the last chunk ended in CR: a LF that follows belongs to it
        self._over = (
            False  # a block passed the bound: said once the blocks before it were given out
        )

    def feed(self, chunk: bytes) -> list[bytes]:
        """The blocks that this chunk completes. Raises LimitPassed past the bound, after the blocks before it."""
        self._refuse_over()
        self._held += self._with_lf(chunk)
        if not self._started and not self._start():
            return []
        blocks = [] if self._whole else self._cut()
        fitting = list(takewhile(self._fits, blocks))
        self._over = len(fitting) < len(blocks) or len(self._held) > self._max
        events = [block for block in fitting if has_data(block)]
        if not events:
            self._refuse_over()
        return events

    def flush(self) -> list[bytes]:
        """What the end of the body completes: a last block that is whole although no blank line follows."""
        self._refuse_over()
        rest = bytes(self._held).strip(None if self._whole else b"\n")
        self._held.clear()
        return [rest] if rest and (self._whole or has_data(rest)) and _is_whole(rest) else []

    def _fits(self, block: bytes) -> bool:
        return len(block) <= self._max

    def _refuse_over(self) -> None:
        if self._over:
            raise LimitPassed(f"An event of the upstream is larger than {self._max} bytes.")

    def _with_lf(self, chunk: bytes) -> bytes:
        """The chunk with LF line ends. A CR ends its line at once; a LF right after it, here or in the next chunk, goes."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _start(self) -> bool:
        """Take the BOM off and see whether the body is JSON; False while too little of it is there."""
        if not self._past_bom:
            if len(self._held) < len(BOM) and BOM.startswith(bytes(self._held)):
                return False
            if self._held.startswith(BOM):
                del self._held[: len(BOM)]
            self._past_bom = True
        first = self._held.lstrip()[:1]
        if not first:
            return False
        self._started = True
        self._whole = first == b"{"
        return True

    def _cut(self) -> list[bytes]:
        held = self._held
        end = held.rfind(b"\n\n", max(0, self._searched - 1))
        if end < 0:
            self._searched = len(held)
            return []
        blocks = [block.strip(b"\n") for block in bytes(held[:end]).split(b"\n\n")]
        del held[: end + 2]
        self._searched = 0
        return blocks


def has_data(block: bytes) -> bool:
    """Whether a block is an event: it has a data field, and that says something."""
    if b"\ndata: {" in block or block.startswith(b"data: {"):  # as nearly all have it
        return True
    return (block.startswith(b"data:") or b"\ndata:" in block) and bool(fields(block)[1].strip())


def fields(block: bytes) -> tuple[str | None, bytes]:
    """The event name (None if not said) and the joined data of a block; a block that is JSON is all data."""
    end = block.find(b"\n")
    if end < 0 and block.startswith(b"data: "):
        return None, block[6:]
    if (
        block.startswith(b"event: ")
        and block.startswith(b"data: ", end + 1)
        and block.find(b"\n", end + 1) < 0
    ):
        return block[7:end].decode("utf-8", "replace"), block[end + 7 :]
    if block.lstrip()[:1] == b"{":
        return None, block
    return _fields(block)


def _fields(block: bytes) -> tuple[str | None, bytes]:
    """The rare forms: several data lines, other fields between, no blank after the colon."""
    event: str | None = None
    data: list[bytes] = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
    return event, b"\n".join(data)


def may_end(blocks: bytes) -> bool:
    """Whether one of these blocks may be the last: a cheap look, which `is_end` makes sure of."""
    return b"[DONE]" in blocks or END_HINT.search(blocks) is not None


def is_end(block: bytes) -> bool:
    """Whether an upstream has nothing more to say after this block: `[DONE]`, or a terminal Responses event."""
    if not may_end(block):
        return False
    if b"[DONE]" in block and fields(block)[1].strip() == b"[DONE]":
        return True
    event, data = fields(block)
    try:
        body = loads(data)
    except ValueError:
        return False
    if not isinstance(body, dict) or "choices" in body:  # no event line ends a chat stream
        return False
    return (body.get("type") or event) in END_TYPES


def frame(event_type: str, payload: dict[str, Any]) -> bytes:
    """One public frame as it is stored and sent (contract.md section 3); `payload` begins with its own `type`."""
    return b"event: %b\ndata: %b\n\n" % (event_type.encode(), dumps(payload))


class DeltaTemplate:
    """The frame of a delta but for its number and its text: made once a part, written a thousand times."""

    __slots__ = ("_head", "_middle", "_tail")

    def __init__(self, event_type: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        """`before` and `after` are the fields around `delta`; a frame is the very one that `frame` would give."""
        kind = event_type.encode()
        self._head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (kind, kind)
        self._middle = b',%b,"delta":' % dumps(before)[1:-1]
        self._tail = (b",%b}\n\n" % dumps(after)[1:-1]) if after else b"}\n\n"

    def frame(self, sequence_number: int, delta: str, written: bytes | None = None) -> bytes:
        """The frame of one delta; `written` is what `dumps` makes of it, where that is known."""
        return b"%b%d%b%b%b" % (
            self._head,
            sequence_number,
            self._middle,
            dumps(delta) if written is None else written,
            self._tail,
        )


def with_id(public_frame: bytes, sequence_number: int, retry_ms: int | None = None) -> bytes:
    """A stored frame with its SSE id, and `retry:` where asked for: only ever inside a frame (contract.md D11)."""
    retry = b"" if retry_ms is None else b"retry: %d\n" % retry_ms
    return b"id: %d\n%b%b" % (sequence_number, retry, public_frame)


def _is_whole(block: bytes) -> bool:
    """Whether the data of a block without its blank line is complete: `[DONE]` or a whole JSON value."""
    data = fields(block)[1].strip()
    if data == b"[DONE]":
        return True
    try:
        loads(data)
    except ValueError:
        return False
    return True
