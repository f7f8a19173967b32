"""Responses as the api would make them, without an api."""

import secrets
from typing import Any

import orjson

from streams.asked import Asked
from streams.scripts.outputs import Lease
from streams.scripts.responses import create
from streams.scripts.rounds import Claim
from streams.store import Store
from translator.protocol.entries import Entry

RUN_MS = 60_000
RETENTION_MS = 60_000
BODY = b'{"model":"m","stream":true}'
LIMITS = {"max_rounds": 10, "max_attempts": 3, "max_response_bytes": 1 << 24}


def request_data(rid: str, *, limits: dict[str, int] | None = None, **request: Any) -> bytes:
    return orjson.dumps(
        {
            "version": 1,
            "id": rid,
            "tenant": "",
            "request": {"model": "m", **request},
            "input": [],
            "history": [],
            "upstream": {"id": "main", "api": "responses", "custom_formats": "reject"},
            "limits": {**LIMITS, **(limits or {})},
        }
    )


async def made(
    store: Store,
    /,
    *,
    run_ms: int = RUN_MS,
    limits: dict[str, int] | None = None,
    round_body: bytes | None = BODY,
    data: bytes | None = None,
    rid: str | None = None,
    lease: Asked[Lease] | None = None,
    claim: Asked[Claim] | None = None,
    **request: Any,
) -> str:
    """Create a response with an open round, and answer who asked for lease or claim; its id."""
    rid = rid or f"resp_{secrets.token_hex(16)}"
    created = await store.writer.do(
        create(
            store.keys,
            rid,
            tenant="",
            store=request.get("store", True),
            background=request.get("background", False),
            request_data=data or request_data(rid, limits=limits, **request),
            round_body=round_body,
            run_ms=run_ms,
            retention_ms=RETENTION_MS,
            lease=lease,
            claim=claim,
        )
    )
    if lease is not None:
        lease.answer(created.lease)
    if claim is not None:
        claim.answer(created.claim)
    return rid


async def entries(store: Store, rid: str) -> list[Entry]:
    """The whole input log."""
    found: list[Entry] = []
    while page := await store.logs.read_input(rid, len(found)):
        found += page
    assert [entry.n for entry in found] == list(range(1, len(found) + 1))
    return found


async def said(store: Store, rid: str) -> list[tuple[str, bytes]]:
    """What the input log says since the round, without times."""
    return [(entry.kind, entry.data) for entry in (await entries(store, rid))[2:]]
