"""GET /v1/models: what the upstreams serve, as one list; and one model of it, by its id.

In: the lists of all upstreams, fetched at once. Out: their entries, each with `supports_parallel_tool_calls: true`; a
model that several list appears once, and only where this gateway would send a request for it. An upstream in trouble
is left out as long as another one answers; else its trouble is the answer (502 or 504), without its host or our key.
"""

import asyncio
import logging
from typing import Any, Final

import aiohttp
from starlette.requests import Request
from starlette.responses import Response

from api.auth import Auth
from api.context import Upstreams
from api.errors import Json
from translator.protocol.errors import NotFound, ProtocolFault, UpstreamError
from translator.protocol.json import loads
from translator.protocol.upstream import Upstream

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0
"""For one list. It is a constant of the upstream's; one that needs longer will not be of use soon."""

MAX_LIST_BYTES: Final = 4 * 1024 * 1024
"""A list of ten thousand models takes about 2 MB."""


class Models:
    """The handler."""

    def __init__(self, upstreams: Upstreams, auth: Auth) -> None:
        self._upstreams = upstreams
        self._auth = auth

    async def list(self, request: Request) -> Response:
        """The merged list."""
        self._auth.tenant(request)
        return Json({"object": "list", "data": list((await self._merged()).values())})

    async def retrieve(self, request: Request) -> Response:
        """One entry of it. Raises NotFound."""
        self._auth.tenant(request)
        entry = (await self._merged()).get(request.path_params["model"])
        if entry is None:
            raise NotFound(
                "No upstream of this gateway lists this model.",
                code="model_not_found",
                param="model",
            )
        return Json(entry)

    async def _merged(self) -> dict[str, dict[str, Any]]:
        upstreams = self._upstreams.all()
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"accept": "application/json", "accept-encoding": "identity"},
        ) as session:
            lists = await asyncio.gather(*(fetch(session, upstream) for upstream in upstreams))
        troubles = [found for found in lists if isinstance(found, UpstreamError)]
        if troubles and len(troubles) == len(lists):
            raise troubles[0]
        merged: dict[str, dict[str, Any]] = {}
        for upstream, found in zip(upstreams, lists, strict=True):
            if isinstance(found, UpstreamError):
                log.warning("models of upstream %s left out: %s", upstream.id, found.message)
                continue
            for entry in found:
                served = self._upstreams.resolve(entry["id"])
                if served is not None and served.id == upstream.id:
                    known = {**entry, "supports_parallel_tool_calls": True}
                    merged.setdefault(entry["id"], known)
        return merged


async def fetch(
    session: aiohttp.ClientSession, upstream: Upstream
) -> list[dict[str, Any]] | UpstreamError:
    """The entries that one upstream lists, or its trouble in words that may be shown."""
    key = upstream.api_key
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    try:
        # A redirect would carry our key to a host that nobody configured.
        async with session.get(
            f"{upstream.base_url.rstrip('/')}/models", headers=headers, allow_redirects=False
        ) as reply:
            if reply.status != 200:
                return UpstreamError(f"An upstream answered {reply.status} to the list of models.")
            return entries(await read_bounded(reply.content))
    except TimeoutError:
        return UpstreamError(
            "An upstream was too slow with its list of models.", status=504, code="upstream_timeout"
        )
    except (aiohttp.ClientError, OSError):
        return UpstreamError("An upstream could not be reached for its list of models.")
    except ValueError:
        return ProtocolFault("An upstream answered with something that is no list of models.")


async def read_bounded(content: aiohttp.StreamReader) -> bytes:
    """The whole body; ValueError past MAX_LIST_BYTES."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MAX_LIST_BYTES:
            raise ValueError("too large")
    return bytes(body)


def entries(raw: bytes) -> list[dict[str, Any]]:
    """The entries of a list in OpenAI's form that have an id; ValueError if it is no such list."""
    body = loads(raw)
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list):
        raise ValueError("no list")  # noqa: TRY004 - whatever is not a list of models is one kind of fault
    return [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
