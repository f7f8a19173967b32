r"""The incremental decoder of a custom tool's input: `{"input": "…"}` in pieces → the text of `input` in pieces.

A custom tool goes upstream as a function with one string `input`; what comes back are the arguments of that function,
cut anywhere. One scanner serves the stream, the done event and the blocking body, so they cannot disagree
(upstream-quirks.md section 6). It keeps a cursor and at most half an escape, never a copy of the arguments.

States, and what moves between them (blanks are skipped everywhere but inside strings):

    START ── { ──► OPENED ── " ──► KEY ── " ──► COLON ── : ──► VALUE ── " and key is input ──► INPUT ── " ──► AFTER
      │               │             ▲                           │ anything else                              │
      │               │ }           │                           ▼                                            │
      │               ▼             └────────── , ──────────── SKIP ── end of the value ──► AFTER ── } ──► WHOLE
      │            EMPTIED ── { ──► OPENED (once: some parsers emit `{}` first)
      ├── " ──► QUOTED   (one JSON string? told at the end)
      └── else ──► BARE  (text without an envelope, streamed verbatim)

Any other character moves to RAW: no envelope, told at the end, when the arguments as they are become the input. A
character after the input's closing quote cannot take back what was streamed; from there on nothing is emitted.
"""

import json
import re
from enum import Enum, auto
from typing import Final

from translator.escapes import escape
from translator.protocol.json import loads

_BLANKS: Final = " \t\n\r"
_RUN: Final = re.compile(r'[^"\\]+')
_PLAIN: Final = re.compile(r'(?:[^"\\]+|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))+')
"""Text and whole escapes that need no second look: decoded in one go. Nothing follows the repeated group, so it never goes
back. (A possessive `++` says so, but Python before 3.11.3 takes the beginning of a failed alternative for a match.)"""


class State(Enum):
    """Where the scanner is; the drawing stands in the module's docstring."""

    START = auto()
    EMPTIED = auto()
    OPENED = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    INPUT = auto()
    SKIP = auto()
    AFTER = auto()
    WHOLE = auto()
    QUOTED = auto()
    BARE = auto()
    RAW = auto()


class CustomInput:
    """Scans the arguments of one call. Call `feed` with each piece, then `finish` once with the whole arguments."""

    __slots__ = ("_depth", "_emptied", "_held", "_in_string", "_key", "_seen", "fallback", "state")

    def __init__(self) -> None:
        self.state = State.START
        self.fallback = False  # set by finish: there was no envelope, the arguments are the input
        self._held = ""  # half an escape, or the blanks before the first character
        self._key: list[str] = []  # the decoded key so far; cleared when its value begins
        self._depth = 0  # brackets open inside a value that is skipped
        self._in_string = False  # inside a string of a value that is skipped
        self._emptied = False  # the one empty object that may come first has come
        self._seen = False  # a key `input` was met; a second one is ignored

    @property
    def whole(self) -> bool:
        """The envelope was closed: the call's end is certain."""
        return self.state is State.WHOLE

    def feed(self, piece: str) -> str:
        """The decoded text that this piece brings; often empty, never a part of the envelope."""
        if self.state in (State.RAW, State.WHOLE, State.QUOTED):
            return ""
        text, self._held = self._held + piece, ""
        if self.state is State.BARE:
            return text
        out: list[str] = []
        at = 0
        while at < len(text):
            at = self._step(text, at, out)
        return "".join(out)

    def finish(self, arguments: str) -> str:
        """What is still to be shown when no more will come; `arguments` is all that was fed.

        A truncated envelope keeps its decoded text so far; without an envelope the arguments are the input.
        """
        self._held = ""
        if self._seen or self.state is State.BARE:
            return ""
        if self.state is State.QUOTED and (value := _string(arguments)) is not None:
            return value
        if not arguments.strip(_BLANKS):
            return ""
        self.fallback = True
        return arguments

    def _step(self, text: str, at: int, out: list[str]) -> int:
        """Take at least one character of `text` from `at`, or hold the rest; the new position."""
        match self.state:
            case State.INPUT:
                return self._string(text, at, out)
            case State.KEY:
                return self._string(text, at, self._key)
            case State.SKIP:
                return self._skip(text, at)
            case State.START:
                return self._start(text, at, out)
            case State.WHOLE | State.RAW | State.QUOTED:
                return len(text)
            case _:
                return at + 1 if text[at] in _BLANKS else self._structure(at, text[at])

    def _start(self, text: str, at: int, out: list[str]) -> int:
        """The first character decides. Blanks before it are part of the input if there is no envelope."""
        rest = text[at:].lstrip(_BLANKS)
        if not rest:
            self._held = text[at:]
        elif rest[0] == "{":
            self.state = State.OPENED
            return len(text) - len(rest) + 1
        elif rest[0] == '"':
            self.state = State.QUOTED
        else:
            self.state = State.BARE
            out.append(text[at:])
        return len(text)

    def _structure(self, at: int, character: str) -> int:
        match self.state, character:
            case State.EMPTIED, "{":
                self.state = State.OPENED
            case State.OPENED, "}" if not self._emptied and not self._seen:
                self._emptied = True
                self.state = State.EMPTIED
            case State.OPENED, '"':
                self._key.clear()
                self.state = State.KEY
            case State.COLON, ":":
                self.state = State.VALUE
            case State.VALUE, _:
                return self._value(at, character)
            case State.AFTER, ",":
                self.state = State.OPENED
            case State.AFTER, "}":
                self.state = State.WHOLE if self._seen else State.RAW
            case _:
                self._give_up()
        return at + 1

    def _value(self, at: int, character: str) -> int:
        wanted = "".join(self._key) == "input" and not self._seen
        if wanted and character == '"':
            self._seen = True
            self.state = State.INPUT
            return at + 1
        if wanted:
            self.state = State.RAW  # `input` is no string
            return at + 1
        self.state = State.SKIP
        self._depth, self._in_string = 0, False
        return at

    def _give_up(self) -> None:
        """No JSON. What was streamed stays; else the arguments become the input at the end."""
        self.state = State.WHOLE if self._seen else State.RAW

    def _string(self, text: str, at: int, out: list[str]) -> int:
        """Decode inside the string of a key or of the input, up to the end of what is known."""
        while at < len(text):
            if run := _PLAIN.match(text, at):
                out.append(_plain(run[0]))
                at = run.end()
            elif text[at] == '"':
                self.state = State.COLON if self.state is State.KEY else State.AFTER
                return at + 1
            else:
                taken = escape(text, at, out)
                if not taken:
                    self._held = text[at:]
                    return len(text)
                at += taken
        return at

    def _skip(self, text: str, at: int) -> int:
        """Pass over a value that is not the input; strings and depth are tracked, so that no key hides in it."""
        while at < len(text):
            character = text[at]
            if self._in_string:
                at = self._skip_in_string(text, at)
                continue
            if character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]" and self._depth:
                self._depth -= 1
            elif character in ",}" and not self._depth:
                self.state = State.AFTER
                return at
            at += 1
        return at

    def _skip_in_string(self, text: str, at: int) -> int:
        if run := _RUN.match(text, at):
            return run.end()
        if text[at] == '"':
            self._in_string = False
            return at + 1
        if at + 1 == len(text):
            self._held = text[at]  # which character the backslash escapes is not known yet
            return at + 1
        return at + 2


def decode(arguments: str) -> tuple[str, bool]:
    """The input that whole arguments stand for, and whether they had to be taken verbatim."""
    scanner = CustomInput()
    decoded = scanner.feed(arguments)
    decoded += scanner.finish(arguments)
    return decoded, scanner.fallback


def _plain(run: str) -> str:
    return json.loads(f'"{run}"', strict=False) if "\\" in run else run


def _string(arguments: str) -> str | None:
    """The value of arguments that are exactly one JSON string."""
    try:
        value = loads(arguments.encode("utf-8", "replace"))
    except ValueError:
        return None
    return value if isinstance(value, str) else None
