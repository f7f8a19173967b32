"""Which tool a model-visible name stands for: a request in, names and kinds out.

The map comes from the request's declarations alone (upstream-quirks.md, rule 2 of section 1); a
name that nobody declared has no entry, and its call is the client's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from translator.protocol.entries import RequestEntry


class ToolKind(StrEnum):
    """Who gets the calls of a tool, and in which shape."""

    FUNCTION = "function"
    CUSTOM = "custom"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `name` and `namespace` are public; `format` is a custom tool's, else None."""

    kind: ToolKind
    name: str
    namespace: str | None = None
    format: dict[str, Any] | None = None


class ToolMap:
    """Model-visible names and the tools behind them."""

    @classmethod
    def of(cls, body: dict[str, Any], items: Iterable[dict[str, Any]] = ()) -> "ToolMap":
        """The map of a request body and its input items (their `additional_tools` declare, too)."""
        raise NotImplementedError

    @classmethod
    def of_entry(cls, entry: RequestEntry) -> "ToolMap":
        """The map of a request entry, its input and its history included."""
        raise NotImplementedError

    def get(self, visible: str) -> Tool | None:
        """The tool behind a model-visible name; None if nobody declared one."""
        raise NotImplementedError

    def visible(self, namespace: str | None, name: str) -> str:
        """The model-visible name of a tool; of one that is not declared, its own."""
        raise NotImplementedError
