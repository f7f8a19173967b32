"""The first entry of an input log: a request and its circumstances in, the entry's bytes out.

Called by the api at create. Secrets stay out (they live in a hash of their own until the end), and
every input item gets an id, so that it can be listed and paged through.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from translator.protocol.entries import RequestEntry
from translator.protocol.request import Request
from translator.protocol.upstream import Upstream


def request_entry(
    rid: str,
    tenant: str,
    request: Request,
    history: Sequence[dict[str, Any]],
    upstream: Upstream,
    limits: Mapping[str, int],
) -> bytes:
    """The RequestEntry as JSON. Its `request` has no `input`: that is `input`, with ids."""
    raise NotImplementedError


def input_items(rid: str, request: Request) -> list[dict[str, Any]]:
    """The input items as they are stored, listed and sent upstream: all with an id, no secrets."""
    raise NotImplementedError


def history_of(entry: RequestEntry, output: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What `previous_response_id` stands for: earlier input and output, oldest first."""
    raise NotImplementedError
