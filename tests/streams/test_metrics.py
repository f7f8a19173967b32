import ast
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

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
    metrics.gauge("store_pending_bytes", lambda: 1)
    level = [7.5]
    metrics.gauge("store_pending_bytes", lambda: level[0])
    assert "\nrespool_store_pending_bytes 7.5\n" in metrics.render()
    level[0] = 8
    assert "\nrespool_store_pending_bytes 8\n" in metrics.render()
    assert "# TYPE respool_store_pending_bytes gauge" in metrics.render()


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


def figures_used():
    """Every use of a figure in the code: its name, and the labels that are given."""
    root = Path(__file__).parents[2]
    packages = ("streams", "ingest", "workers", "api", "respool")
    for path in sorted(path for name in packages for path in (root / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner, kind = node.func.value, node.func.attr
            kinds = ("count", "counter", "gauge", "histogram")
            if isinstance(owner, ast.Name) and owner.id == "metrics" and kind in kinds:
                yield path, kind, node.args[0], {word.arg for word in node.keywords}


def test_every_name_in_the_table_is_used_and_every_used_one_is_in_it():
    used = {arg.value for _, _, arg, _ in figures_used() if isinstance(arg, ast.Constant)}
    looked_up = {"due_responses", "due_overdue"}  # by a loop in streams/depths.py
    assert used | looked_up == set(metrics.NAMES)


def test_labels_are_the_declared_ones_and_a_names_end_says_what_it_is():
    for path, kind, arg, labels in figures_used():
        name = getattr(arg, "value", "due_responses")
        assert labels == set(metrics.LABELS.get(name, {})), (path, name)
        assert name.endswith("_total") == (kind in ("count", "counter")), (path, name)
        assert (name in metrics.BOUNDS) == (kind == "histogram"), (path, name)


def families():
    """What a real parser reads out of the exposition."""
    return {family.name: family for family in text_string_to_metric_families(metrics.render())}


async def test_prometheus_reads_what_is_rendered_and_each_figure_says_what_it_is(store):
    figures.show(store)
    found = families()
    assert all(family.documentation for family in found.values())
    assert found["respool_store_round_trips"].type == "counter"
    assert found["respool_store_pending_bytes"].type == "gauge"
    assert found["respool_frame_lag_seconds"].type == "histogram"
    assert all(name.startswith(metrics.PREFIX) for name in found)


def test_a_counter_is_there_before_it_counts_so_that_its_first_step_is_seen():
    ended = {s.labels["status"] for s in families()["respool_responses_ended"].samples}
    assert ended >= {"completed", "failed", "incomplete", "cancelled"}
    lost = families()["respool_hints_lost"].samples
    assert [sample.name for sample in lost] == ["respool_hints_lost_total"]


def test_a_histogram_counts_each_observation_below_every_bound_that_holds_it():
    one = metrics.histogram("tool_call_seconds")
    before = list(one.counts), one.total
    try:
        for took in (0.0, 0.005, 0.0051, 301.0):  # a bound belongs to its own bucket
            one.observe(took)
        step = [now - then for now, then in zip(one.counts, before[0], strict=True)]
        assert (step[:2], step[-1], sum(step)) == ([2, 1], 1, 4)
        samples = families()["respool_tool_call_seconds"].samples
        buckets = [s.value for s in samples if s.name.endswith("_bucket")]
        assert buckets == sorted(buckets)
        count = next(s.value for s in samples if s.name.endswith("_count"))
        total = next(s.value for s in samples if s.name.endswith("_sum"))
        assert count == buckets[-1] == sum(before[0]) + 4
        assert total == pytest.approx(before[1] + 301.0101)
    finally:
        one.counts[:], one.total = before


def test_a_figure_that_nobody_knows_now_is_left_out():
    metrics.gauge("due_overdue", lambda: None)
    assert "respool_due_overdue" not in families()


async def test_the_figures_of_a_store_are_shown(store):
    figures.show(store)
    await store.logs.now()
    found = families()
    trips = {s.labels["link"]: s.value for s in found["respool_store_round_trips"].samples}
    assert trips == {"write": 0, "read": 1, "bulk": 0}
    assert found["respool_store_calls"].samples[0].value in (0, 1)
    assert found["respool_doorbell_rings"].samples[0].value == 0
