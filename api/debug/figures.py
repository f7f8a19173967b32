"""A response's state as the page shows it: how far everybody is, without leases, fences and digests.

In: a state. Out: JSON. Called by `api.debug.recent` and `api.debug.inspection`.
"""

from typing import Any

from streams.logs import State


def figures(state: State) -> dict[str, Any]:
    """Numbers and words; times are ms of the server's clock, 0 where something has not happened."""
    return {
        "status": state.status,
        "created": state.created,
        "ended": state.ended,
        "expires": state.expires,
        "done": state.done,
        "sealed": state.sealed,
        "background": state.background,
        "cancelled": state.cancelled,
        "round": state.round,
        "attempt": state.attempt,
        "entries": state.last,
        "folded": state.cursor,
        "frames": state.seq + 1,
        "in_bytes": state.in_bytes,
        "out_bytes": state.out_bytes,
        "waiting_calls": state.jobs,
        "translators": state.epoch,
    }
