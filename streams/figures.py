"""The figures of a store, as gauges: how writes group, what waits, what was lost.

In: an open store. Out: gauges in `streams.metrics`. Called once by each role that a process runs;
a process has one store.
"""

from streams import metrics
from streams.store import Store


def show(store: Store) -> None:
    """Have the store's figures rendered with the others."""
    metrics.gauge("writer_pending_bytes", lambda: store.writer.pending_bytes)
    metrics.gauge("writer_pipelines", lambda: store.writer.pipelines)
    metrics.gauge("writer_calls", lambda: store.writer.calls)
    metrics.gauge("doorbell_rings", lambda: store.doorbell.rings)
    metrics.gauge("hints_lost", lambda: store.work.lost_hints)
