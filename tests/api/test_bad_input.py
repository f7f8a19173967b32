"""Whatever comes in, the answer is a 4xx in OpenAI's shape: never a 500, never the value that was refused."""

import json

import pytest

from tests.api.gateway import Gateway

SECRET = "S3CRET-value"

BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "cut off": b'{"model": "m", "input": "' + SECRET.encode(),
    "a list": b"[1]",
    "a string": json.dumps(SECRET).encode(),
    "a number": b"5",
    "null": b"null",
    "not UTF-8": b'{"model": "m", "input": "\xff\xfe"}',
    "UTF-16": '{"model": "m", "input": "x"}'.encode("utf-16"),
    "NaN": b'{"model": "m", "input": "x", "temperature": NaN}',
    "deep": b'{"model": "m", "input": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "binary": bytes(range(256)),
    "two values": b'{"model": "m", "input": "x"} {}',
}

FIELDS = [
    ({"input": "x"}, "model"),
    ({"model": 5, "input": "x"}, "model"),
    ({"model": "m"}, "input"),
    ({"model": "m", "input": 5}, "input"),
    ({"model": "m", "input": [5]}, "input"),
    ({"model": "m", "input": [{"type": "message", "role": SECRET, "content": "x"}]}, "input"),
    ({"model": "m", "input": "x", "stream": SECRET}, "stream"),
    ({"model": "m", "input": "x", "store": SECRET}, "store"),
    ({"model": "m", "input": "x", "background": 1}, "background"),
    ({"model": "m", "input": "x", "background": True, "store": False}, "store"),
    ({"model": "m", "input": "x", "tools": SECRET}, "tools"),
    ({"model": "m", "input": "x", "tools": [{"type": SECRET}]}, "tools"),
    (
        {"model": "m", "input": "x", "tool_choice": {"type": "function", "name": SECRET}},
        "tool_choice",
    ),
    ({"model": "m", "input": "x", "include": [SECRET]}, "include"),
    ({"model": "m", "input": "x", "metadata": {"k": {"deep": SECRET}}}, "metadata"),
    ({"model": "m", "input": "x", "max_output_tokens": 1}, "max_output_tokens"),
    ({"model": "m", "input": "x", "conversation": SECRET}, "conversation"),
    ({"model": "m", "input": "x", "previous_response_id": 5}, "previous_response_id"),
    ({"model": "m", "input": "x", "previous_response_id": [SECRET]}, "previous_response_id"),
]


@pytest.mark.parametrize("kind", BODIES)
async def test_a_body_that_is_no_object_in_json(gateway: Gateway, kind):
    reply = await gateway.ask("POST", "/v1/responses", BODIES[kind])
    assert reply.status == 400
    assert reply.error["type"] == "invalid_request_error"
    assert SECRET not in reply.body.decode()


async def test_a_field_that_is_wrong_is_named_and_its_value_is_not(gateway: Gateway, caplog):
    for body, param in FIELDS:
        for stream in (False, True):
            reply = await gateway.ask("POST", "/v1/responses", {"stream": stream, **body})
            assert reply.status == 400, (body, reply.body)
            assert (reply.error["param"] or "").startswith(param), (body, reply.error)
            assert param == "tool_choice" or SECRET not in reply.body.decode()
    assert SECRET not in caplog.text
    assert gateway.upstream.requests == []
    assert await gateway.keys("resp_") == []


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/responses/",
        "/v1/responses/a/b",
        "/v1/chat/completions",
        "/v1/responses/%2e%2e/x",
        "/%00",
        "/v1/responses/x/cancel/",
    ],
)
async def test_a_route_that_is_none_is_a_404(gateway: Gateway, path):
    for method in ("GET", "POST", "DELETE"):
        reply = await gateway.ask(method, path)
        assert (reply.status, reply.error["type"]) == (404, "invalid_request_error"), method


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/responses/compact"])
async def test_a_route_that_is_not_built_is_a_404(gateway: Gateway, path):
    for method in ("GET", "POST"):
        reply = await gateway.ask(method, path, {"model": "m"})
        assert (reply.status, reply.error["type"]) == (404, "invalid_request_error")


async def test_a_method_that_a_route_does_not_know_is_a_405(gateway: Gateway):
    rid = "resp_" + "0" * 32
    for method, path, allowed in (
        ("GET", "/v1/responses", "POST"),
        ("PUT", "/v1/responses", "POST"),
        ("POST", f"/v1/responses/{rid}", "DELETE, GET"),
        ("PATCH", f"/v1/responses/{rid}/cancel", "POST"),
        ("DELETE", "/v1/models", "GET"),
        ("POST", "/healthz", "GET, HEAD"),
    ):
        reply = await gateway.ask(method, path, b"{}")
        assert (reply.status, reply.error["type"]) == (405, "invalid_request_error"), path
        assert sorted(reply.headers["allow"].split(", ")) == allowed.split(", ")


async def test_a_websocket_handshake_meets_no_route(gateway: Gateway):
    reply = await gateway.ask(
        "GET", "/v1/responses", headers={"connection": "upgrade", "upgrade": "websocket"}
    )
    assert reply.status == 404
    assert reply.error["message"]


async def test_odd_ids_are_unknown_ids(gateway: Gateway):
    for rid in (
        "x" * 5000,
        "%00",
        "%ff",
        "..",
        "*",
        "resp_" + "g" * 32,
        "resp_" + "0" * 33,
        "%0d%0aset-cookie:x",
    ):
        reply = await gateway.get(rid)
        assert reply.status == 404, rid
        assert "set-cookie" not in reply.headers


async def test_a_refusal_is_short_however_long_the_value_is(gateway: Gateway):
    long = "x" * 500_000
    output = {"type": "function_call_output", "call_id": long, "output": "o"}
    for fields in ({"input": [output]}, {"previous_response_id": long}):
        reply = await gateway.create(**fields)
        assert reply.status == 400
        assert len(reply.body) < 1000
    reply = await gateway.get("y" * 5000)
    assert reply.status == 404
    assert len(reply.body) < 1000
