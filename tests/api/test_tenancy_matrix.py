"""Every route of the application, asked by the owner, by another tenant, without a key and with a wrong one.

The routes come from the application itself: one without a row here fails.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.routing import Route

from api import app as application_module
from api.app import NOT_BUILT, Endpoint
from streams.store import Store
from tests.api.gateway import Gateway, Reply, running
from tests.ingest.server import Seen, Server, text_stream

KEYS = {"key-of-owner": "owner", "second-of-owner": "owner", "key-of-other": "other"}
OWNER, SECOND, OTHER, NOBODY, WRONG = "owner", "owner's second", "other", "no key", "wrong key"
HEADERS: dict[str, dict[str, str]] = {
    OWNER: {"authorization": "Bearer key-of-owner"},
    SECOND: {"authorization": "Bearer second-of-owner"},
    OTHER: {"authorization": "Bearer key-of-other"},
    NOBODY: {},
    WRONG: {"authorization": "Bearer key-of-nobody"},
}
pytestmark = pytest.mark.parametrize("store_url", ["valkey"], indirect=True)

STRANGERS = (NOBODY, WRONG)


@dataclass(frozen=True)
class Row:
    """One way to ask for what a tenant owns. `{id}` and `{item}` stand for the owner's response and an item of it."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    owner: int = 200
    other: int = 404
    stranger: int = 401
    headers: tuple[tuple[str, str], ...] = ()


def create(other: int, **fields: Any) -> Row:
    return Row("POST", "/v1/responses", {"model": "m", "input": "next", **fields}, other=other)


ONE = "/v1/responses/{response_id}"
DEBUG = "/debug/api/responses/{response_id}"
ROWS: dict[str, list[Row]] = {
    "/v1/responses": [
        create(200),
        create(200, stream=True),
        create(400, previous_response_id="{id}"),
        create(400, input=[{"type": "item_reference", "id": "{item}"}]),
    ],
    ONE: [
        Row("GET", ONE),
        Row("GET", f"{ONE}?stream=true"),
        Row("GET", f"{ONE}?stream=true&starting_after=0"),
        Row("GET", f"{ONE}?stream=true", headers=(("last-event-id", "0"),)),
        Row("GET", f"{ONE}?include=reasoning.encrypted_content"),
        Row("DELETE", ONE),
    ],
    f"{ONE}/cancel": [Row("POST", f"{ONE}/cancel")],
    f"{ONE}/input_items": [
        Row("GET", f"{ONE}/input_items"),
        Row("GET", f"{ONE}/input_items?after={{first}}&order=asc"),
    ],
    "/v1/models": [Row("GET", "/v1/models", owner=200, other=200)],
    "/v1/models/{model:path}": [Row("GET", "/v1/models/m", other=200)],
    "/debug/api/responses": [Row("GET", "/debug/api/responses", other=200)],
    DEBUG: [Row("GET", DEBUG)],
    f"{DEBUG}/log": [Row("GET", f"{DEBUG}/log")],
    f"{DEBUG}/entries/{{n}}": [Row("GET", f"{DEBUG}/entries/1")],
    f"{DEBUG}/frames": [Row("GET", f"{DEBUG}/frames")],
    f"{DEBUG}/frames/{{seq}}": [Row("GET", f"{DEBUG}/frames/0")],
    f"{DEBUG}/state": [Row("GET", f"{DEBUG}/state?after=1")],
    f"{DEBUG}/replay": [Row("GET", f"{DEBUG}/replay")],
    f"{DEBUG}/export": [Row("GET", f"{DEBUG}/export")],
    "/debug": [Row("GET", "/debug", other=200, stranger=200)],
    "/debug/": [Row("GET", "/debug/", other=200, stranger=200)],
    "/debug/{name}": [Row("GET", "/debug/style.css", other=200, stranger=200)],
    **{
        path: [Row(method, path, owner=404, other=404, stranger=404) for method in ("POST", "GET")]
        for path in NOT_BUILT
    },
    **{
        path: [Row(method, path, owner=200, other=200, stranger=200) for method in ("GET", "HEAD")]
        for path in ("/healthz", "/readyz", "/metrics")
    },
}
OPEN = {"/healthz", "/readyz", "/metrics", "/debug", "/debug/", "/debug/{name}", *NOT_BUILT}
"""Routes that belong to nobody: probes, what is not built, and the files of the debug page, which hold nothing."""


def answer(seen: Seen) -> list[bytes]:
    """The upstream's list of models, or an answer."""
    if seen.path.endswith("/models"):
        return [b'{"object": "list", "data": [{"id": "m"}]}']
    return text_stream("private")


@pytest.fixture
async def gateway(store, upstream: Server) -> AsyncIterator[Gateway]:
    upstream.play(answer)
    async with running(store, upstream, api_keys=KEYS, debug_ui=True) as made:
        yield made


def routes(gateway: Gateway) -> list[Route]:
    """What the application of this gateway would serve."""
    seen: list[Route] = []

    class Watched(application_module.Router):
        def __init__(self, given: list[Route], **options: Any) -> None:
            seen.extend(given)
            super().__init__(given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application_module, "Router", Watched)
        application_module.application(gateway.context)
    return seen


def methods(route: Route) -> set[str]:
    """The methods that a route's endpoint knows, whatever guards it."""
    endpoint: Any = route.endpoint
    while not isinstance(endpoint, Endpoint):
        endpoint = endpoint._app
    return set(endpoint._handlers)


async def test_every_route_and_method_has_a_row(gateway: Gateway):
    real = {(route.path, method) for route in routes(gateway) for method in methods(route)}
    rows = {(path, row.method) for path, listed in ROWS.items() for row in listed}
    assert rows == real


async def asked(gateway: Gateway, row: Row, made: dict[str, str], who: str) -> Reply:
    text = json.dumps(row.body) if row.body else None
    path = row.path.replace("{response_id}", made["{id}"])
    for name, value in made.items():
        path = path.replace(name, value)
        text = text and text.replace(name, value)
    headers = HEADERS[who] | dict(row.headers)
    return await gateway.ask(row.method, path, text and text.encode(), headers=headers)


async def owned(gateway: Gateway) -> dict[str, str]:
    """A finished response of the owner's, and the ids in it."""
    body = {"model": "m", "input": "only mine", "background": True}
    made = await gateway.ask("POST", "/v1/responses", body, headers=HEADERS[OWNER])
    gateway.headers = HEADERS[OWNER]
    done = await gateway.until(made.json["id"], "completed")
    first = (await gateway.get(done["id"], "/input_items")).json["first_id"]
    gateway.headers = {}
    return {"{id}": done["id"], "{item}": done["output"][0]["id"], "{first}": first}


async def test_owner_other_tenant_no_key_and_wrong_key_at_every_route(gateway: Gateway):
    made = await owned(gateway)
    calls = len(gateway.upstream.requests)
    every = [(path, row) for path, rows in ROWS.items() for row in rows]
    for path, row in sorted(every, key=lambda one: one[1].method == "DELETE"):
        for who in STRANGERS:
            reply = await asked(gateway, row, made, who)
            assert reply.status == row.stranger, (row, who)
            if path not in OPEN:
                assert reply.error["code"] == "invalid_api_key"
        assert len(gateway.upstream.requests) == calls, "a stranger costs nothing"
        reply = await asked(gateway, row, made, OTHER)
        assert reply.status == row.other, (row, reply.body)
        assert b"only mine" not in reply.body
        for who in (OWNER,) if row.method == "DELETE" else (SECOND, OWNER):
            reply = await asked(gateway, row, made, who)
            assert reply.status == row.owner, (row, who, reply.body)
        calls = len(gateway.upstream.requests)


async def test_a_foreign_response_is_answered_like_one_that_never_was(gateway: Gateway):
    made = await owned(gateway)
    never = {
        "{id}": "resp_" + "0" * 32,
        "{item}": made["{item}"].replace(made["{id}"][5:], "0" * 32),
        "{first}": made["{first}"],
    }
    for rows in ROWS.values():
        for row in rows:
            if row.other not in (400, 404):
                continue
            answers = [await asked(gateway, row, ids, OTHER) for ids in (made, never)]
            foreign, unknown = (
                (reply.status, reply.body.replace(ids["{id}"].encode(), b"ID"))
                for reply, ids in zip(answers, (made, never), strict=True)
            )
            if "{item}" not in json.dumps(row.body):
                assert foreign == unknown, row
            else:
                assert foreign[0] == unknown[0]
    owner = await asked(gateway, Row("GET", ONE), made, OWNER)
    assert owner.status == 200, "nobody else could delete or cancel it"


async def test_a_key_of_idempotency_is_its_tenants_own(gateway: Gateway):
    row = Row(
        "POST",
        "/v1/responses",
        {"model": "m", "input": "x", "background": True},
        headers=(("idempotency-key", "same"),),
    )
    mine = (await asked(gateway, row, {"{id}": ""}, OWNER)).json["id"]
    again = (await asked(gateway, row, {"{id}": ""}, SECOND)).json["id"]
    theirs = (await asked(gateway, row, {"{id}": ""}, OTHER)).json["id"]
    assert mine == again
    assert theirs != mine


async def test_ids_carry_128_random_bits(gateway: Gateway):
    """32 hexadecimal digits, each of which takes every value; no two begin alike."""
    gateway.headers = HEADERS[OWNER]
    ids = [(await gateway.made(background=True))["id"] for _ in range(40)]
    digits = [one.removeprefix("resp_") for one in ids]
    assert {len(one) for one in digits} == {32}
    assert all(set(one) <= set("0123456789abcdef") for one in digits)
    assert len({one[:10] for one in digits}) == len(ids)
    assert all(len({one[at] for one in digits}) > 8 for at in range(32)), (
        "a digit that hardly varies"
    )


async def test_an_owner_without_a_name_is_nobody(store, upstream: Server):
    """A response whose owner is empty belongs to none, with keys and without."""
    upstream.play(answer)
    for keys in (KEYS, {}):
        async with running(store, upstream, api_keys=keys) as gateway:
            gateway.headers = HEADERS[OWNER]
            rid = (await gateway.made())["id"]
            await store.connections.command("HSET", store.keys.state(rid), "tenant", "")
            for who, headers in HEADERS.items():
                gateway.headers = headers
                assert (await gateway.get(rid)).status in (404, 401), who


async def test_another_namespace_has_no_such_response(
    gateway: Gateway, store_url, namespace, upstream
):
    made = await owned(gateway)
    async with (
        Store.open(store_url, f"{namespace}-two") as elsewhere,
        running(elsewhere, upstream, api_keys=KEYS) as other,
    ):
        assert (await asked(other, Row("GET", ONE), made, OWNER)).status == 404
