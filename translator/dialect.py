"""Which dialect an upstream speaks: the parser of its answers, chosen once, by the upstream's own setting.

In: what the request entry says of the upstream, and the tools. Out: a dialect for one attempt. The client's wish (stream
or not) has no say in it. Called by the machine at each attempt.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from translator.chat import ChatDialect
from translator.toolmap import ToolMap
from translator.upstream_event import Event, ResponsesDialect


class Dialect(Protocol):
    """Turns the blocks of one attempt into events of the Responses API, in order."""

    def events(self, block: bytes) -> Iterable[Event]:
        """The events of the next block. Raises ProtocolFault."""
        ...

    def end(self) -> Iterable[Event]:
        """The events that the end of the body stands for where it brought no end of its own."""
        ...

    @property
    def usage(self) -> dict[str, Any] | None:
        """What the upstream reported besides its events; it counts where the round ends without one that tells it."""
        ...


def dialect_of(api: str, tools: ToolMap) -> Dialect:
    """A fresh dialect: `responses`, or `chat`."""
    return ChatDialect(tools.names) if api == "chat" else ResponsesDialect()
