"""Spans on their way to an OpenTelemetry collector, over OTLP and HTTP (the extra `otel`).

In: `streams.tracing.Span`s. Out: the SDK's spans with the ids and times that they were given, sent in batches by a
thread of the SDK, which drops what does not fit its queue: a collector that is away costs nobody anything. The SDK's own
OTEL_… variables (resource attributes, certificates, queue sizes) hold. Called by `respool.serve` where an endpoint is set.
"""

import logging
import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from respool import __version__
from respool.unusable import Unusable
from streams.tracing import Span, Trace, tracing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger(__name__)

MISSING: Final = "RESPOOL_OTLP_ENDPOINT needs the extra: pip install 'respool[otel]'"
FLUSH_S: Final = 2.0
"""What the last batch may take when the process ends; within `respool.serve.LAST_S`."""
NS_PER_MS: Final = 1_000_000


class Exporting:
    """The sink of a process: `start`, then `close` once."""

    def __init__(self, provider: "TracerProvider", exporter: "SpanExporter", ids: Any) -> None:
        self._provider = provider
        self._exporter = exporter
        self._ids = ids
        self._tracer = provider.get_tracer("respool", __version__)

    def take(self, span: Span) -> None:
        """Make an SDK span of it. The event loop's thread is the only one that calls this."""
        from opentelemetry import trace as api  # noqa: PLC0415 - an extra; loaded already

        kind = api.SpanKind.SERVER if span.kind == "server" else api.SpanKind.CLIENT
        self._ids.next = span.at
        made = self._tracer.start_span(
            span.name,
            context=parent_of(span.at),
            kind=kind,
            attributes=span.attributes,
            start_time=round(span.started * NS_PER_MS),
        )
        if span.failed:
            made.set_status(api.StatusCode.ERROR)
        made.end(round(span.ended * NS_PER_MS))

    def close(self) -> None:
        """Send what is left, within FLUSH_S; what could not be sent by then is dropped."""
        tracing.stop()
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(FLUSH_S)
        if ending.is_alive():
            self._exporter.shutdown()  # it tries no more, so that its threads end as well
            log.warning("the last spans could not be sent in time")


def parent_of(at: Trace) -> Any:
    """The SDK's context of a span's parent; without one, an empty context."""
    from opentelemetry import context, trace  # noqa: PLC0415 - an extra; loaded already

    if not at.parent:
        return context.Context()
    above = trace.SpanContext(
        int(at.id, 16), int(at.parent, 16), is_remote=True, trace_flags=trace.TraceFlags(1)
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(above), context.Context())


def start(
    endpoint: str, headers: Mapping[str, str], *, ratio: float, roles: Collection[str]
) -> Exporting:
    """Send spans to that collector from now on. Raises Unusable where the extra is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.id_generator import IdGenerator  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415
    except ImportError:
        raise Unusable(MISSING) from None

    class Given(IdGenerator):
        """The ids that a span was given where its work began."""

        next: Trace

        def generate_trace_id(self) -> int:
            return int(self.next.id, 16)

        def generate_span_id(self) -> int:
            return int(self.next.span, 16)

    ids = Given()
    named = {
        "service.name": "respool",
        "service.version": __version__,
        "respool.roles": sorted(roles),
    }
    provider = TracerProvider(
        resource=Resource.create(named),
        sampler=ALWAYS_ON,  # what comes here was sampled already
        id_generator=ids,
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", headers=dict(headers))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    exporting = Exporting(provider, exporter, ids)
    tracing.start(exporting.take, ratio=ratio)
    return exporting
