import pytest

from benchmarks.soak import slope


def test_the_slope_leaves_out_what_comes_before_the_settling():
    rising = [(n / 60, 80.0 + n) for n in range(30)]
    flat = [(n / 60, 110.0) for n in range(30, 100)]
    assert slope(rising + flat) == pytest.approx(0.0, abs=1e-6)


def test_a_leak_is_seen_in_mb_a_minute():
    assert slope([(n / 60, 80.0 + n / 60) for n in range(120)]) == pytest.approx(1.0)


def test_too_few_samples_say_nothing():
    assert slope([(0.0, 1.0), (1.0, 99.0)]) == 0.0
