"""`respool ls`: the responses that the store holds, newest first.

In: the settings, and which are wanted. Out: a table, or with --json a line for each. Called by `respool.cli`.
"""

from typing import Any, Final

from rich.console import RenderableType

from respool.inspection.evidence import open_store
from respool.inspection.screen import Screen, bar, count, moment, short, size, span, status, table
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
    columns, model = fitting(screen.width)
    rows = table(*columns, right=RIGHT)
    for one in found.responses:
        screen.data(summary(one))
        cells = cells_of(one, now, model)
        rows.add_row(*(cells[column] for column in columns))
    if found.responses:
        screen.say(rows)
    else:
        screen.say("no responses")
    if not found.whole:
        screen.say(f"only {count(found.walked, 'response')} were looked at: the store holds more")
    return 0


WIDE: Final = (
    *("ID", "STATUS", "MODEL", "TENANT", "CREATED", "TOOK", "ROUNDS", "ENTRIES", "FRAMES", "SIZE"),
)
MEDIUM: Final = ("ID", "STATUS", "MODEL", "CREATED", "TOOK", "FRAMES")
NARROW: Final = ("ID", "STATUS", "MODEL", "TOOK", "FRAMES")
RIGHT: Final = ("TOOK", "ROUNDS", "ENTRIES", "FRAMES", "SIZE")

FIXED: Final = {MEDIUM: 94, NARROW: 73}
"""What the columns beside the model take, an id among them: half an id is none."""

SHORTEST_MODEL: Final = 7


def fitting(width: int | None) -> tuple[tuple[str, ...], int | None]:
    """The columns that a terminal has room for, and how much of a model's name."""
    if width is None or width >= 150:
        return WIDE, None
    columns = MEDIUM if width >= FIXED[MEDIUM] + SHORTEST_MODEL else NARROW
    return columns, max(SHORTEST_MODEL, width - FIXED[columns])


def cells_of(one: Recent, now: int, model: int | None) -> dict[str, RenderableType]:
    """A row, by its columns."""
    state = one.state
    known = state.ended or not state.done
    return {
        "ID": one.rid,
        "STATUS": status(state.status),
        "MODEL": one.model if model is None else short(one.model, model),
        "TENANT": state.tenant,
        "CREATED": moment(state.created),
        "TOOK": span((state.ended or now) - state.created) if known else "",
        "ROUNDS": str(state.round),
        "ENTRIES": f"{state.last:,}",
        "FRAMES": f"{state.seq + 1:,}",
        "SIZE": size(state.in_bytes + state.out_bytes),
    }


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
        "took_ms": state.took_ms,
        "rounds": state.round,
        "entries": state.last,
        "frames": state.seq + 1,
        "in_bytes": state.in_bytes,
        "out_bytes": state.out_bytes,
        "done": state.done,
        "sealed": state.sealed,
    }
