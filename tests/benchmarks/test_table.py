from benchmarks.table import COLUMNS, aligned, ratio, table
from tests.benchmarks.made import results, run


def cells(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_cells_stand_under_one_another():
    lines = aligned([("a", "subject", "1"), ("long name", "b", "1,000")]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "| --------- | ------- | ----: |"


def test_a_subject_is_compared_with_floor_and_peer_by_its_rows_own_figure():
    found = results(
        paced_50__upstream=[run([0.5], wall_s=4.0)],
        paced_50__one=[run([2.0], wall_s=4.2)],
        paced_50__litellm=[run([8.0], wall_s=5.0)],
        burst__upstream=[run(frames=1000)],
        burst__one=[run(frames=250)],
    )
    lines = {
        (line[0], line[1]): dict(zip(COLUMNS, line, strict=True)) for line in cells(table(found))
    }
    assert lines["paced-50", "one"]["x floor"] == "4.00"
    assert lines["paced-50", "one"]["x peer"] == "0.25"
    assert lines["paced-50", "one"]["longer"] == "+5 %"
    assert lines["paced-50", "litellm"]["longer"] == "+25 % !"
    assert lines["paced-50", "upstream"]["x floor"] == ""
    assert lines["burst", "one"]["x floor"] == "0.25"
    assert lines["burst", "one"]["x peer"] == ""


def test_a_ratio_to_nothing_is_left_out():
    assert ratio(1.0, float("nan")) == ratio(float("nan"), 1.0) == ratio(1.0, 0.0) == ""
