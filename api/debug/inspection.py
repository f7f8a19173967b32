"""GET /debug/api/responses/{id}/…: one response, looked at from the inside.

In: an id and a query, for the tenant that the response belongs to; for everybody else it is the same 404 as everywhere.
Out: JSON and raw bytes. Nothing here writes, and what a request kept secret is in neither log.

| path             | gives                                                                                   |
|------------------|-----------------------------------------------------------------------------------------|
| (none)           | what the state says, and what the request asked for                                      |
| `/log`           | entries after `after`: rows (`api.debug.rows`), the gateway's calls, the state           |
| `/entries/{n}`   | the bytes of one entry                                                                  |
| `/frames`        | public frames after `after` as texts                                                    |
| `/frames/{seq}`  | the bytes of one public frame                                                           |
| `/state`         | the machine's state after entry `after`                                                 |
| `/replay`        | both logs held against each other with the code at hand                                 |
| `/export`        | the file that `respool import` reads                                                     |
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.auth import Auth
from api.context import Context
from api.debug.figures import figures
from api.debug.folding import Foldings
from api.debug.rows import row
from api.errors import Json
from api.owned import owned
from api.query import cursor, integer
from streams import recording, transcript
from streams.logs import State
from translator.machine import ForeignLog
from translator.protocol.errors import NotFound, RequestError, RespoolError
from translator.refold import Difference, Identical, compare, refold

LOG_LIMITS: Final = range(1, 2_001)
LOG_LIMIT: Final = 2_000
"""Rows of one answer: some 200 KB, which a browser reads in a few ms."""

WHOLE_AT_ONCE: Final = 1
"""Responses that a process holds whole for the page (replay, export): two logs have 128 MiB by default."""

DIFFERENCE_BYTES: Final = 256 * 1024
"""What is shown of each version of the first frame that differs; the rest is told as a number."""

TEXT_CHARS: Final = 8_000
"""What is shown of each text in the machine's state: its two ends, where something happens. While one scrubs, states are
asked for ten times a second, and a text may have megabytes."""

NO_STORE: Final = {"cache-control": "no-store"}
RAW: Final = {
    **NO_STORE,
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
}
"""Bytes that a model or a client wrote: never to be taken for a document."""


class Inspection:
    """The handlers."""

    def __init__(self, context: Context, auth: Auth) -> None:
        self._logs = context.store.logs
        self._auth = auth
        self._foldings = Foldings(self._logs)
        self._whole = asyncio.Semaphore(WHOLE_AT_ONCE)

    async def summary(self, request: Request) -> Response:
        """What the state says, and what the request asked for."""
        rid, state = await self._owned(request)
        asked = await self._logs.read_request(rid)
        if asked is None:
            raise NotFound.response(rid)
        said, upstream = asked["request"], asked["upstream"]
        return _json(
            {
                "id": rid,
                **figures(state),
                "now": await self._logs.now(),
                "model": said.get("model"),
                "upstream": {"id": upstream["id"], "api": upstream["api"]},
                "tools": [_tool(tool) for tool in said.get("tools") or ()],
                "limits": asked["limits"],
                "previous_response_id": said.get("previous_response_id"),
            }
        )

    async def log(self, request: Request) -> Response:
        """A page of the input log."""
        rid, state = await self._owned(request)
        query = request.query_params
        after = cursor(query.get("after", "0"), "after")
        limit = integer(query, "limit", LOG_LIMIT, LOG_LIMITS)
        count = min(limit, state.last - after)
        entries = await self._logs.read_input(rid, after, count) if count > 0 else []
        folding = self._foldings.of(rid)
        if entries:
            with _told():
                await folding.reach(entries[-1].n)
        reached = entries[-1].n if entries else after
        return _json(
            {
                "rows": [row(entry, folding.frames[entry.n - 1]) for entry in entries],
                "calls": [call.row() for call in folding.calls.values()],
                "state": figures(state) | {"now": await self._logs.now()},
                "more": reached < state.last,
            }
        )

    async def entry(self, request: Request) -> Response:
        """The bytes of one entry."""
        rid, state = await self._owned(request)
        n = cursor(request.path_params["n"], "n")
        entries = await self._logs.read_input(rid, n - 1, 1) if 0 < n <= state.last else []
        if not entries:
            raise NotFound("This response has no such entry.", param="n")
        return _bytes(entries[0].data)

    async def frames(self, request: Request) -> Response:
        """A page of the output log."""
        rid, _ = await self._owned(request)
        query = request.query_params
        # Like a client's cursor, but that nothing seen yet has a number too.
        after = -1 if query.get("after", "-1") == "-1" else cursor(query["after"], "after")
        limit = integer(query, "limit", LOG_LIMIT, LOG_LIMITS)
        page = await self._logs.read_output(rid, after, limit)
        return _json(
            {
                "frames": [frame.data.decode() for frame in page.frames],
                "more": after + len(page.frames) < page.seq,
            }
        )

    async def frame(self, request: Request) -> Response:
        """The bytes of one public frame."""
        rid, state = await self._owned(request)
        seq = cursor(request.path_params["seq"], "seq")
        frames = (await self._logs.read_output(rid, seq - 1, 1)).frames if seq <= state.seq else []
        if not frames:
            raise NotFound("This response has no such frame.", param="seq")
        return _bytes(frames[0].data)

    async def state(self, request: Request) -> Response:
        """The machine's state after an entry."""
        rid, state = await self._owned(request)
        n = cursor(request.query_params.get("after", "0"), "after")
        if not 0 < n <= state.last:
            raise RequestError("'after' is not an entry of this response.", param="after")
        with _told():
            found = await self._foldings.of(rid).state(n)
        return _json({"after": n, "state": shortened(found)})

    async def replay(self, request: Request) -> Response:
        """Whether the code at hand gives what was stored."""
        rid, _ = await self._owned(request)
        async with self._whole:
            held = await recording.read(self._logs, rid)
            stored = [frame.data for frame in held.frames]
            # In a thread: a long log takes longer than any stream may wait.
            with _told():
                found = await asyncio.to_thread(
                    lambda: compare(refold(rid, held.entries), stored, whole=held.state.done)
                )
        return _json(_verdict(found) | {"done": held.state.done})

    async def export(self, request: Request) -> Response:
        """The response as one file."""
        rid, _ = await self._owned(request)
        async with self._whole:
            held = await recording.read(self._logs, rid)
        name = f'attachment; filename="{rid}.respool"'
        headers = RAW | {"content-disposition": name}
        lines = transcript.lines_of(held)
        return StreamingResponse(lines, media_type="application/octet-stream", headers=headers)

    async def _owned(self, request: Request) -> tuple[str, State]:
        tenant, rid = self._auth.tenant(request), request.path_params["response_id"]
        return rid, await owned(self._logs, tenant, rid)


@contextmanager
def _told() -> Iterator[None]:
    """A log that this code cannot fold is told as what it is: the store is there, and did nothing wrong."""
    try:
        yield
    except ForeignLog as error:
        raise RespoolError(error.message, code="foreign_log") from error


def _json(content: Any) -> Response:
    return Json(content, headers=NO_STORE)


def _bytes(content: bytes) -> Response:
    return Response(content, media_type="application/octet-stream", headers=RAW)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """What a declared tool is called."""
    return {"type": tool.get("type"), "name": tool.get("name") or tool.get("server_label")}


def _verdict(found: Identical | Difference) -> dict[str, Any]:
    """What a comparison came to. Of a difference both versions, as text."""
    if isinstance(found, Identical):
        return {"identical": True, "entries": found.entries, "frames": found.frames}
    return {
        "identical": False,
        "entry": found.entry.n,
        "seq": found.seq,
        "round": found.round,
        "stored": _version(found.stored),
        "refolded": _version(found.refolded),
    }


def _version(data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    return {"size": len(data), "text": data[:DIFFERENCE_BYTES].decode("utf-8", "replace")}


def shortened(value: Any) -> Any:
    """JSON whose long texts have only their ends, and say how much is left out between."""
    match value:
        case str() if len(value) > TEXT_CHARS:
            head, tail = value[: TEXT_CHARS // 4], value[-TEXT_CHARS * 3 // 4 :]
            return f"{head}\n⋯ {len(value) - TEXT_CHARS:,} characters left out ⋯\n{tail}"
        case dict():
            return {key: shortened(inner) for key, inner in value.items()}
        case list():
            return [shortened(inner) for inner in value]
        case _:
            return value
