"""Techniques switched off: what is patched exists, and the frames still come."""

import subprocess
import sys

import pytest

from benchmarks.load import Load
from benchmarks.rows import Row
from benchmarks.session import session

PACED = Row("paced", Load(1, 30, 20), "age_p50")


def test_what_is_switched_off_is_there() -> None:
    """In a process of its own: what is switched off stays off."""
    code = "from benchmarks.without import TECHNIQUES\nfor off in TECHNIQUES.values(): off()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


@pytest.mark.anyio
async def test_without_foresight_a_frame_costs_the_store_more() -> None:
    found = await session([PACED], ["one", "without-foresight"], 1, room=False)
    assert found.notes() == found.faults() == []
    with_it, without = (found.of("paced", name).commands for name in ("one", "without-foresight"))
    assert without > with_it * 1.2
