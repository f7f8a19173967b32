import math

import pytest

from benchmarks.figures import Figures, Summary, quantile, summary
from tests.benchmarks.made import run


def test_a_quantile_of_nothing_is_not_a_number_and_of_an_even_count_lies_between():
    assert math.isnan(quantile([], 0.5))
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([float(n) for n in range(100)], 0.99) == 99.0
    assert quantile([3.0, 1.0, 2.0], 1.0) == 3.0


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        ([1, 2, 3], []),
        ([1, 3], ["1 frames lost"]),
        ([1, 2, 2, 3], ["1 frames repeated"]),
        ([1, 3, 2], ["1 streams out of order"]),
        ([1, 2, 1], ["1 frames lost", "1 frames repeated", "1 streams out of order"]),
    ],
)
def test_what_must_never_be_is_counted(marks, found):
    figures = Figures(3)
    figures.count(marks)
    assert figures.faults() == found


def test_each_figure_of_a_summary_is_the_median_by_itself():
    runs = [
        run([1.0, 2.0, 3.0], wall_s=2.0, cpu_us=10.0),
        run([5.0], wall_s=1.0, cpu_us=90.0),
        run([4.0], wall_s=4.0, cpu_us=20.0),
    ]
    found = summary(runs)
    assert found.age_p50 == 4.0
    assert found.wall == 2.0
    assert found.rate == 5.0
    assert found.cpu == pytest.approx(20.0)
    assert found.commands == 2.0


def test_what_was_not_measured_is_not_a_number():
    assert math.isnan(summary([]).rate)
    assert math.isnan(Summary().cpu)
    assert math.isnan(summary([run([], frames=10)]).age_p50)
