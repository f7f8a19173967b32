"""What this process counts, as Prometheus text.

In: `count(name)` wherever something worth counting happens, `gauge(name, read)` once by whoever
can say how many there are now. Out: `render()`, which the api serves at `/metrics`. Called by every
package but the pure core, whose observations (the notes of a fold) the translate worker counts.
One registry per process: what a process counts is what a scraper adds up.

Names are written here and nowhere else, without the `respool_` that `render` puts in front. A
label's values are few and ours (a kind, a reason, a status): never an id or text of a client.
"""

from collections.abc import Callable
from typing import Final

PREFIX: Final = "respool_"

NAMES: Final = {
    # api
    "requests_total": "HTTP requests answered, by route and status.",
    "responses_created_total": "Responses created, by mode (stream, blocking, background).",
    "responses_joined_total": "Creates that were repeats of one before, by their Idempotency-Key.",
    "responses_refused_total": "Creates refused before a response existed, by status.",
    "readers": "Clients that read a stream now.",
    # ingest
    "rounds_started_total": "Upstream rounds claimed by this process.",
    "rounds_ended_total": "Upstream rounds that ended here, by how they ended.",
    "rounds_stopped_total": "Upstream rounds given up because the log said so, by reason.",
    "rounds_open": "Upstream rounds that run in this process now.",
    "upstream_frames_total": "Blocks that came from upstreams.",
    "upstream_bytes_total": "Bytes that came from upstreams, decoded.",
    "claims_refused_total": "Claims of a round that the log refused, by reason.",
    # translate
    "translations_open": "Responses whose translator is this process.",
    "translations_acquired_total": "Leases taken, by whether a predecessor had committed.",
    "translations_dropped_total": "Translations given up before their end, by reason.",
    "acquires_refused_total": "Leases that the log refused, by reason.",
    "public_frames_total": "Frames committed to output logs.",
    "responses_ended_total": "Responses that reached their terminal frame here, by status.",
    "folds_failed_total": "Responses failed because their fold could not go on, by reason.",
    "translator_notes_total": "Quirks of upstreams that were tolerated, by kind.",
    "commits_foreseen_total": "Commits that went with the append of the frames that led to them.",
    "foresights_failed_total": "Folds begun anew: the log's next entries were not the ones that were folded ahead.",
    "handovers_missed_total": "Hand-overs that did not continue what was known: the log was read.",
    # tools
    "tool_calls_open": "Calls of the gateway's tools that run in this process now.",
    "tool_calls_total": "Calls that ended here, by tool and whether they succeeded.",
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
    "writer_pending_bytes": "Bytes of writes that have no reply yet.",
    "writer_pipelines": "Pipelines sent by the group-commit writer since the start.",
    "repeats_total": "Calls that the log had carried out before (a reply was lost), by script.",
    "writer_calls": "Scripts sent in those pipelines: calls a pipeline tell how writes group.",
    "doorbell_rings": "Messages heard on channels since the start.",
    "hints_lost": "Work hints that could not be written; the sweeper makes them good.",
}
"""Every figure and what it says."""

Labels = tuple[tuple[str, str], ...]

_counters: dict[str, dict[Labels, float]] = {}
_gauges: dict[str, Callable[[], float]] = {}


def count(name: str, amount: float = 1, **labels: str) -> None:
    """Add to a counter; a name outside the table is a mistake and raises KeyError."""
    series = _counters.get(name)
    if series is None:
        series = _counters[_known(name)] = {}
    key = tuple(sorted(labels.items())) if labels else ()
    series[key] = series.get(key, 0) + amount


def gauge(name: str, read: Callable[[], float]) -> None:
    """Say who knows a momentary figure; a later call for the same name takes its place."""
    _gauges[_known(name)] = read


def value(name: str, **labels: str) -> float:
    """What a counter stands at, for tests and the debug page; 0 where nothing was counted."""
    return _counters.get(_known(name), {}).get(tuple(sorted(labels.items())), 0)


def render() -> str:
    """All figures in Prometheus' text format."""
    lines: list[str] = []
    for name, series in sorted(_counters.items()):
        lines += _head(name, "counter")
        lines += [_line(name, labels, amount) for labels, amount in sorted(series.items())]
    for name, read in sorted(_gauges.items()):
        lines += [*_head(name, "gauge"), _line(name, (), read())]
    return "".join(f"{line}\n" for line in lines)


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
