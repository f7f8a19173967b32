"""What an upstream says about itself, made fit for a client: no address, no key.

In: an error message of an upstream. Out: the same sentence without URLs, host names with ports, addresses and
anything that looks like a key. Called by ingest (HTTP errors) and by the machine (errors inside a stream).
"""

import re
from typing import Final

MAX_MESSAGE_CHARS: Final = 2_000
"""An upstream's message is a sentence, not a page; longer ones are cut."""

_SECRETS: Final = (
    re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>)\]}]+", re.IGNORECASE),
    re.compile(r"\b(?:bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"\b(?:sk|pk|key|token|api[-_]?key)[-_][\w-]{8,}", re.IGNORECASE),
    re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"),
    re.compile(r"\[[0-9a-f:]*:[0-9a-f:]*\](?::\d+)?", re.IGNORECASE),
    re.compile(r"\b(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*:\d{2,5}\b", re.IGNORECASE),
    re.compile(
        r"\b(?:[a-z0-9-]+\.)+(?:internal|local|svc|cluster|lan|corp|test|example|com|net|org|io|ai|dev|cloud|app|co|eu)\b",
        re.IGNORECASE,
    ),
)


def cleaned(message: str) -> str:
    """The message without addresses and keys, at most MAX_MESSAGE_CHARS long."""
    text = message[: 2 * MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()
    for pattern in _SECRETS:
        text = pattern.sub("[removed]", text)
    return text[:MAX_MESSAGE_CHARS].strip()  # after the patterns: half a key is still one
