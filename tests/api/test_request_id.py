import asyncio
import logging

import pytest

from api.request_id import RequestId, kind_of, loggable
from streams import metrics
from streams.faults import StoreAway
from tests.api.exchange import exchanging
from tests.api.gateway import Gateway, running
from tests.ingest.server import text_stream
from translator.protocol.errors import (
    AuthenticationError,
    LimitPassed,
    NotFound,
    Overloaded,
    ProtocolFault,
    RequestError,
    RespoolError,
    TooLarge,
)


async def test_each_answer_has_an_id_of_its_own_and_one_line_in_the_log(gateway: Gateway, caplog):
    gateway.upstream.play(*text_stream("prompt-and-answer"))
    with caplog.at_level(logging.DEBUG, "api"):
        replies = [
            await gateway.create(input="prompt-text"),
            await gateway.create(stream=True),
            await gateway.create(input=5),
            await gateway.ask("GET", "/nowhere?key=S3CRET"),
            await gateway.ask("PUT", "/v1/models"),
            await gateway.ask("GET", "/healthz", headers={"x-request-id": "theirs"}),
        ]
    ids = {reply.headers["x-request-id"] for reply in replies}
    assert len(ids) == len(replies)
    lines = [r.getMessage() for r in caplog.records if r.name == "api.request_id"]
    assert [line.split()[1:4] for line in lines] == [
        ["POST", "/v1/responses", "200"],
        ["POST", "/v1/responses", "200"],
        ["POST", "/v1/responses", "400"],
        ["GET", "/nowhere", "404"],
        ["PUT", "/v1/models", "405"],
        ["GET", "/healthz", "200"],
    ]
    assert {line.split()[0] for line in lines} == ids
    levels = [r.levelno for r in caplog.records if r.name == "api.request_id"]
    assert levels == [*[logging.INFO] * 5, logging.DEBUG], "a probe is no news while all is well"
    assert not any(word in caplog.text for word in ("S3CRET", "prompt-", "theirs"))


async def test_what_nobody_expected_is_a_neutral_500(caplog):
    async def broken(_scope, _receive, _send):
        raise KeyError("-".join(("S3CRET", "word")))

    async with exchanging(RequestId(broken)) as (exchange, task):
        await task
    assert exchange.status == 500
    assert exchange.headers[b"x-request-id"].startswith(b"req_")
    assert exchange.headers[b"content-type"] == b"application/json"
    assert b'"type":"server_error"' in exchange.body
    assert b'"param":null,"code":null' in exchange.body
    assert "S3CRET-word" not in exchange.body.decode() + caplog.text
    assert "unexpected KeyError" in caplog.text
    assert "test_request_id.py" in caplog.text


async def test_an_error_after_the_headers_cuts_the_answer(caplog):
    async def broken(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError

    async with exchanging(RequestId(broken)) as (exchange, task):
        await task
    assert len(exchange.sent) == 1
    assert "unexpected KeyError" in caplog.text


@pytest.mark.parametrize("begun", [False, True])
async def test_a_server_that_stops_tells_those_who_have_seen_nothing_and_cuts_the_others(begun):
    async def endless(_scope, _receive, send):
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    async with exchanging(RequestId(endless)) as (exchange, task):
        await asyncio.sleep(0)
        task.cancel()
        await task
    if begun:
        assert len(exchange.sent) == 1
    else:
        assert exchange.status == 503
        assert exchange.headers[b"x-should-retry"] == b"false"
        assert exchange.complete


async def test_other_protocols_pass():
    seen = []

    async def app(scope, _receive, _send):
        seen.append(scope["type"])

    async with exchanging(RequestId(app), type="lifespan") as (_, task):
        await task
    assert seen == ["lifespan"]


def test_a_path_in_the_log_is_one_short_line_without_a_query():
    assert loggable({"raw_path": b"/v1/x%0a?key=1", "path": "/v1/x\n"}) == "/v1/x%0a"
    assert loggable({"path": "/a\nb\u2028\u00e9"}) == "/a\\nb\\\\u2028\\\\xe9"
    assert len(loggable({"raw_path": b"/" + b"x" * 10_000, "path": ""})) == 200


async def test_requests_are_counted_by_route(store, upstream):
    async with running(store, upstream, roles=False) as gateway:
        path = "/v1/responses/{response_id}"
        before = metrics.value("requests_total", route=path, status="404")
        await gateway.get("resp_" + "0" * 32)
        assert metrics.value("requests_total", route=path, status="404") == before + 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AuthenticationError("no"), "key"),
        (NotFound.response("resp_x"), "not_found"),
        (TooLarge("no"), "too_large"),
        (LimitPassed("no"), "too_large"),
        (RequestError("no"), "request"),
        (Overloaded("no"), "overloaded"),
        (ProtocolFault("no"), "upstream"),
        (StoreAway("no"), "store"),
        (RespoolError("no", status=405), "request"),
        (RespoolError("no"), "other"),
    ],
)
def test_a_refusal_is_counted_by_whose_fault_it_is(error, kind):
    assert kind_of(error) == kind
    assert kind in metrics.LABELS["requests_refused_total"]["kind"]
