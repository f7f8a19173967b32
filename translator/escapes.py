r"""One JSON escape, decoded with what is known so far of the text behind it.

In: a text and the place of a backslash. Out: the decoded character, and how many characters were taken; none while more
must be known (half an escape, or a high surrogate whose other half may follow). Bad escapes stay as they are, halves of
a pair that never meet become U+FFFD (upstream-quirks.md section 6). Called by the decoder of custom inputs.
"""

from typing import Final

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_ESCAPES: Final = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_REPLACEMENT: Final = "\ufffd"
_ESCAPE_CHARS: Final = 6  # backslash, u, four digits


def escape(text: str, at: int, out: list[str]) -> int:
    """Decode the escape at `at`; how many characters it took, 0 if more must be known first."""
    rest = text[at : at + 2 * _ESCAPE_CHARS]
    if len(rest) == 1:
        return 0
    if rest[1] != "u":
        out.append(_ESCAPES.get(rest[1], rest[:2]))  # a bad escape: the two characters as they are
        return 2
    unit = _unit(rest)
    if unit is not None:
        return _code_unit(unit, rest[_ESCAPE_CHARS:], out)
    if len(rest) < _ESCAPE_CHARS and _HEX.issuperset(rest[2:]):
        return 0
    out.append(rest[:2])
    return 2


def _code_unit(unit: int, following: str, out: list[str]) -> int:
    if 0xD800 <= unit < 0xDC00:
        return _pair(unit, following, out)
    out.append(_REPLACEMENT if 0xDC00 <= unit <= 0xDFFF else chr(unit))
    return _ESCAPE_CHARS


def _pair(high: int, following: str, out: list[str]) -> int:
    """A high surrogate with what follows it: the pair, U+FFFD alone, or 0 while it may still become a pair."""
    low = _unit(following)
    if low is not None and 0xDC00 <= low <= 0xDFFF:
        out.append(chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)))
        return 2 * _ESCAPE_CHARS
    if len(following) < _ESCAPE_CHARS and _may_become_escape(following):
        return 0
    out.append(_REPLACEMENT)
    return _ESCAPE_CHARS


def _unit(text: str) -> int | None:
    r"""The code unit of a whole `\uXXXX` at the start of a text."""
    digits = text[2:_ESCAPE_CHARS]
    if text[:2] == "\\u" and len(digits) == 4 and _HEX.issuperset(digits):
        return int(digits, 16)
    return None


def _may_become_escape(text: str) -> bool:
    return text[:2] == "\\u"[: len(text)] and _HEX.issuperset(text[2:])
