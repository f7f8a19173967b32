"""What the application needs from the process that it runs in.

The composition root (`respool/serve.py`) builds one Context and hands it to `api.app.application`; every handler gets
it from there. The api itself reads no environment and no file.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from api.tenants import Look, Tenants
from streams.store import Store
from translator.protocol.upstream import Upstream


class Upstreams(Protocol):
    """The model servers as the settings name them at this moment (the file is watched: ask for each request)."""

    def resolve(self, model: str) -> Upstream | None:
        """The upstream that serves a model, None if there is none."""
        ...

    def all(self) -> Sequence[Upstream]:
        """Every upstream, in the order of the settings."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """The settings that the api depends on. Seconds are floats; `limits` go into each request entry as they are."""

    limits: Mapping[str, int]
    """`{"max_rounds", "max_attempts", "max_response_bytes"}` (translator.protocol.entries.RequestEntry)."""

    retention_s: float
    """How long a finished stored response is kept."""

    grace_s: float
    """How long an unstored response outlives its last reader."""

    max_run_s: float
    """How long a response may run at most."""

    lease_s: float
    """How long work may be unclaimed before the sweeper looks at it."""

    max_body_bytes: int
    """A request body over it is a 413."""

    max_in_flight: int
    """Answers that this process has open at once: creates until their answer or stream has ended, and resumed streams;
    one more is a 503."""

    max_in_flight_per_tenant: int = 0
    """The same of one tenant; one more is a 429. 0: no bound of its own."""

    max_open: int = 0
    """Responses that have not ended, of all processes together; one more is a 503. 0: no bound."""

    max_open_per_tenant: int = 0
    """The same of one tenant; one more is a 429. 0: no bound."""

    heartbeat_s: float = 15.0
    """Silence on a stream after which `: ping` is sent; proxies cut after 60 s and more."""

    keepalive_s: float = 60.0
    """Time without an event after which a `keepalive` event is sent: only events reset Codex's timer (D13)."""

    allow_anonymous: bool = False
    """Serve everybody although no keys are configured."""

    gateway_tools: Collection[str] = ()
    """What the gateway runs by itself: `web_search` where a provider is set, `mcp`. Others are a 400."""

    cors_origins: Collection[str] = ()
    """Origins whose web pages may ask, or `*`."""

    sse_ids: bool = False
    """Send SSE `id:` lines on every stream, asked for or not (D11)."""

    debug_ui: bool = False
    """Serve the debug page under `/debug`, to every tenant its own responses."""


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that the handlers share."""

    store: Store
    settings: ApiSettings
    upstreams: Upstreams
    ready: Callable[[], list[str]] = list
    """Problems of this process that `/readyz` must show, in words without hosts and keys; none means ready."""
    tenants: Look = Tenants
    """Who may come in, now. Without any key, only loopback is served."""
