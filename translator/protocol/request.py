"""A create request as it crosses the wire: bytes in, a checked `Request` out.

Called by the api for every create (1 in the data's way). Everything that one can say of a request
without knowing its history or its upstream is said here; the rest is `translator.outbound.check`.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """A create request whose shape is right.

    `body` is what the client sent, unknown fields included; `input` is its input as a list of items
    that all have a type (a string becomes one user message). Neither is ever changed.
    """

    body: dict[str, Any]
    input: list[dict[str, Any]]

    @property
    def model(self) -> str:
        """The model's name, which reaches the upstream unchanged."""
        raise NotImplementedError

    @property
    def stream(self) -> bool:
        """Whether the client wants events."""
        raise NotImplementedError

    @property
    def store(self) -> bool:
        """Whether the response may be fetched later."""
        raise NotImplementedError

    @property
    def background(self) -> bool:
        """Whether the create returns before the response has ended."""
        raise NotImplementedError

    @property
    def previous_response_id(self) -> str | None:
        """The response that this one continues."""
        raise NotImplementedError


def parse(raw: bytes) -> Request:
    """Read a request body; raises RequestError naming the field, never its value."""
    raise NotImplementedError
