import re
from pathlib import Path

import pytest

from streams import figures, metrics


def test_counters_add_up_by_label_and_are_rendered_with_their_help():
    before = metrics.value("rounds_ended_total", how="eof")
    metrics.count("rounds_ended_total", how="eof")
    metrics.count("rounds_ended_total", 2, how="eof")
    assert metrics.value("rounds_ended_total", how="eof") == before + 3
    assert metrics.value("rounds_ended_total", how="none such") == 0
    text = metrics.render()
    assert "# TYPE respool_rounds_ended_total counter\n" in text
    assert f'\nrespool_rounds_ended_total{{how="eof"}} {before + 3:.0f}\n' in text


def test_large_figures_are_written_in_full():
    metrics.count("upstream_bytes_total", 123_456_789_012)
    figure = next(
        line for line in metrics.render().splitlines() if line.startswith("respool_upstream_bytes")
    )
    assert int(figure.split(" ")[1]) >= 123_456_789_012


def test_a_gauge_is_read_when_it_is_rendered_and_the_last_one_stands():
    metrics.gauge("writer_pending_bytes", lambda: 1)
    level = [7.5]
    metrics.gauge("writer_pending_bytes", lambda: level[0])
    assert "\nrespool_writer_pending_bytes 7.5\n" in metrics.render()
    level[0] = 8
    assert "\nrespool_writer_pending_bytes 8\n" in metrics.render()
    assert "# TYPE respool_writer_pending_bytes gauge" in metrics.render()


def test_a_name_that_is_not_in_the_table_is_a_mistake():
    for use in (
        lambda: metrics.count("no_such_total"),
        lambda: metrics.gauge("no_such", lambda: 0),
        lambda: metrics.value("no_such_total"),
    ):
        with pytest.raises(KeyError, match="not in the table"):
            use()


def test_label_values_cannot_break_a_line():
    metrics.count("requests_total", route='a"b\\c\nd', status="200")
    assert '{route="a\\"b\\\\c\\nd",status="200"} 1' in metrics.render()


def test_every_name_in_the_table_is_used_and_every_used_one_is_in_it():
    root = Path(__file__).parents[2]
    packages = ("streams", "ingest", "workers", "api", "respool")
    text = "".join(
        path.read_text() for package in packages for path in (root / package).rglob("*.py")
    )
    used = set(re.findall(r'metrics\.(?:count|gauge)\(\s*"(\w+)"', text))
    assert used == set(metrics.NAMES)


async def test_the_figures_of_a_store_are_shown(store):
    figures.show(store)
    text = metrics.render()
    for name in ("writer_pending_bytes", "writer_pipelines", "writer_calls", "hints_lost"):
        assert f"\nrespool_{name} " in text
    assert "\nrespool_doorbell_rings 0\n" in text
