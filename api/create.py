"""POST /v1/responses: step 1 of the data's way.

In: a request body. Out: a Response (JSON), or its events; every refusal before anything exists. What is accepted is
durable before the first byte of the answer: the entry in `due`, the state, the `request` entry and round 1; then the
hints. A client that leaves at once loses nothing.

A foreground stream waits for the upstream's word, at most OPEN_WAIT_S, so that a refusal can be an HTTP status; a
blocking create waits for the end anyway. A response that was refused so is deleted: no client ever saw its id. Repeats that
wait for it as well are refused alike.
"""

import asyncio
import functools
import logging
import re
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from api.admission import SLOT
from api.attendance import attend, leaving
from api.auth import Auth
from api.body import read_body
from api.bounds import (
    ASIDE_BYTES,
    ASIDE_ITEMS,
    COPIES,
    Aside,
    heavier,
    refuse_crowded,
    refuse_heavy,
    refuse_many,
    refuse_twins,
    room,
    too_large,
)
from api.collect import terminal
from api.context import Context
from api.delete import remove
from api.errors import Json, is_gone, public, under_way
from api.history import history
from api.idempotency import Idempotency, idempotency
from api.places import Places, full
from api.query import flag
from api.references import resolved
from api.request_id import RESPONSE_KEY, SCOPE_KEY, named
from api.results import has_run
from api.snapshot import current, response_of
from api.stream import EventStream, Pace
from api.turns import Turns
from api.unstored import ReaderLease
from api.wanted import Wanted
from streams import metrics
from streams.faults import StoreFull
from streams.hub import Reader
from streams.opening import Refusal
from streams.scripts import responses
from streams.scripts.call import Call
from streams.scripts.hints import Place
from streams.scripts.refusals import keep, kept
from streams.scripts.refused import Reason, Refused
from streams.scripts.responses import Created
from streams.tracing import tracing
from translator.outbound import check, upstream_body
from translator.preparation import secrets_of
from translator.protocol.entries import RequestEntry, RoundEnd
from translator.protocol.errors import (
    OWN_CODE,
    LimitPassed,
    RequestError,
    RespoolError,
    StoreError,
    UpstreamError,
)
from translator.protocol.json import dumps, loads
from translator.protocol.request import Request as CreateRequest
from translator.protocol.request import parse
from translator.protocol.response import template
from translator.protocol.upstream import Upstream
from translator.request_entry import input_items, request_entry
from translator.toolmap import ToolMap

log = logging.getLogger(__name__)

T = TypeVar("T")

OPEN_WAIT_S: Final = 5.0
"""How long the headers of a foreground stream wait for the upstream's status (contract.md section 2): a refusal takes
milliseconds, and a queue at the upstream must not look like a dead server."""

HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]{1,100}")
"""What an upstream's `retry-after` must look like before it is passed on."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A response that exists now, with its first reader."""

    rid: str
    shown: dict[str, Any] | None
    """The answer, where it is given out before there is any event."""
    reader: Reader
    lease: ReaderLease | None
    opens: bool
    """Whether the upstream is asked at once, so that its refusal can be the answer."""
    created: int
    """When, in ms of the store's clock: of two runs under one id it tells which."""
    shared: bool
    """Whether repeats of the create may wait for it as well."""


@dataclass(frozen=True, slots=True)
class Written:
    """What is stored of a request before anything of it runs."""

    entry: bytes
    body: bytes | None
    """Of round 1; None where something else comes first."""
    servers: bytes | None
    """What tool workers need to know of its MCP servers, which is secret."""
    shown: RequestEntry | None
    """The entry as it will be read, where the answer is made from it."""


class Create:
    """The handler."""

    def __init__(self, context: Context, auth: Auth) -> None:
        self._store = context.store
        self._settings = context.settings
        self._upstreams = context.upstreams
        self._auth = auth
        self._aside = Aside()
        self._turns = Turns()
        self._places = Places(context.settings, context.tenants)
        self._room = room(context.settings.limits["max_response_bytes"])
        self._max_body_bytes = min(context.settings.max_body_bytes, self._room // COPIES)
        self._pace = Pace(context.settings.heartbeat_s, context.settings.keepalive_s)

    async def create(self, request: Request) -> Response:
        """Check, begin, and answer in the way that was asked for."""
        asked_at = time.monotonic()
        try:
            tenant = self._auth.tenant(request)
            ids = flag(request.query_params, "sse_ids") or self._settings.sse_ids
            raw = await read_body(request, self._max_body_bytes)
            request.scope[SLOT].take(tenant)
            await self._turns.mine()
            large = len(raw) > ASIDE_BYTES
            asked = await self._aside.run(functools.partial(read, raw), large=large)
            repeated = idempotency(request, raw)
            del raw  # a large one need not be held while the response runs
            begun = await self._begin(tenant, asked, repeated, traced(request), large=large)
        except RespoolError as error:
            metrics.count("responses_refused_total", status=str(public(error).status))
            raise
        metrics.count("responses_created_total", mode=mode(asked))
        request.scope[RESPONSE_KEY] = begun.rid
        log.info("%s began %s", request.scope[SCOPE_KEY], begun.rid, extra=named(request.scope))
        try:
            return await self._answer(request, asked, begun, ids=ids, asked_at=asked_at)
        except BaseException:
            begun.reader.close()
            raise

    async def _begin(
        self,
        tenant: str,
        asked: CreateRequest,
        repeated: Idempotency | None,
        trace: dict[str, str] | None,
        *,
        large: bool,
    ) -> Begun:
        """Everything up to the moment from which the response runs on by itself; or the response that a repeat joins."""
        upstream = self._upstreams.resolve(asked.model)
        if upstream is None:
            raise RequestError(
                "No upstream of this gateway serves this model.",
                code="model_not_found",
                param="model",
            )
        earlier = await history(self._store.logs, tenant, asked.previous_response_id)
        refuse_many(asked.input, earlier)
        given = asked
        asked = await resolved(self._store.logs, tenant, given, earlier)
        rid = f"resp_{secrets.token_hex(16)}"
        large = (
            large
            or len(earlier) > ASIDE_ITEMS
            or heavier(earlier, ASIDE_BYTES)
            or (asked is not given and heavier(asked.input, ASIDE_BYTES))
        )

        async def write(rid: str) -> Written:
            return await self._aside.run(
                lambda: self._written(rid, tenant, asked, earlier, upstream, trace=trace),
                large=large,
            )

        written = await write(rid)
        if repeated is not None:
            first = await self._bound(repeated, tenant, rid, asked)
            if first != rid:
                joined = await self._join(first, asked)
                if joined is not None:
                    return joined
                rid, written = first, await write(first)
        place = self._places.place(tenant)
        placed = place is not None and not self._store.connections.clustered
        call = functools.partial(self._call, rid, tenant, asked, written, placed=placed)
        opens = written.body is not None
        lease = None if asked.store else ReaderLease(self._store, rid, self._settings.grace_s)
        # The reader comes before the work: what is handed over in this process then finds it.
        reader = self._store.hub.open(rid, -1)
        try:
            created = await self._write(rid, call, place, opens=opens)
        except Refused as refusal:
            reader.close()
            if repeated is None or refusal.reason is not Reason.EXISTS:
                raise full(refusal) from None
            joined = await self._join(rid, asked)  # another repeat has made it meanwhile
            if joined is None:
                raise
            return joined
        except BaseException:
            reader.close()
            raise
        shown = written.shown and template(written.shown, created // 1000)
        return Begun(
            *(rid, shown, reader, lease),
            opens=opens,
            created=created,
            shared=repeated is not None,
        )

    async def _bound(
        self, repeated: Idempotency, tenant: str, rid: str, asked: CreateRequest
    ) -> str:
        """The id that a key stands for: that of the response before, unless nobody can join it any more, or this one."""
        found, ttl_s = "", self._kept_s(asked)
        while True:
            found = await repeated.bound(self._store, tenant, rid, ttl_s=ttl_s, instead_of=found)
            if found == rid or asked.store:
                return found
            state = await self._store.logs.state(found)
            if state is None or not state.cancelled:
                return found

    async def _join(self, rid: str, asked: CreateRequest) -> Begun | None:
        """The response that was made for the same key and body; None if it is not there."""
        store = self._store
        state = await store.logs.state(rid)
        if state is None:
            return None
        try:
            shown = await current(store.logs, rid, done=state.done) if at_once(asked) else None
        except Refused:
            return None  # it went after its state was read
        metrics.count("responses_joined_total")
        lease = None if asked.store else ReaderLease(store, rid, self._settings.grace_s)
        return Begun(
            *(rid, shown, store.hub.open(rid, -1), lease),
            opens=state.round == 1,
            created=state.created,
            shared=True,
        )

    def _kept_s(self, asked: CreateRequest) -> float:
        """How long a response may be there at most."""
        keep_s = self._settings.retention_s if asked.store else self._settings.grace_s
        return self._settings.max_run_s + keep_s

    def _written(
        self,
        rid: str,
        tenant: str,
        asked: CreateRequest,
        earlier: list[dict[str, Any]],
        upstream: Upstream,
        *,
        trace: dict[str, str] | None,
    ) -> Written:
        """Check what is asked, and write it; takes long where it is large, and may be called in a thread."""
        refuse_twins(asked.input, earlier)
        refuse_heavy(asked.input, earlier, self._room)
        checked = check(
            asked,
            earlier,
            api=upstream.api,
            custom_formats=upstream.custom_formats,
            gateway_tools=self._settings.gateway_tools,
        )
        items = input_items(rid, asked)
        entry = request_entry(
            *(rid, tenant, asked, earlier),
            upstream=upstream,
            limits=self._settings.limits,
            trace=trace,
            items=items,
        )
        if len(entry) > self._room:
            raise too_large()
        body = None
        if not checked.needed:
            body = first_round(asked.body, [*earlier, *items], checked.tools, upstream)
        if len(entry) + len(body or b"") > self._room:
            raise too_large()
        servers = secrets_of(checked.servers)
        return Written(entry, body, servers, loads(entry) if at_once(asked) else None)

    def _call(
        self,
        rid: str,
        tenant: str,
        asked: CreateRequest,
        written: Written,
        wanted: Wanted,
        *,
        placed: bool,
    ) -> Call[Created]:
        settings = self._settings
        keep_s = settings.retention_s if asked.store else settings.grace_s
        return responses.create(
            self._store.keys,
            rid,
            tenant=tenant,
            store=asked.store,
            background=asked.background,
            request_data=written.entry,
            round_body=written.body,
            secrets=written.servers,
            run_ms=int(settings.max_run_s * 1000),
            retention_ms=int(keep_s * 1000),
            placed=placed,
            lease=wanted.lease,
            claim=wanted.claim,
        )

    async def _write(
        self,
        rid: str,
        call: Callable[[Wanted], Call[Created]],
        place: Place | None,
        *,
        opens: bool,
    ) -> int:
        """The `due` entry, then the response, in this order. Returns `created`.

        Where this process does the work itself, the create grants it its leases: the first byte waits for one round trip
        instead of three. `due` goes in the same exchange; only in a cluster, where that is in another slot, its answer is
        awaited before. The create fails where there is no place for it.
        """
        store, after_ms = self._store, int(self._settings.lease_s * 1000)
        if place is None:
            entered = store.due.enter(rid, after_ms=after_ms)
        else:
            entered = store.due.begin(rid, after_ms=after_ms, place=place)
        if store.connections.clustered:
            await entered
        wanted = Wanted.of(store.work, rid, opens=opens)
        try:
            creating = wanted.send(store.writer, call, entered)
        except LimitPassed:
            entered.cancel()
            await self._forget(rid)
            raise too_large() from None
        entry, created = await asyncio.gather(entered, creating, return_exceptions=True)
        if isinstance(created, BaseException):
            if isinstance(created, StoreFull) and entry is None:
                await self._forget(rid)
            # Where there is no place there is no response either; the due set tells why.
            raise entry if isinstance(entry, BaseException) else created
        if isinstance(entry, BaseException):  # what no sweeper would find must not run
            await remove(store, rid)
            raise entry
        if created.lease is None:
            store.work.offer("translate", rid)
        if opens and created.claim is None:
            store.work.offer("rounds", rid)
        return created.created

    async def _forget(self, rid: str) -> None:
        """Give back at once the place of a response that was surely not created; a sweeper does so where this fails."""
        with suppress(StoreError):
            await self._store.due.drop(rid)

    async def _answer(
        self, request: Request, asked: CreateRequest, begun: Begun, *, ids: bool, asked_at: float
    ) -> Response:
        """Background: at once. Else when the upstream has spoken (stream) or the response has ended (blocking)."""
        if begun.shown is not None:
            begun.reader.close()
            return Json(begun.shown)
        if not asked.stream:
            frame = await self._attended(request, begun, lambda: terminal(begun.reader, begun.rid))
            response = response_of(frame.data)
            # What an approved call has done is done: then a refusal is an end like any other.
            if response["status"] == "failed" and not has_run(response["output"]):
                await self._raise_refusal(begun)
            return Json(response)
        if begun.opens and not asked.background:
            outcome = await self._attended(
                request,
                begun,
                lambda: self._store.hub.opened(begun.rid, OPEN_WAIT_S),
                brief=True,
            )
            if isinstance(outcome, Refusal):
                await self._remove_refused(begun, outcome.end)
                raise upstream_refusal(outcome.end)
        return EventStream(
            begun.reader,
            after=-1,
            pace=self._pace,
            ids=ids,
            lease=begun.lease,
            asked_at=asked_at,
        )

    async def _attended(
        self,
        request: Request,
        begun: Begun,
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        brief: bool = False,
    ) -> T:
        """Wait as long as the client does. Trouble of ours now has cost an inference: SDKs must not repeat it.

        A stored response runs on without its client, so a `brief` wait is not watched for it.
        """
        try:
            if brief and begun.lease is None:
                return await work()
            return await attend(work, leaving(request.receive), lease=begun.lease)
        except RespoolError as error:
            if is_gone(error):
                await self._raise_kept(begun)
            trouble = under_way(error, deleted=begun.reader.deleted)
            trouble.headers["x-should-retry"] = "false"
            raise trouble from error

    async def _raise_refusal(self, begun: Begun) -> None:
        """A failed response that the upstream never opened was refused: that is an HTTP status, and no response."""
        state = await self._store.logs.state(begun.rid)
        if state is None or state.created != begun.created:
            await self._raise_kept(begun)
        elif state.refusal and not state.opened:
            end: RoundEnd = loads(state.refusal)
            await self._remove_refused(begun, end)
            raise upstream_refusal(end)

    async def _remove_refused(self, begun: Begun, end: RoundEnd) -> None:
        """Delete a response that the upstream refused; who else waits for it finds what was said."""
        store, rid = self._store, begun.rid
        if begun.shared:
            with suppress(StoreError):
                await store.writer.do(keep(store.keys, rid, created=begun.created, end=end))
        await remove(store, rid)

    async def _raise_kept(self, begun: Begun) -> None:
        """Of a response that is gone: the refusal for which another create with its key has deleted it, if it was that."""
        found = None
        with suppress(StoreError):
            found = await self._store.reads.do(kept(self._store.keys, begun.rid))
        if found is not None and found.created >= begun.created:
            raise upstream_refusal(found.end)


def read(raw: bytes) -> CreateRequest:
    """A request body; raises RequestError."""
    refuse_crowded(raw)
    return parse(raw)


def first_round(
    asked: dict[str, Any], items: list[dict[str, Any]], tools: ToolMap, upstream: Upstream
) -> bytes:
    """The exact body of round 1."""
    body = upstream_body(
        asked,
        items,
        tools,
        api=upstream.api,
        reasoning_history=upstream.reasoning_history,
    )
    return dumps(body)


def traced(request: Request) -> dict[str, str] | None:
    """Where the new response stands in a trace, for its request entry; None where nobody takes spans."""
    if not tracing.on:
        return None
    headers = request.headers
    return tracing.begin(headers.get("traceparent"), headers.get("tracestate")).stored()


def at_once(asked: CreateRequest) -> bool:
    """Whether the answer is given out before anything has run."""
    return asked.background and not asked.stream


def mode(asked: CreateRequest) -> str:
    """How the client wants its answer, as a label."""
    if asked.background:
        return "background"
    return "stream" if asked.stream else "blocking"


def upstream_refusal(end: RoundEnd) -> UpstreamError:
    """What the upstream said before its first frame, as our HTTP error."""
    error = end.get("error", {})
    retry_after = end.get("retry_after", "")
    return UpstreamError(
        error.get("message", "The upstream refused the request."),
        status=error.get("status"),
        type=error.get("type"),
        code=error.get("code", OWN_CODE),
        param=error.get("param"),
        headers={"retry-after": retry_after} if HEADER_VALUE.fullmatch(retry_after) else None,
    )
