import pytest

from benchmarks.memory import Memory
from benchmarks.targets import TARGETS, judged
from tests.benchmarks.made import results, run

BY_NAME = {target.what: target for target in TARGETS}


def verdict(name, found):
    return BY_NAME[name].verdict(found)


def test_a_target_is_met_missed_or_not_measured():
    name = "added p50, 50 streams"
    assert verdict(name, results(paced_50__one=[run([2.0])])) == "met"
    assert verdict(name, results(paced_50__one=[run([2.1])])) == "missed"
    assert verdict(name, results(paced_50__split=[run([1.0])])) == "not measured"


def test_what_must_be_more_is_missed_below_its_bound():
    assert verdict("unpaced", results(burst__one=[run(frames=60_000)])) == "met"
    assert verdict("unpaced", results(burst__one=[run(frames=59_999)])) == "missed"


@pytest.mark.parametrize(("ours", "expected"), [(1500, "met"), (1400, "missed")])
def test_the_peer_is_measured_in_the_same_session(ours, expected):
    name = "unpaced, against LiteLLM"
    both = results(burst__one=[run(frames=ours)], burst__litellm=[run(frames=100)])
    assert verdict(name, both) == expected
    assert verdict(name, results(burst__one=[run(frames=ours)])) == "not measured"


def test_one_lost_frame_in_any_run_misses():
    name = "frames lost, 200 streams"
    assert verdict(name, results(paced_200__one=[run(), run()])) == "met"
    assert verdict(name, results(paced_200__one=[run(), run(lost=1)])) == "missed"


def test_no_reads_for_many_clients_and_none_for_one_are_the_same():
    name = "reads for 100 clients, one"

    def reads(many, single):
        return results(follow_100__one=[run(reads=many)], follow_1__one=[run(reads=single)])

    assert verdict(name, reads(0.0, 0.0)) == "met"
    assert verdict(name, reads(1.0, 1.0)) == "met"
    assert verdict(name, reads(1.1, 1.0)) == "missed"
    assert verdict(name, reads(0.1, 0.0)) == "missed"


def test_every_target_has_a_line_whether_measured_or_not():
    found = results(paced_50__one=[run([1.5])])
    found.memory = Memory(idle_mb=80.0)
    lines = judged(found).splitlines()
    assert len(lines) == len(TARGETS) + 2
    assert any(
        "added p50, 50 streams" in line and "1.50" in line and " met" in line for line in lines
    )
    assert any("memory, idle" in line and "80.0" in line for line in lines)
    assert sum("not measured" in line for line in lines) == len(TARGETS) - 3
