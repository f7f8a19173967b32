"""The figures of a store: how writes group, what waits, what was lost.

In: an open store. Out: figures in `streams.metrics`. Called once by each role that a process runs, and by the api; a
process has one store.
"""

from functools import partial

from streams import metrics
from streams.store import Store


def show(store: Store) -> None:
    """Have the store's figures rendered with the others."""
    links = {"write": store.writer, "read": store.reads, "bulk": store.bulk}
    for link, writer in links.items():
        metrics.counter("store_round_trips_total", partial(getattr, writer, "pipelines"), link=link)
        metrics.counter("store_calls_total", partial(getattr, writer, "calls"), link=link)
    metrics.gauge(
        "store_pending_bytes", lambda: sum(writer.pending_bytes for writer in links.values())
    )
    metrics.counter("doorbell_rings_total", lambda: store.doorbell.rings)
    metrics.counter("hints_lost_total", lambda: store.work.lost_hints)
