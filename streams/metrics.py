"""What this process counts and measures, as Prometheus text.

In: `count(name)` wherever something worth counting happens, `histogram(name).observe(x)` where something took a time
worth knowing, `gauge(name, read)` and `counter(name, read)` once by whoever keeps the figure himself. Out: `render()`,
which the api serves at `/metrics`. Called by every package but the pure core, whose observations (the notes of a fold)
the translate worker counts. One registry per process: what a process counts is what a scraper adds up.

Names are written here and nowhere else, without the `respool_` that `render` puts in front; docs/metrics.md explains
them, and a test compares the two. A label's values are few and ours (a kind, a reason, a status): never an id, a tenant
or text of a client. Nothing is done for a frame but to add to a number that somebody brings here once a beat; what is
observed is observed once a flush, a round, a call: below a microsecond each.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

PREFIX: Final = "respool_"

NAMES: Final = {
    # process
    "build_info": "Always 1; the version and the roles of this process are its labels.",
    "process_cpu_seconds_total": "Processor time that this process has used.",
    "process_resident_memory_bytes": "Memory of this process.",
    "process_open_fds": "Open files and sockets of this process.",
    "process_max_fds": "How many it may have open.",
    "event_loop_lag_seconds": "How much later than asked for the event loop came, looked at twice a second.",
    # api
    "requests_total": "HTTP requests answered, by route and status.",
    "responses_created_total": "Responses created, by mode (stream, blocking, background).",
    "responses_joined_total": "Creates that were repeats of one before, by their Idempotency-Key.",
    "responses_refused_total": "Creates refused before a response existed, by status.",
    "requests_refused_total": "Requests of any route that were refused, by whose fault (kind).",
    "readers": "Clients that read a stream now.",
    "first_frame_seconds": "From a streamed create's arrival to its first frame on the way to the client.",
    # ingest
    "rounds_started_total": "Upstream rounds claimed by this process.",
    "rounds_ended_total": "Upstream rounds that ended here, by how they ended.",
    "rounds_stopped_total": "Upstream rounds given up because the log said so, by reason.",
    "rounds_open": "Upstream rounds that run in this process now.",
    "upstream_frames_total": "Blocks that came from upstreams.",
    "upstream_bytes_total": "Bytes that came from upstreams, decoded.",
    "upstream_first_frame_seconds": "From a round's request to the first bytes of its upstream's stream.",
    "append_lag_seconds": "From an upstream frame's arrival to its place in the input log, the oldest of each append.",
    "claims_refused_total": "Claims of a round that the log refused, by reason.",
    # translate
    "translations_open": "Responses whose translator is this process.",
    "translations_acquired_total": "Leases taken, by whether a predecessor had committed.",
    "translations_dropped_total": "Translations given up before their end, by reason.",
    "acquires_refused_total": "Leases that the log refused, by reason.",
    "public_frames_total": "Frames committed to output logs.",
    "frame_lag_seconds": "From an entry of the input log to its public frames being readable, the oldest of each commit.",
    "responses_ended_total": "Responses that reached their terminal frame here, by status.",
    "folds_failed_total": "Responses failed because their fold could not go on, by reason.",
    "translator_notes_total": "Quirks of upstreams that were tolerated, by kind.",
    "commits_foreseen_total": "Commits that went with the append of the frames that led to them.",
    "foresights_failed_total": "Folds begun anew: the log's next entries were not the ones that were folded ahead.",
    "handovers_missed_total": "Hand-overs that did not continue what was known: the log was read.",
    # tools
    "tool_calls_open": "Calls of the gateway's tools that run in this process now.",
    "tool_calls_total": "Calls that ended here, by tool and whether they succeeded.",
    "tool_call_seconds": "How long calls took that ended here.",
    "tool_calls_dropped_total": "Calls given up because the log said so, by reason.",
    "tool_claims_refused_total": "Claims of a call that the log refused, by reason.",
    # sweep
    "sweeps_total": "Looks at responses whose time had come.",
    "sweep_actions_total": "What the sweeper did, by action.",
    # seal
    "responses_sealed_total": "Responses whose logs were packed here.",
    "seals_failed_total": "Sealings given up or put off, by reason; the logs live on.",
    "sealed_log_bytes_total": "Data of the logs that were packed here.",
    "sealed_packed_bytes_total": "What they were packed into.",
    "seals_damaged_total": "Packed logs that could not be read.",
    # streams (see streams/figures.py)
    "leases_held": "Leases of this process, by what they are on (translate, round, tool).",
    "store_round_trips_total": "Pipelines sent to the store, by connection.",
    "store_calls_total": "Calls answered in those pipelines, by connection: calls a pipeline tell how writes group.",
    "store_round_trip_seconds": "From a pipeline's departure to its last reply.",
    "store_pending_bytes": "Bytes of writes that have no reply yet.",
    "script_refusals_total": "Calls that a script refused, by script and reason.",
    "repeats_total": "Calls that the log had carried out before (a reply was lost), by script.",
    "doorbell_rings_total": "Messages heard on channels.",
    "hints_lost_total": "Work hints that could not be written; the sweeper makes them good.",
    # the store's own figures, read when they are asked for (see streams/depths.py)
    "work_waiting": "Work hints that nobody has taken, by kind; the same in every process.",
    "due_responses": "Responses that somebody has to look at again; the same in every process.",
    "due_overdue": "Those whose time came and that no sweeper took; the same in every process.",
}
"""Every figure and what it says."""

FAST: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bounds of what takes milliseconds, up to a lease."""
SLOW: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bounds of what waits for a model or a tool, up to a long prefill."""

BOUNDS: Final = {
    "event_loop_lag_seconds": FAST,
    "first_frame_seconds": SLOW,
    "upstream_first_frame_seconds": SLOW,
    "append_lag_seconds": FAST,
    "frame_lag_seconds": FAST,
    "tool_call_seconds": SLOW,
    "store_round_trip_seconds": FAST,
}
"""The histograms, and the upper bounds of their buckets in seconds."""

LABELS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "build_info": {"roles": (), "version": ()},
    "requests_total": {"route": (), "status": ()},
    "responses_created_total": {"mode": ("stream", "blocking", "background")},
    "responses_refused_total": {"status": ()},
    "requests_refused_total": {
        "kind": (
            "request",
            "key",
            "not_found",
            "too_large",
            "overloaded",
            "upstream",
            "store",
            "other",
        )
    },
    "rounds_ended_total": {
        "how": ("ok", "eof", "reset", "refused", "http", "timeout", "too_large", "lost")
    },
    "rounds_stopped_total": {"reason": ()},
    "claims_refused_total": {"reason": ()},
    "translations_acquired_total": {"how": ("anew", "taken over")},
    "translations_dropped_total": {"reason": ()},
    "acquires_refused_total": {"reason": ()},
    "responses_ended_total": {"status": ("completed", "failed", "incomplete", "cancelled")},
    "folds_failed_total": {"reason": ("Diverged", "EntriesLost")},
    "translator_notes_total": {"kind": ()},
    "tool_calls_total": {"tool": ("web_search", "mcp", "other"), "ok": ("true", "false")},
    "tool_calls_dropped_total": {"reason": ()},
    "tool_claims_refused_total": {"reason": ()},
    "sweep_actions_total": {
        "action": (
            *("drop", "seal", "deadline", "abandoned"),
            *("lost", "offer_round", "tools", "offer_translate"),
        )
    },
    "seals_failed_total": {"reason": ()},
    "leases_held": {"work": ()},
    "store_round_trips_total": {"link": ()},
    "store_calls_total": {"link": ()},
    "script_refusals_total": {"script": (), "reason": ()},
    "repeats_total": {"script": ()},
    "work_waiting": {"kind": ()},
}
"""The labels of a figure, and their values where these are known beforehand: such a counter begins at 0, so that the
first increase is one, and not the birth of a series."""

Labels = tuple[tuple[str, str], ...]
Read = Callable[[], float | None]


class Histogram:
    """How many observations fell where. Whoever observes often keeps the object."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, amount: float) -> None:
        """Add one."""
        self.counts[bisect_left(self.bounds, amount)] += 1
        self.total += amount


_counters: dict[str, dict[Labels, float]] = {}
_reads: dict[str, dict[Labels, Read]] = {}
_histograms: dict[str, Histogram] = {name: Histogram(bounds) for name, bounds in BOUNDS.items()}


def count(name: str, amount: float = 1, **labels: str) -> None:
    """Add to a counter; a name outside the table is a mistake and raises KeyError."""
    series = _counters.get(name)
    if series is None:
        series = _counters[_known(name)] = {}
    key = tuple(sorted(labels.items())) if labels else ()
    series[key] = series.get(key, 0) + amount


def histogram(name: str) -> Histogram:
    """The one of that name; a name without bounds is a mistake and raises KeyError."""
    return _histograms[_known(name)]


def gauge(name: str, read: Read, **labels: str) -> None:
    """Say who knows a momentary figure (None: not now); a later call for the same name and labels takes its place."""
    _reads.setdefault(_known(name), {})[tuple(sorted(labels.items()))] = read


def counter(name: str, read: Read, **labels: str) -> None:
    """The same for a figure that only grows."""
    gauge(name, read, **labels)


def value(name: str, **labels: str) -> float:
    """What a counter stands at, for tests and the debug page; 0 where nothing was counted."""
    return _counters.get(_known(name), {}).get(tuple(sorted(labels.items())), 0)


def render() -> str:
    """All figures in Prometheus' text format. A counter with labels that nobody could know is there once it is used."""
    lines: list[str] = []
    for name in sorted(NAMES.keys() - BOUNDS.keys()):
        counts = name.endswith("_total")
        series: dict[Labels, float | None] = dict(_zeros(name)) if counts else {}
        series |= {labels: read() for labels, read in _reads.get(name, {}).items()}
        series |= _counters.get(name, {})
        known = [(labels, amount) for labels, amount in series.items() if amount is not None]
        if known:
            lines += _head(name, "counter" if counts else "gauge")
            lines += [_line(name, labels, amount) for labels, amount in sorted(known)]
    for name, one in sorted(_histograms.items()):
        lines += [*_head(name, "histogram"), *_buckets(name, one)]
    return "".join(f"{line}\n" for line in lines)


def _zeros(name: str) -> Iterator[tuple[Labels, float]]:
    """The series of a counter that can be told before anything has happened."""
    labels = LABELS.get(name, {})
    for values in itertools.product(*labels.values()):
        yield tuple(sorted(zip(labels, values, strict=True))), 0


def _buckets(name: str, one: Histogram) -> Iterator[str]:
    below = 0
    for bound, amount in zip((*one.bounds, math.inf), one.counts, strict=True):
        below += amount
        text = "+Inf" if bound == math.inf else f"{bound:g}"
        yield _line(f"{name}_bucket", (("le", text),), below)
    yield _line(f"{name}_sum", (), one.total)
    yield _line(f"{name}_count", (), below)


def _known(name: str) -> str:
    if name not in NAMES:
        raise KeyError(f"{name!r} is not in the table of streams/metrics.py")
    return name


def _head(name: str, kind: str) -> list[str]:
    return [f"# HELP {PREFIX}{name} {NAMES[name]}", f"# TYPE {PREFIX}{name} {kind}"]


def _line(name: str, labels: Labels, amount: float) -> str:
    inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{PREFIX}{name}{f'{{{inner}}}' if inner else ''} {_number(amount)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(amount: float) -> str:
    """Whole figures in full: `g` would round a counter past a million."""
    return str(int(amount)) if amount == int(amount) else repr(float(amount))
