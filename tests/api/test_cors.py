"""A browser's rules: pages of named origins may read every answer, all others none."""

import pytest

from tests.api.gateway import running
from tests.ingest.server import text_stream

# No store has a say in it.
pytestmark = pytest.mark.parametrize("store_url", ["fakeredis"], indirect=True)

APP, EVIL = "https://app.example", "https://evil.example"
ALLOWED = "access-control-allow-origin"
ASKED = {"access-control-request-method": "POST"}


@pytest.fixture
async def gateway(store, upstream):
    upstream.play(*text_stream("a"))
    options = {"cors_origins": (APP,), "api_keys": {"k": "t"}}
    async with running(store, upstream, **options) as made:
        yield made


async def test_nothing_is_said_unless_it_is_set(store, upstream):
    upstream.play(*text_stream("a"))
    async with running(store, upstream, api_keys={"k": "t"}) as gateway:
        headers = {"origin": APP, "authorization": "Bearer k"}
        reply = await gateway.ask("GET", "/v1/responses/x", headers=headers)
        assert not [name for name in reply.headers if name.startswith("access-control")]
        assert (
            await gateway.ask("OPTIONS", "/v1/responses", headers=headers | ASKED)
        ).status == 405


@pytest.mark.parametrize("stream", [False, True])
async def test_a_page_of_a_named_origin_may_read_answers(gateway, stream):
    headers = {"origin": APP, "authorization": "Bearer k"}
    body = {"model": "m", "input": "x", "stream": stream}
    reply = await gateway.ask("POST", "/v1/responses", body, headers=headers)
    assert (reply.status, reply.headers[ALLOWED], reply.headers["vary"]) == (200, APP, "origin")
    assert "x-request-id" in reply.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("POST", "/v1/responses", "wrong", 401),
        ("POST", "/v1/responses", "k", 400),
        ("GET", "/v1/responses/x", "k", 404),
        ("GET", "/nowhere", "k", 404),
        ("PUT", "/v1/responses", "k", 405),
    ],
)
async def test_and_errors_too_or_it_would_only_see_that_something_failed(
    gateway, method, path, key, status
):
    headers = {"origin": APP, "authorization": f"Bearer {key}"}
    reply = await gateway.ask(method, path, b"{}", headers=headers)
    assert (reply.status, reply.headers[ALLOWED]) == (status, APP)
    assert reply.error


async def test_a_browser_may_ask_beforehand_without_a_key(gateway):
    names = "authorization, content-type, x-stainless-lang, last-event-id"
    headers = {"origin": APP, "access-control-request-headers": names} | ASKED
    reply = await gateway.ask("OPTIONS", "/v1/responses", headers=headers)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers[ALLOWED] == APP
    assert reply.headers["access-control-allow-headers"] == names
    assert "DELETE" in reply.headers["access-control-allow-methods"]
    assert int(reply.headers["access-control-max-age"]) <= 3600
    odd = headers | {"access-control-request-headers": "a b, <script>"}
    reply = await gateway.ask("OPTIONS", "/v1/responses", headers=odd)
    assert "access-control-allow-headers" not in reply.headers


@pytest.mark.parametrize("origin", [EVIL, "null", "https://app.example.evil.example", f"{APP}:81"])
async def test_a_page_of_another_origin_may_read_nothing(gateway, origin):
    headers = {"origin": origin, "authorization": "Bearer k"}
    reply = await gateway.ask("GET", "/v1/responses/x", headers=headers)
    assert ALLOWED not in reply.headers
    assert reply.headers["vary"] == "origin"
    reply = await gateway.ask("OPTIONS", "/v1/responses", headers=headers | ASKED)
    assert reply.status == 405
    assert ALLOWED not in reply.headers


async def test_any_origin_may_be_let_in(store, upstream):
    upstream.play(*text_stream("a"))
    async with running(store, upstream, cors_origins=("*",), api_keys={"k": "t"}) as gateway:
        reply = await gateway.ask("GET", "/v1/responses/x", headers={"origin": EVIL})
        assert (reply.status, reply.headers[ALLOWED]) == (401, "*")


@pytest.mark.parametrize(("origins", "status"), [((APP,), 404), (("*",), 403), ((), 403)])
async def test_without_keys_only_a_named_page_is_as_good_as_local(store, upstream, origins, status):
    async with running(store, upstream, cors_origins=origins) as gateway:
        reply = await gateway.ask("GET", "/v1/responses/x", headers={"origin": APP})
        assert reply.status == status
