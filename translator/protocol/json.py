"""JSON as it crosses our wires: bytes in, values out, and back.

Called for request bodies, for upstream frames and for everything that is written to a log. What
`loads` returns can always be written again by `dumps`: nesting is bounded, numbers are finite and
strings hold no lone surrogates.
"""

import re
from typing import Any

import orjson

Json = Any
"""A JSON value of which nothing is known yet."""

WRITABLE_DEPTH = 254
"""The nesting that orjson writes (it reads 1,024 levels)."""

MAX_DEPTH = 200
"""Nesting that a value from outside may have: what we read is written again inside an envelope of
ours, a body in a log entry, an item in a response in an event.
"""

ESCAPE = re.compile(
    rb"(?:"
    rb"[^\\]{1,65536}"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\(?!u[dD][89a-fA-F][0-9a-fA-F]{2})."
    rb"){1,8192}"
    rb"|\\(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.DOTALL,
)
"""What is to be kept, escape by escape, so that the `u` after an escaped backslash is not taken for one; or half a pair.
Much is kept at once, but not for longer than a ms: nobody else works meanwhile."""

LINE_ENDS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)
"""Legal in JSON strings, but weaker SSE clients end a line there (contract.md section 3)."""


def loads(raw: bytes, *, max_depth: int = WRITABLE_DEPTH) -> Json:
    """Read one JSON value in UTF-8; raises ValueError for anything else.

    Lone surrogate escapes become U+FFFD, one for one (contract.md D16). NaN, numbers that no double
    holds, and nesting deeper than `max_depth` are refused; integers past 64 bits become floats.
    Values that will be written inside others take MAX_DEPTH.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        mended = ESCAPE.sub(replace_lone, raw)
        if mended == raw:
            raise
        value = orjson.loads(mended)
    if raw.count(b"[") + raw.count(b"{") > max_depth:
        refuse_deep(value, max_depth)
    return value


def dumps(value: Json) -> bytes:
    """Write a value as one line of JSON that no client's line splitter cuts."""
    raw = orjson.dumps(value)
    if raw.isascii():
        return raw
    for character, escape in LINE_ENDS:
        if character in raw:
            raw = raw.replace(character, escape)
    return raw


def replace_lone(escape: re.Match[bytes]) -> bytes:
    """An escape as it is, or U+FFFD where it is half a surrogate pair."""
    return b"\\ufffd" if escape["lone"] else escape[0]


def refuse_deep(value: Json, max_depth: int = MAX_DEPTH) -> None:
    """Raise ValueError for a value that is nested deeper; orjson's own limit does the counting."""
    for _ in range(WRITABLE_DEPTH - max_depth):
        value = [value]
    try:
        orjson.dumps(value)
    except TypeError as refused:
        raise ValueError("nested too deeply") from refused
