"""`respool ls`: the responses that the store holds, newest first.

In: the settings, and which are wanted. Out: a table, or with --json a line for each. Called by `respool.cli`.
"""

from typing import Any

from respool.evidence import open_store
from respool.screen import Screen, bar, count, moment, size, span, status, table
from respool.settings import Settings
from streams.recent import Recent, recent


async def ls(
    screen: Screen, settings: Settings, *, limit: int, tenant: str | None, wanted: str | None
) -> int:
    """Print them; 0 whatever there is."""
    with bar("looking"):
        async with open_store(settings) as store:
            found = await recent(store, limit=limit, tenant=tenant, status=wanted)
            now = await store.logs.now()
    rows = table(
        *("ID", "STATUS", "MODEL", "TENANT", "CREATED", "TOOK", "ROUNDS", "ENTRIES", "FRAMES"),
        "SIZE",
        right=("TOOK", "ROUNDS", "ENTRIES", "FRAMES", "SIZE"),
    )
    for one in found.responses:
        state = one.state
        screen.data(summary(one))
        rows.add_row(
            one.rid,
            status(state.status),
            one.model,
            state.tenant,
            moment(state.created),
            span((state.ended or now) - state.created) if state.ended or not state.done else "",
            str(state.round),
            f"{state.last:,}",
            f"{state.seq + 1:,}",
            size(state.in_bytes + state.out_bytes),
        )
    if found.responses:
        screen.say(rows)
    else:
        screen.say("no responses")
    if not found.whole:
        screen.say(f"only {count(found.walked, 'response')} were looked at: the store holds more")
    return 0


def summary(one: Recent) -> dict[str, Any]:
    """A line of --json."""
    state = one.state
    return {
        "id": one.rid,
        "status": state.status,
        "model": one.model,
        "tenant": state.tenant,
        "created": state.created,
        "ended": state.ended or None,
        "took_ms": state.ended - state.created if state.ended else None,
        "rounds": state.round,
        "entries": state.last,
        "frames": state.seq + 1,
        "in_bytes": state.in_bytes,
        "out_bytes": state.out_bytes,
        "done": state.done,
        "sealed": state.sealed,
    }
