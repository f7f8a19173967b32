"""What is measured of each subject: the rows of the table.

A row's `lead` is the figure by which subjects are compared with the floor and with a peer.
"""

from dataclasses import dataclass
from typing import Literal

from benchmarks.load import Load, Way

PACED_MS = 20
"""Fifty frames a second, as a fast model on one GPU."""
FRAMES = 200
"""Four seconds at that pace."""

Lead = Literal["rate", "age_p50", "first_p50", "cpu"]


@dataclass(frozen=True, slots=True)
class Row:
    """One load, and which of its figures matters."""

    name: str
    load: Load
    lead: Lead


def paced(streams: int, api: str = "responses", **fields: object) -> Load:
    """So many streams of fifty frames a second."""
    return Load(streams, FRAMES, PACED_MS, api, **fields)  # type: ignore[arg-type]  # way and times alone


ROWS = (
    *(Row(f"paced-{n}", paced(n), "age_p50") for n in (1, 5, 50, 200, 500)),
    Row("burst", Load(20, 2000, 0), "rate"),
    Row("chat", paced(50, "chat"), "age_p50"),
    Row("custom", paced(50, "custom"), "age_p50"),
    Row("follow-1", paced(1, way=Way.FOLLOW), "age_p50"),
    Row("follow-100", paced(100, way=Way.FOLLOW), "age_p50"),
    Row("resume", Load(1, 10_000, 0, way=Way.RESUME, times=15), "rate"),
    Row("first-1", Load(1, 2, PACED_MS, times=25), "first_p50"),
    Row("first-50", Load(50, 2, PACED_MS, times=2), "first_p50"),
    Row("blocking", Load(1, 100, 0, way=Way.BLOCKING, times=25), "first_p50"),
    Row("short", Load(1, 100, 0, times=100), "cpu"),
    Row("medium", Load(1, 2000, 0, times=10), "cpu"),
    Row("long", Load(1, 20_000, 0), "cpu"),
)
BY_NAME = {row.name: row for row in ROWS}
