"""Routes for machines that watch over this one: /healthz, /readyz, /metrics. They need no key and tell no secrets.

`/healthz` says that the process answers; `/readyz` that it can serve, which is what a load balancer asks: the store
answers and the process knows of no problem of its own.
"""

from collections.abc import Callable
from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from api.errors import Json
from streams import figures, metrics
from streams.depths import Depths
from streams.store import Store
from translator.protocol.errors import StoreError

STORE_TIMEOUT_S: Final = 2.0
"""How long the store may take to answer; load balancers ask every few seconds and wait no longer."""


class Health:
    """The handlers."""

    def __init__(self, store: Store, ready: Callable[[], list[str]]) -> None:
        self._store = store
        self._ready = ready
        self._depths = Depths(store)
        figures.show(store)

    async def healthz(self, _request: Request) -> Response:
        """The process answers."""
        return Json({"status": "ok"})

    async def readyz(self, _request: Request) -> Response:
        """200 when requests can be served, else 503 and why not."""
        problems = self._ready()
        try:
            with anyio.fail_after(STORE_TIMEOUT_S):
                await self._store.logs.now()
        except TimeoutError:
            problems = [*problems, "the store does not answer in time"]
        except StoreError:
            problems = [*problems, "the store cannot be reached"]
        if problems:
            return Json({"status": "not ready", "problems": problems}, status_code=503)
        return Json({"status": "ready"})

    async def metrics(self, _request: Request) -> Response:
        """What this process counted, and how much work waits in the store, as Prometheus text."""
        await self._depths.look()
        return PlainTextResponse(
            metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )
