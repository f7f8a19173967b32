"""The public Response object: a request entry in, its 31 keys out.

Called by the machine, which fills in output, usage and status as the log is folded.
"""

from typing import Any

from translator.protocol.entries import RequestEntry


def template(entry: RequestEntry, created_at: int) -> dict[str, Any]:
    """The Response before anything has happened: queued in the background, else in progress."""
    raise NotImplementedError


def usage(reported: object) -> dict[str, Any] | None:
    """What an upstream reported, in the public form; None if it reported nothing usable."""
    raise NotImplementedError


def add_usage(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any] | None:
    """The sum over two rounds; None only if neither reported any."""
    raise NotImplementedError
