"""The arguments of one chat call, joined from what its fragments bring.

In: what each fragment brings of them, as a text. Out: what is new in it. Most providers send pieces; some send the
whole so far each time, and some end by sending the whole again (upstream-quirks.md section 4). A piece that begins with
all that came before is taken for the whole so far only where it could not be the next piece of one JSON value, so that
no piece is ever lost for its looks. What streamed stands: an object behind a whole one adds nothing. Called by
`translator.chat_calls`.
"""

import json
import re
from typing import Any, Final

import orjson

from translator.upstream_event import mended
from translator.upstream_item import is_json

LITERALS: Final = ("true", "false", "null")
BARE_CHARS: Final = 16
"""An empty object with any blanks; longer arguments are not compared with it."""
MARKS: Final = re.compile(r'[\\"{}\[\]]')


class ChatArguments:
    """What came so far. `whole` looks at each character once, however often it is asked."""

    __slots__ = (
        "_depth",
        "_in_text",
        "_length",
        "_looked_at",
        "_pieces",
        "_skip",
        "_so_far_each_time",
        "_whole",
    )

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0  # characters
        self._so_far_each_time = False
        self._looked_at = 0  # pieces
        self._whole = False  # as far as was looked
        self._depth = 0  # brackets open behind them
        self._in_text = False  # whether they end within quotes
        self._skip = 0  # characters of the next piece that a backslash has taken

    @property
    def whole(self) -> bool:
        """Whether they are a whole JSON value."""
        if self._looked_at < len(self._pieces):
            for piece in self._pieces[self._looked_at :]:
                self._look_at(piece)
            self._looked_at = len(self._pieces)
            ended = (
                not self._in_text and self._depth == 0 and self._pieces[-1].rstrip()[-1:] in '}]"'
            )
            self._whole = ended and is_json("".join(self._pieces))
        return self._whole

    def _look_at(self, piece: str) -> None:
        start = self._skip
        for mark in MARKS.finditer(piece):
            if mark.start() < start:
                continue
            match mark.group():
                case "\\":
                    start = mark.end() + 1
                case '"':
                    self._in_text = not self._in_text
                case "{" | "[" if not self._in_text:
                    self._depth += 1
                case "}" | "]" if not self._in_text:
                    self._depth -= 1
        self._skip = max(0, start - len(piece))

    @property
    def begun(self) -> bool:
        """Whether anything came."""
        return bool(self._pieces)

    @property
    def bare(self) -> bool:
        """Whether they are an empty object, which may be a parser's false start."""
        return self._length < BARE_CHARS and "".join("".join(self._pieces).split()) == "{}"

    def says(self, piece: str) -> bool:
        """Whether an object behind whole arguments only says them again, or nothing."""
        try:
            value = orjson.loads(piece)
        except orjson.JSONDecodeError:
            return False
        return value == {} or bool(value == orjson.loads("".join(self._pieces)))

    def take(self, piece: str) -> str:
        """What a fragment's piece adds: nothing, if it only says again what is there."""
        begins = piece.lstrip()[:1]
        if begins == "{" and self._pieces:
            piece = self._new_in(piece)
        elif not begins and self.whole:
            return ""  # blanks behind the end
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)
        return piece

    def _new_in(self, piece: str) -> str:
        """What is new in a piece that begins like an object."""
        if self.whole:
            return "" if is_json(piece) and (not self.bare or self.says(piece)) else piece
        if len(piece) < self._length:
            return piece
        have = "".join(self._pieces)
        if piece.startswith(have) and (self._so_far_each_time or not may_begin(have + piece)):
            self._so_far_each_time = True
            return piece[len(have) :]
        return piece


def piece_of(told: Any) -> str:
    """A fragment's `arguments` as a text: an object as its JSON, nothing where none are said."""
    piece = orjson.dumps(mended(told)).decode() if isinstance(told, dict) else told
    return piece if isinstance(piece, str) else ""


def may_begin(text: str) -> bool:
    """Whether some JSON value begins with this text, or is it."""
    # A number may be cut behind its sign, its point or its exponent.
    for ended in (text, f"{text}0"):
        try:
            json.loads(ended, strict=False)
        except json.JSONDecodeError as error:
            rest = text[error.pos :]
            if not rest or error.msg.startswith(("Unterminated", "Invalid \\u")):
                return True
            if any(literal.startswith(rest) for literal in LITERALS):
                return True
        except RecursionError:  # too deep to tell
            return True
        else:
            return True
    return False
