import contextlib
import hmac

import pytest
from starlette.requests import HTTPConnection

from api.auth import ANONYMOUS, Auth, is_local_name, is_loopback
from api.tenants import Tenants
from tests.api.gateway import running
from translator.protocol.errors import AuthenticationError

KEYS = {"key-a": "a", "key-a2": "a", "schlüssel": "b"}


def auth(keys: dict[str, str], **options: bool) -> Auth:
    tenants = Tenants.of(keys)
    return Auth(lambda: tenants, **options)


def request(client: str | None = "127.0.0.1", **headers: str) -> HTTPConnection:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "headers": raw, "client": client and (client, 1234)})


@pytest.mark.parametrize(
    ("header", "tenant"),
    [
        ("Bearer key-a", "a"),
        ("bearer key-a2", "a"),
        ("BEARER   key-a ", "a"),
        ("Bearer schlüssel", "b"),
    ],
)
def test_a_key_names_its_tenant(header, tenant):
    assert auth(KEYS, allow_anonymous=False).tenant(request(authorization=header)) == tenant


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic key-a",
        "key-a",
        "Bearer key",
        "Bearer key-ab",
        "Bearer key-a key-a",
    ],
)
def test_everything_else_is_a_401_for_a_loopback_client_too(header):
    with pytest.raises(AuthenticationError) as refused:
        auth(KEYS, allow_anonymous=True).tenant(request(authorization=header))
    error = refused.value
    assert (error.status, error.type, error.code) == (
        401,
        "authentication_error",
        "invalid_api_key",
    )
    assert "key-a" not in error.message


@pytest.mark.parametrize("given", ["key-a", "schlüssel", "nobody's", "k"])
def test_every_key_is_compared_in_full_whichever_it_is(given, monkeypatch):
    """How long a refusal or a yes takes tells nothing about any key."""
    compared = []
    compare = hmac.compare_digest

    def counting(one, other):
        compared.append(one)
        return compare(one, other)

    monkeypatch.setattr("api.auth.hmac.compare_digest", counting)
    with contextlib.suppress(AuthenticationError):
        auth(KEYS, allow_anonymous=False).tenant(request(authorization=f"Bearer {given}"))
    assert compared == [key.encode() for key in KEYS]


@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:80", "[::1]:8080", "a.localhost"]
)
def test_without_keys_this_machine_is_served(client, host):
    assert auth({}, allow_anonymous=False).tenant(request(client, host=host)) == ANONYMOUS


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        ("10.0.0.1", {}),
        ("::ffff:10.0.0.1", {}),
        ("testclient", {}),
        (None, {}),
        ("127.0.0.1", {"host": "rebound.example:8080"}),
        ("127.0.0.1", {"host": "[bad"}),
        ("127.0.0.1", {"host": "localhost", "origin": "https://evil.example"}),
        ("127.0.0.1", {"host": "localhost", "origin": "null"}),
    ],
)
def test_without_keys_nobody_else_is(client, headers):
    with pytest.raises(AuthenticationError) as refused:
        auth({}, allow_anonymous=False).tenant(request(client, **headers))
    assert refused.value.status == 403
    assert auth({}, allow_anonymous=True).tenant(request(client, **headers)) == ANONYMOUS


def test_a_page_of_this_machine_may_ask():
    headers = {"host": "localhost:8080", "origin": "http://127.0.0.1:3000"}
    assert auth({}, allow_anonymous=False).tenant(request(**headers)) == ANONYMOUS


def test_names_and_addresses():
    assert not is_loopback("localhost")
    assert not is_local_name("")
    assert not is_local_name("localhost.example")


async def test_every_route_under_v1_wants_a_key_and_the_others_do_not(store, upstream):
    async with running(store, upstream, api_keys=KEYS) as gateway:
        rid = "resp_" + "0" * 32
        for method, path in (
            ("POST", "/v1/responses"),
            ("GET", f"/v1/responses/{rid}"),
            ("GET", f"/v1/responses/{rid}?stream=true"),
            ("POST", f"/v1/responses/{rid}/cancel"),
            ("DELETE", f"/v1/responses/{rid}"),
            ("GET", f"/v1/responses/{rid}/input_items"),
            ("GET", "/v1/models"),
        ):
            reply = await gateway.ask(method, path, b"not even read" if method == "POST" else None)
            assert (reply.status, reply.error["code"]) == (401, "invalid_api_key"), path
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await gateway.ask("GET", path)).status == 200
        assert upstream.requests == []
