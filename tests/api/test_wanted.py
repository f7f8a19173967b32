"""A create brings this process's workers their leases, or tells them that there is nothing to do."""

import asyncio
import secrets

import pytest

from api.wanted import Wanted
from streams.asked import Asked
from streams.faults import StoreFull
from streams.scripts.call import Call
from streams.scripts.refused import Reason, Refused
from streams.scripts.responses import Created, create
from streams.store import Store
from streams.writer import MAX_CALL_BYTES
from translator.protocol.errors import LimitPassed


class Worker:
    """Asks for a lease on whatever comes, and remembers the answers."""

    def __init__(self) -> None:
        self.answers: list[object] = []

    def ask(self, rid: str) -> Asked:
        del rid
        return Asked("token", 60_000, self.answers.append)


@pytest.fixture
def translator(store: Store) -> Worker:
    return working(store, "translate")


@pytest.fixture
def ingest(store: Store) -> Worker:
    return working(store, "rounds")


def working(store: Store, kind: str) -> Worker:
    worker = Worker()
    store.work.register(kind, lambda _: False, worker.ask)
    return worker


def sending(
    store: Store,
    rid: str,
    *,
    opens: bool = True,
    body: bytes = b"{}",
    entered: asyncio.Future | None = None,
) -> asyncio.Future:
    def make(wanted: Wanted) -> Call[Created]:
        return create(
            store.keys,
            rid,
            tenant="",
            store=True,
            background=False,
            request_data=body,
            round_body=b"{}" if opens else None,
            run_ms=60_000,
            retention_ms=60_000,
            lease=wanted.lease,
            claim=wanted.claim,
        )

    entered = entered or store.due.enter(rid, after_ms=60_000)
    return Wanted.of(store.work, rid, opens=opens).send(store.writer, make, entered)


def new() -> str:
    return f"resp_{secrets.token_hex(16)}"


async def test_both_get_what_the_create_grants(store, translator, ingest):
    created = await sending(store, new())
    assert translator.answers == [created.lease]
    assert ingest.answers == [created.claim]
    assert created.lease
    assert created.claim


async def test_where_no_round_is_open_yet_nobody_is_asked_to_run_one(store, translator, ingest):
    created = await sending(store, new(), opens=False)
    assert translator.answers == [created.lease]
    assert ingest.answers == []


async def test_who_is_not_there_gets_nothing(store, ingest):
    created = await sending(store, new())
    assert created.lease is None
    assert ingest.answers == [created.claim]


async def test_workers_of_a_create_that_is_refused_have_nothing_to_do(store, translator, ingest):
    rid = new()
    await sending(store, rid)
    with pytest.raises(Refused) as refused:
        await sending(store, rid, body=b"[]")
    assert refused.value.reason is Reason.EXISTS
    assert translator.answers[1:] == ingest.answers[1:] == [None]


async def test_workers_of_a_create_that_is_too_large_to_send_have_nothing_to_do(
    store, translator, ingest
):
    with pytest.raises(LimitPassed):
        sending(store, new(), body=bytes(MAX_CALL_BYTES))
    assert translator.answers == ingest.answers == [None]


async def test_they_get_it_although_the_client_has_left(store, translator, ingest):
    creating = sending(store, new())
    creating.cancel()
    await store.writer.drained()
    assert translator.answers[0]
    assert ingest.answers[0]


async def test_what_no_sweeper_would_find_is_given_to_nobody(store, translator, ingest):
    entered = asyncio.get_running_loop().create_future()
    entered.set_exception(StoreFull("full"))
    await sending(store, new(), entered=entered)
    assert translator.answers == ingest.answers == [None]
