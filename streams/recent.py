"""The responses that a deployment holds, newest first, for people who look for one.

In: a store, whose responses are wanted and how many. Out: their states and models. Nothing is kept for this: the keys are
walked in steps (SCAN, on every primary of a cluster), so a create costs nothing, and a look costs the more the more the
store holds. Called by `respool ls` and the debug page.
"""

import asyncio
import heapq
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from streams.client import bounded
from streams.keys import Keys
from streams.logs import State
from streams.scripts.call import Call
from streams.scripts.refused import Refused
from streams.store import Store
from translator.protocol.json import loads
from translator.protocol.sse import fields

STEP_KEYS: Final = 1_000
"""Keys that the server walks in one step: below a ms of its time."""

BATCH: Final = 250
"""States that are asked for together."""

MOST_WALKED: Final = 200_000
"""Responses that one look goes through: some seconds. A store with more shows the newest of those."""

GLOB: Final = re.compile(r"([*?\[\\])")
"""Characters that mean something in a pattern of SCAN."""


@dataclass(frozen=True, slots=True)
class Recent:
    """One response; `model` is empty where its first frame is not there yet, or not any more."""

    rid: str
    state: State
    model: str


class Found(NamedTuple):
    """The newest responses. `walked`: how many were looked at; `whole` is False where MOST_WALKED ended the look."""

    responses: list[Recent]
    walked: int
    whole: bool


class _Mark(NamedTuple):
    """What the order of responses depends on: the newest first, by their ids where they are of one ms."""

    created: int
    rid: str


async def recent(
    store: Store,
    *,
    limit: int,
    tenant: str | None = None,
    status: str | None = None,
    stored: bool = False,
) -> Found:
    """The newest `limit` responses, of all tenants or one, of every status or one; with `stored` only ones that are kept."""
    newest: list[_Mark] = []
    walked, whole = 0, True
    async for rids in _batches(store):
        replies = await asyncio.gather(*(store.reads.do(_mark(store.keys, rid)) for rid in rids))
        for rid, (created, whose, is_now, is_kept) in zip(rids, replies, strict=True):
            wanted = tenant in (None, whose) and status in (None, is_now) and is_kept >= stored
            if created is not None and wanted:
                _keep(newest, _Mark(created, rid), limit)
        walked += len(rids)
        if walked >= MOST_WALKED:
            whole = False
            break
    rids = [mark.rid for mark in sorted(set(newest), reverse=True)]
    found = await asyncio.gather(*(_recent(store, rid) for rid in rids))
    return Found([one for one in found if one is not None], walked, whole)


def _keep(newest: list[_Mark], mark: _Mark, limit: int) -> None:
    """Take one into the newest. SCAN may give a key twice: it counts once."""
    if len(newest) < limit:
        if mark not in newest:
            heapq.heappush(newest, mark)
    elif mark > newest[0] and mark not in newest:
        heapq.heappushpop(newest, mark)


async def _batches(store: Store) -> AsyncIterator[list[str]]:
    """The ids of all responses, some at a time. Each step is bounded in time; trouble comes as StoreError."""
    prefix, suffix = store.keys.state("\0").split("\0")
    pattern = GLOB.sub(r"\\\1", prefix) + "*" + suffix
    batch: list[str] = []
    for server in store.connections.servers():
        steps = server.client.scan_iter(match=pattern, count=STEP_KEYS)
        while (key := await bounded(anext(steps, None))) is not None:
            batch.append(key.decode()[len(prefix) : -len(suffix)])
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def _mark(keys: Keys, rid: str) -> Call[tuple[int | None, str, str, bool]]:
    names = ("created", "tenant", "status", "store")
    return Call(rid, None, ("HMGET", keys.state(rid)), names, _marked)


def _marked(reply: Any) -> tuple[int | None, str, str, bool]:
    created, tenant, status, kept = reply
    if created is None:
        return None, "", "", False
    return int(created), tenant.decode(), status.decode(), kept == b"1"


async def _recent(store: Store, rid: str) -> Recent | None:
    state = await store.logs.state(rid)
    if state is None:
        return None
    try:
        page = await store.logs.read_output(rid, -1, 1)
    except Refused:
        return None
    return Recent(rid, state, model_of(frame.data for frame in page.frames))


def model_of(frames: Iterable[bytes]) -> str:
    """The model that the first frame names; empty where there is none, or no frame."""
    for frame in frames:
        try:
            response = loads(fields(frame.strip(b"\n"))[1])["response"]
            return str(response["model"])
        except (ValueError, LookupError, TypeError):
            break
    return ""
