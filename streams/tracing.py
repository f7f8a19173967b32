"""Traces: one span a response, below it one a round and one a call of a tool, whatever processes did the work.

In: the client's `traceparent` at create, then the `Trace` that the request entry carries: the fold never looks at it, so
a traced response has the frames of an untraced one. Out: `Span`s, to whatever sink the process has (`respool.otel` with
the extra, else none: then nothing is minted, stored or sent). Ids of spans are minted where the work begins and times are
the store's clock plus what passed here, so that spans of several processes fit together. Called by api, ingest, workers.

The response's span is emitted by whoever commits its terminal frame, so at most once; the span of a round or a call whose
process dies is lost with it, and the attempt that follows has its own.
"""

import random
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
TRACESTATE: Final = re.compile(r"[\x20-\x7e]{1,512}")
"""What a tracestate must look like to be passed on; the standard asks for 512 characters at least."""
SAMPLED: Final = 1

SpanKind = Literal["server", "client"]


@dataclass(frozen=True, slots=True)
class Trace:
    """A place in a trace: what is done for it becomes a child of `span`."""

    id: str
    """32 hexadecimal digits."""
    span: str
    """16 of them."""
    parent: str
    """The span above this one, or empty."""
    sampled: bool
    state: str = ""
    """The client's `tracestate`, passed on as it came."""

    @property
    def header(self) -> str:
        """As a `traceparent`."""
        return f"00-{self.id}-{self.span}-{int(self.sampled):02x}"

    @property
    def headers(self) -> dict[str, str]:
        """What is sent to a server that takes part."""
        return {"traceparent": self.header} | ({"tracestate": self.state} if self.state else {})

    def child(self) -> Self:
        """A place below this one."""
        return replace(self, span=secrets.token_hex(8), parent=self.span)

    def stored(self) -> dict[str, str]:
        """As the request entry holds it."""
        return {"traceparent": self.header, "parent": self.parent, "tracestate": self.state}

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Self | None:
        """Read what `stored` wrote, if there is something."""
        if not stored or not (found := TRACEPARENT.fullmatch(stored["traceparent"])):
            return None
        sampled = bool(int(found[4], 16) & SAMPLED)
        return cls(found[2], found[3], stored["parent"], sampled, stored["tracestate"])


@dataclass(frozen=True, slots=True)
class Span:
    """Something that is over. Times are ms since 1970 by the store's clock, with fractions."""

    name: str
    kind: SpanKind
    at: Trace
    started: float
    ended: float
    failed: bool
    attributes: dict[str, str | int] = field(default_factory=dict)


class Tracing:
    """What this process does about traces; off until `start`."""

    def __init__(self) -> None:
        self.on = False
        """Whether somebody takes spans; looked at before anything is made for them."""
        self._sink: Callable[[Span], None] | None = None
        self._ratio = 1.0

    def start(self, sink: Callable[[Span], None], *, ratio: float) -> None:
        """Take spans from now on; of requests without a decision of their client's, this share is sampled."""
        self.on, self._sink, self._ratio = True, sink, ratio

    def stop(self) -> None:
        """Take no more."""
        self.on, self._sink = False, None

    def begin(self, traceparent: str | None, tracestate: str | None) -> Trace:
        """The place of a new response: below what the client names, if that is one, else a trace of its own."""
        found = TRACEPARENT.fullmatch((traceparent or "").strip())
        if found is None or not _valid(found):
            sampled = random.random() < self._ratio  # noqa: S311 - a share, no secret
            return Trace(secrets.token_hex(16), secrets.token_hex(8), "", sampled)
        state = (tracestate or "").strip()
        kept = state if TRACESTATE.fullmatch(state) else ""
        sampled = bool(int(found[4], 16) & SAMPLED)
        return Trace(found[2], secrets.token_hex(8), found[3], sampled, kept)

    def emit(self, span: Span) -> None:
        """Give a span to the sink."""
        if self._sink is not None and span.at.sampled:
            self._sink(span)


def _valid(found: re.Match[str]) -> bool:
    """Version ff and ids of zeros are forbidden, and version 00 ends behind the flags."""
    version, trace, span, _, more = found.groups()
    return (
        version != "ff"
        and bool(int(trace, 16) and int(span, 16))
        and not (version == "00" and more)
    )


tracing: Final = Tracing()
"""One per process."""
