"""A run: blocks of the upstream that say the same as the one before but for a number and a piece of text.

Most of a stream is such blocks. The first is read and folded like any other; those that follow are compared with its
bytes, and only their text is read. That is a third of the work, and never another result: a machine without runs gives
the very same frames (tests/translator/test_text_run.py). Whatever is not the same bytes ends the run.

In: blocks of the input log. Out: pieces in the accumulator's texts, and whatever their lifecycles show of them. Called by
the machine.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translator.items import Text
from translator.output import Output
from translator.protocol.entries import FRAME, Entry
from translator.protocol.errors import ProtocolFault

KEYS: Final = ("delta", "content", "reasoning_content", "reasoning")
"""Fields that hold the text of a delta, in either dialect. Arguments in the Chat dialect are none: what they mean depends
on what its parser has seen before."""

TEXTS: Final = tuple(re.compile(rb'"%b": ?(?=")' % key.encode()) for key in KEYS)
NUMBER: Final = re.compile(rb'"sequence_number": ?(\d+)')

MAX_MISSES: Final = 8
"""Runs in a row that came to nothing; an upstream whose blocks always differ elsewhere is not compared any more."""


AT_ONCE_BYTES: Final = 64 * 1024
"""Frames of blocks that are folded at once, beyond which no further one is: what is made goes into bounded commits."""


class Form:
    """What a run's blocks have in common: the bytes before, between and after the number and the text."""

    __slots__ = ("_head", "_least", "_middle", "_number_first", "_tail")

    def __init__(self, head: bytes, middle: bytes, tail: bytes, *, number_first: bool) -> None:
        """Without a `middle` there is no number."""
        self._head = head
        self._middle = middle
        self._tail = tail
        self._number_first = number_first
        self._least = len(head) + len(middle) + len(tail)

    @classmethod
    def of(cls, block: bytes, text: str) -> "Form | None":
        """The form of a block that holds this text, and no other one, in a field of its own.

        Inside a JSON string quotes are escaped, so what looks like a field is one.
        """
        found = [key.search(block) for key in TEXTS]
        keys = [one for one in found if one is not None]
        if len(keys) != 1 or keys[0].re.search(block, keys[0].end()):
            return None
        begin = keys[0].end()
        end = _string_end(block, begin)
        if _string(block[begin:end]) != text:
            return None
        numbers = list(NUMBER.finditer(block))
        if not numbers:
            return cls(block[:begin], b"", block[end:], number_first=False)
        first, last = numbers[0].span(1)
        if len(numbers) > 1:
            return None
        if first < begin:
            return cls(block[:first], block[last:begin], block[end:], number_first=True)
        return cls(block[:begin], block[end:first], block[last:], number_first=False)

    def said(self, block: bytes) -> bytes:
        """What stands in the place of the text in a block of this form, as JSON; nothing of any other."""
        head, middle, tail = self._head, self._middle, self._tail
        if len(block) < self._least or not (block.startswith(head) and block.endswith(tail)):
            return b""
        said = block[len(head) : len(block) - len(tail)]
        if middle:
            if self._number_first:
                number, _, said = said.partition(middle)
            else:
                said, _, number = said.rpartition(middle)
            if not number.isdigit() or number.startswith(b"0"):
                return b""
        # With blanks around it, it would not be written as it was read; a line end would cut the block.
        return said if said[:1] == b'"' == said[-1:] else b""


class Growing(NamedTuple):
    """A text of the accumulator, and what shows the client the piece that was added last.

    That is given the piece as JSON where it stands already as it would be written, else nothing.
    """

    text: Text
    show: Callable[[bytes | None], None]


class Run:
    """One text that grows, and the form of the blocks that it grows by."""

    __slots__ = ("_form", "_growing", "fault", "taken")

    def __init__(self, form: Form, growing: Growing) -> None:
        self._form = form
        self._growing = growing
        self.taken = False  # whether any block has followed the first
        self.fault: ProtocolFault | None = None  # what showing the last of them came to

    def take(self, entries: Sequence[Entry], start: int, stop: int, out: Output) -> int:
        """Fold those entries, from `start` up to `stop`, that go on with the run; how many they are.

        It ends behind one that brought a fault, that fills the output, or with which it is enough for one time.
        """
        enough = min(out.limit, out.bytes + AT_ONCE_BYTES)
        of_form, (text, show) = self._form.said, self._growing
        for index in range(start, stop):
            entry = entries[index]
            said = of_form(entry.data) if entry.kind == FRAME else b""
            try:
                piece: Any = orjson.loads(said)
            except orjson.JSONDecodeError:
                piece = None
            # Lone surrogates are no JSON here: the machine's own way puts them together.
            if not isinstance(piece, str):
                stop = index
                break
            # ASCII without escapes is written as it was read, unless half a pair waits for it.
            as_said = said.isascii() and b"\\" not in said and not text.half
            try:
                if text.append(piece):
                    show(said if as_said else None)
            except ProtocolFault as fault:
                self.fault = fault
            if out.bytes > enough or self.fault is not None:
                stop = index + 1
                break
        self.taken = self.taken or stop > start
        return stop - start


def _string_end(block: bytes, begin: int) -> int:
    """Where the JSON string that begins here ends: past the first quote that no backslash takes back."""
    end = begin
    while True:
        end = block.find(b'"', end + 1)
        if end < 0:
            return len(block)
        before = block[begin + 1 : end]
        if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
            return end + 1


def _string(data: bytes) -> str | None:
    """A JSON string; None for what is none, and for lone surrogates, which the machine's own way puts together."""
    try:
        value: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, str) else None
