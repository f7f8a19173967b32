"""Reasoning that travels with the client: a text in, an opaque value out, and back.

A client that keeps no state here (`store: false`) asks for `reasoning.encrypted_content` and hands it back with the next
turn; some (Codex) hand back nothing else of a reasoning item. The value is opaque, not secret: it holds what the client
was shown anyway. Made where a reasoning item ends to which its upstream gives no such value, and read by
`translator.history`.

It is not compressed. What zlib makes of a text differs from one build to the other, and whoever folds a log again on
another machine must get the same bytes; nor can a value unpack to a thousand times its size.
"""

import base64
from typing import Final

PREFIX: Final = "respool1."
"""Our values begin so; the number goes up with the form. Whatever begins otherwise is somebody else's."""


def seal(text: str) -> str:
    """An opaque value that carries the text."""
    return PREFIX + base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()


def unseal(value: str) -> str | None:
    """The text in a value of ours; None for any other."""
    if not value.startswith(PREFIX):
        return None
    try:
        return base64.b64decode(value.removeprefix(PREFIX), altchars=b"-_", validate=True).decode()
    except ValueError:
        return None
