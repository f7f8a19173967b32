"""The seam for grammars of custom tools: a tool's format in, nothing or a refusal out."""

from typing import Any

from translator.protocol.errors import RequestError


def check(format: dict[str, Any], *, tool: str, at: str) -> None:
    """Refuse a grammar that this gateway cannot enforce; `at` is its place in the request."""
    raise RequestError(
        f"Tool {tool!r}: this gateway does not validate {format['syntax']} grammars yet.", param=at
    )
