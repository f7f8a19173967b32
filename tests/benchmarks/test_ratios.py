import math

import pytest

from benchmarks.ratios import RATIOS, ROWS, STORED, compared, measured, step_us, stored, write
from benchmarks.rows import BY_NAME
from tests.benchmarks.made import results, run

BY_RATIO = {ratio.name: ratio for ratio in RATIOS}


def test_what_is_within_its_margin_is_as_before():
    fewer = BY_RATIO["paced_commands"]
    assert fewer.outcome(1.09, 1.0) == "as before"
    assert fewer.outcome(1.11, 1.0) == "WORSE"
    assert fewer.outcome(0.5, 1.0) == "better"


def test_of_a_rate_less_is_worse():
    more = BY_RATIO["burst_rate_to_floor"]
    assert more.outcome(0.5, 1.0) == "WORSE"
    assert more.outcome(2.0, 1.0) == "better"


def test_what_is_not_there_is_said_and_is_no_fault():
    ratio = BY_RATIO["paced_commands"]
    assert ratio.outcome(math.nan, 1.0) == "not measured"
    assert ratio.outcome(1.0, None) == "not stored"


def test_ratios_are_of_the_floor_or_of_a_step_and_counts_are_plain():
    found = measured(
        results(
            paced_1__upstream=[run([0.5])],
            paced_1__one=[run([2.0])],
            paced_50__one=[run(cpu_us=60.0)],
            burst__upstream=[run(frames=100)],
            burst__one=[run(frames=25)],
        ),
        step=2.0,
    )
    assert found["single_added_p50_to_floor"] == 4.0
    assert found["paced_processor_to_step"] == pytest.approx(30.0)
    assert found["paced_commands"] == 2.0
    assert found["burst_rate_to_floor"] == 0.25
    assert math.isnan(found["resume_rate_to_floor"])


def test_what_was_written_is_read_again_and_the_rest_stays(tmp_path):
    path = tmp_path / "ratios.toml"
    write({"paced_commands": 2.0, "paced_bytes": 600.0}, path)
    write({"paced_commands": 3.0, "paced_bytes": math.nan}, path)
    assert stored(path) == {"paced_commands": 3.0, "paced_bytes": 600.0}


def test_those_that_are_worse_are_named():
    now = {ratio.name: 1.0 for ratio in RATIOS}
    text, worse = compared(now, {**now, "paced_commands": 0.5})
    assert worse == ["paced_commands"]
    assert sum("WORSE" in line for line in text.splitlines()) == 1


def test_every_ratio_is_stored_and_its_row_is_run():
    assert set(stored(STORED)) == set(BY_RATIO)
    assert set(ROWS) <= set(BY_NAME)


def test_a_step_takes_some_time():
    assert 0 < step_us() < 1000
