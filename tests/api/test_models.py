import json
from typing import Any

import pytest

from api import models
from tests.api.gateway import Gateway, Listed, running
from tests.ingest.server import End, Server, serving
from translator.protocol.upstream import Upstream


def play(server: Server, *ids: str, **fields: Any) -> None:
    data = [{"id": name, "object": "model", "owned_by": "up"} for name in ids]
    body(server, {"object": "list", "data": data}, **fields)


def body(server: Server, value: Any, status: str = "200 OK", **headers: str) -> None:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    length = {"content-length": str(len(raw)), "content-type": "application/json"}
    server.play(raw, status=status, headers=length | headers)


@pytest.fixture
async def second():
    async with serving() as server:
        yield server


@pytest.fixture
async def two(store, upstream, second):
    listed = Listed(
        Upstream("small", upstream.url, "responses", "key-1", ("small-*", "both")),
        Upstream("rest", second.url + "/", "chat", None),
    )
    async with running(store, upstream, roles=False, upstreams=listed) as gateway:
        yield gateway


async def test_the_upstreams_list_says_that_parallel_calls_work(gateway: Gateway):
    play(gateway.upstream, "tiny", "small")
    reply = await gateway.ask("GET", "/v1/models")
    assert reply.json == {
        "object": "list",
        "data": [
            {
                "id": name,
                "object": "model",
                "owned_by": "up",
                "supports_parallel_tool_calls": True,
            }
            for name in ("tiny", "small")
        ],
    }
    seen = gateway.upstream.requests[0]
    assert seen.path == "/v1/models"
    assert seen.headers["authorization"] == "Bearer up-key"
    assert "cookie" not in seen.headers


async def test_one_model_is_found_by_its_id_whatever_is_in_that(gateway: Gateway):
    play(gateway.upstream, "tiny", "org/small:7b")
    for name in ("tiny", "org/small:7b"):
        reply = await gateway.ask("GET", f"/v1/models/{name}")
        assert (reply.status, reply.json["id"]) == (200, name)
        assert reply.json["supports_parallel_tool_calls"] is True
    reply = await gateway.ask("GET", "/v1/models/large")
    assert (reply.status, reply.error["code"]) == (404, "model_not_found")


async def test_several_lists_are_one_without_what_would_go_elsewhere(two: Gateway, second):
    play(two.upstream, "small-1", "both", "big")
    play(second, "both", "big", "small-2")
    data = (await two.ask("GET", "/v1/models")).json["data"]
    assert [entry["id"] for entry in data] == ["small-1", "both", "big"]
    assert "authorization" not in second.requests[0].headers


async def test_one_upstream_in_trouble_does_not_hide_the_others(two: Gateway, second, caplog):
    body(two.upstream, b"", "500 Internal Server Error")
    play(second, "big")
    data = (await two.ask("GET", "/v1/models")).json["data"]
    assert [entry["id"] for entry in data] == ["big"]
    assert "upstream small left out" in caplog.text


@pytest.mark.parametrize(
    ("value", "status", "code"),
    [
        (b"no JSON", "200 OK", "upstream_protocol_error"),
        ([], "200 OK", "upstream_protocol_error"),
        ({"data": {}}, "200 OK", "upstream_protocol_error"),
        ({"error": "up-key"}, "401 Unauthorized", "upstream_error"),
        ({"error": "x"}, "404 Not Found", "upstream_error"),
        (b"", "503 Service Unavailable", "upstream_error"),
    ],
)
async def test_trouble_is_a_502_without_key_or_host(gateway: Gateway, value, status, code):
    body(gateway.upstream, value, status)
    reply = await gateway.ask("GET", "/v1/models")
    assert (reply.status, reply.error["code"], reply.error["type"]) == (502, code, "server_error")
    assert b"up-key" not in reply.body
    assert b"127.0.0.1" not in reply.body


async def test_a_redirect_is_not_followed(gateway: Gateway):
    body(gateway.upstream, b"", "302 Found", location="http://127.0.0.1:9/steal")
    reply = await gateway.ask("GET", "/v1/models")
    assert reply.status == 502
    assert len(gateway.upstream.requests) == 1


async def test_an_upstream_that_is_not_there_is_a_502(gateway: Gateway):
    gateway.upstreams.listed = [Upstream("gone", "http://127.0.0.1:9/v1", "responses")]
    reply = await gateway.ask("GET", "/v1/models")
    assert (reply.status, reply.error["code"]) == (502, "upstream_error")


async def test_a_slow_list_is_a_504(gateway: Gateway, monkeypatch):
    monkeypatch.setattr(models, "TIMEOUT_S", 0.05)
    gateway.upstream.play(End.HANG)
    reply = await gateway.ask("GET", "/v1/models")
    assert (reply.status, reply.error["code"]) == (504, "upstream_timeout")


async def test_an_endless_list_is_cut(gateway: Gateway, monkeypatch):
    monkeypatch.setattr(models, "MAX_LIST_BYTES", 100)
    play(gateway.upstream, *(f"m{n}" for n in range(100)))
    reply = await gateway.ask("GET", "/v1/models")
    assert (reply.status, reply.error["code"]) == (502, "upstream_protocol_error")


async def test_entries_that_are_none_are_left_out(gateway: Gateway):
    body(gateway.upstream, {"data": [5, {}, {"id": 5}, {"id": "m", "root": "r"}]})
    data = (await gateway.ask("GET", "/v1/models")).json["data"]
    assert data == [{"id": "m", "root": "r", "supports_parallel_tool_calls": True}]


async def test_no_upstream_is_an_empty_list(gateway: Gateway):
    gateway.upstreams.listed = []
    assert (await gateway.ask("GET", "/v1/models")).json == {"object": "list", "data": []}
