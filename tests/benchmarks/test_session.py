"""The smallest of each kind of row, on the upstream alone and through a real gateway."""

import math

import pytest

from benchmarks.__main__ import asked
from benchmarks.load import Load, Way
from benchmarks.rows import Row
from benchmarks.session import session
from benchmarks.table import table

FEW = 5
ROWS = (
    Row("stream", Load(1, FEW, 1), "age_p50"),
    Row("custom", Load(1, FEW, 0, "custom"), "rate"),
    Row("chat", Load(1, FEW, 0, "chat"), "rate"),
    Row("follow", Load(3, 20, 5, way=Way.FOLLOW), "age_p50"),
    Row("resume", Load(1, FEW, 0, way=Way.RESUME), "rate"),
    Row("blocking", Load(1, FEW, 0, way=Way.BLOCKING), "first_p50"),
)


@pytest.mark.anyio
async def test_every_kind_of_row_brings_all_its_frames_and_what_they_cost():
    found = await session(ROWS, ["upstream", "one"], 1, room=False)
    assert found.faults() == []
    assert found.subjects("follow") == ["one"]
    for row in ROWS:
        for subject in found.subjects(row.name):
            [run] = found.runs[row.name, subject]
            assert run.figures.frames == row.load.frames * row.load.streams
            assert found.of(row.name, subject).cpu > 0
            assert not math.isnan(found.of(row.name, subject).first_p50)
    assert found.of("stream", "one").commands > 0
    assert found.of("follow", "one").reads >= 0
    assert "follow" in table(found)


def test_a_short_run_can_be_asked_for():
    given = asked(["--rows", "burst", "memory", "--subjects", "one", "--runs", "1"])
    assert (given.rows, given.subjects, given.peers, given.runs) == (
        ["burst", "memory"],
        ["one"],
        [],
        1,
    )


def test_a_row_that_is_none_is_refused():
    with pytest.raises(SystemExit):
        asked(["--rows", "nothing"])
