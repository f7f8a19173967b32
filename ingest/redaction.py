"""Our key and the upstream's address, taken out of what the upstream says about its errors.

In: an upstream; a message of it, or a block of its stream. Out: the same without them. Called by
`ingest.upstream` for HTTP errors, and by `ingest.run` for every block before it enters the log:
the fold, which makes messages of errors inside a stream, knows neither key nor address, and the
log holds no secret. Pure.

Only what stands in an error is touched. A model that writes an address writes it; changing that
would make its text differ from one event to the next.
"""

import re
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from translator.protocol.cleaned import cleaned
from translator.protocol.json import dumps, loads
from translator.protocol.sse import fields
from translator.protocol.upstream import Upstream

REMOVED: Final = "[removed]"

SHORTEST_KEY: Final = 6
"""A shorter key protects nothing, and would be found in half of all words."""

PLACEHOLDER: Final = "\ufffc"
"""Stands for a secret while the rest is cleaned: a bracket would end a URL in the middle."""

UPSTREAMS: Final = 64
"""Upstreams whose patterns are kept compiled: as many as a gateway has, and as editing them brings in a while."""

PORTS: Final = {"http": 80, "https": 443}

_HINT: Final = re.compile(
    rb'"(?:error|incomplete_details)"\s*:(?!\s*null)|:\s*"error"|^event: ?error', re.MULTILINE
)
"""Sign that a block may tell of an error; only then is its JSON read."""

_NAMES: Final = frozenset({"type", "object"})
"""Of an error event itself: what makes it one."""


class Redaction:
    """What must not be told of one upstream."""

    def __init__(self, *secrets: str) -> None:
        found = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        words = "|".join(map(re.escape, found))
        # With the rest of the URL that it stands in: what is cleaned later ends one at a bracket.
        self._secrets = (
            re.compile(f"https?://(?:{words})[^\\s'\"<>)\\]}}]*|{words}", re.IGNORECASE)
            if words
            else None
        )

    @classmethod
    @lru_cache(maxsize=UPSTREAMS)
    def of(cls, upstream: Upstream) -> "Redaction":
        """Its key, its host with the port, and its host alone unless that is one plain word.

        Such a word is no secret, and may well be part of the sentence.
        """
        key = upstream.api_key or ""
        try:
            parts = urlsplit(upstream.base_url)
            host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme)
        except ValueError:  # no usable URL: nobody will be asked
            host, port = "", None
        shown = f"[{host}]" if ":" in host else host
        return cls(
            key if len(key) >= SHORTEST_KEY else "",
            f"{shown}:{port}" if host else "",
            host if "." in host or ":" in host else "",
        )

    def has(self, text: str) -> bool:
        """Whether a secret stands in it."""
        return self._secrets is not None and self._secrets.search(text) is not None

    def message(self, text: str) -> str:
        """A message for a client: without the secrets, and without anything that looks like one."""
        return cleaned(self._sub(text, PLACEHOLDER)).replace(PLACEHOLDER, REMOVED)

    def block(self, block: bytes) -> bytes:
        """A block of a stream: the very same bytes, unless an error in it holds a secret."""
        if self._secrets is None or not may_tell(block):
            return block
        event, data = fields(block)
        try:
            body = loads(data)
        except ValueError:
            body = None
        if isinstance(body, dict):
            mended = self._error_body(body, event)
            if mended == body:
                return block
            told = dumps(mended)
        elif event == "error":
            told = self._sub(data.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
            if told == data:
                return block
        else:
            return block
        if block.lstrip()[:1] == b"{":
            return told
        named = b"" if event is None else b"event: %b\n" % event.encode()
        return named + b"\n".join(b"data: %b" % line for line in told.split(b"\n"))

    def _error_body(self, body: dict[str, Any], event: str | None) -> dict[str, Any]:
        if "error" in (event, body.get("type"), body.get("object")):
            return {
                name: value if name in _NAMES else self._mended(value)
                for name, value in body.items()
            }
        body = self._told(body)
        if isinstance(response := body.get("response"), dict):
            body = {**body, "response": self._told(response)}
        return body

    def _told(self, body: dict[str, Any]) -> dict[str, Any]:
        said = ("error", "incomplete_details")
        return {
            name: self._mended(value) if name in said else value for name, value in body.items()
        }

    def _mended(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._sub(value)
        if isinstance(value, list):
            return [self._mended(inner) for inner in value]
        if isinstance(value, dict):
            return {self._sub(name): self._mended(inner) for name, inner in value.items()}
        return value

    def _sub(self, text: str, by: str = REMOVED) -> str:
        return text if self._secrets is None else self._secrets.sub(by, text)


def may_tell(block: bytes) -> bool:
    """Whether a block may tell of an error. A word that it must have for that is found ten times faster than a pattern."""
    return (b"error" in block or b"incomplete_details" in block) and bool(_HINT.search(block))
