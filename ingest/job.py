"""What a claimed round asks for: the upstream, the dialect and the exact body.

In: the claim, which brings the round's body and the request entry. Out: a `Job`. Called by `ingest.run`.
"""

from dataclasses import dataclass

import orjson

from streams.scripts.rounds import Claim
from streams.tracing import Trace
from translator.protocol.entries import RequestEntry


@dataclass(slots=True)
class Job:
    """One round to run."""

    upstream_id: str
    api: str
    body: bytes
    trace: Trace | None
    """Where the response stands in a trace."""

    def take_body(self) -> bytes:
        """The body, once: nobody needs it while the upstream answers."""
        body, self.body = self.body, b""
        return body


def job_of(claim: Claim) -> Job:
    """The job that a claim is about."""
    request: RequestEntry = orjson.loads(claim.request)
    upstream = request["upstream"]
    return Job(upstream["id"], upstream["api"], claim.body, Trace.of(request.get("trace")))
