"""Reading one raw entry of an input log, as XRANGE gives it.

Called by `streams.logs`, and by callers of scripts whose reply brings entries along.
"""

from typing import Any

from translator.protocol.entries import Entry


def entry_of(raw: Any) -> Entry:
    """One raw stream entry of an input log."""
    name, f = raw
    if len(f) == 10:
        return Entry(int(name[:-2]), f[1].decode(), int(f[3]), f[5], int(f[7]), int(f[9]))
    if len(f) == 8:
        return Entry(int(name[:-2]), f[1].decode(), int(f[3]), f[5], int(f[7]))
    return Entry(int(name[:-2]), f[1].decode(), int(f[3]), f[5])
