"""Spans as a collector gets them: one tree a response, whatever processes it went through."""

import asyncio
import json
import sys
import threading
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from respool import otel
from respool.replica import free_port
from respool.unusable import Unusable
from streams.tracing import Span, tracing
from tests.ingest.server import Play, Server
from tests.ingest.server import serving as upstream_serving
from tests.respool.errands import HIT, answer, call, message, results_of
from tests.respool.processes import all_of, replica
from tests.workers.tools.search_server import Engine, searching

pytestmark = pytest.mark.timeout(90)

ID, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
QUERIES = ("zebras", "okapis")


class Collector:
    """An OTLP receiver."""

    def __init__(self):
        self.spans = []
        self.headers = []
        self.raw = b""

    async def handle(self, request):
        self.headers.append(dict(request.headers))
        body = await request.read()
        self.raw += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {pair.key: pair.value for pair in resource.resource.attributes}
            roles = [one.string_value for one in named["respool.roles"].array_value.values]
            assert named["service.name"].string_value == "respool"
            for scope in resource.scope_spans:
                self.spans += [(roles, span) for span in scope.spans]
        return web.Response()

    def named(self, name):
        return [span for _, span in self.spans if span.name == name]


@asynccontextmanager
async def collecting():
    collector, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", collector.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


class Model(Server):
    """Searches twice at once, then says what it found."""

    def next_play(self):
        body = json.loads(self.requests[-1].body)
        if results_of(body):
            return Play(answer([message(0, "Found.")]))
        asked = [json.dumps({"query": query}) for query in QUERIES]
        return Play(answer([call(at, "web_search", text) for at, text in enumerate(asked)]))


async def asked(url, flags):
    """A blocking create as a part of a trace of the client's."""
    headers = {"traceparent": f"00-{ID}-{CALLER}-{flags}", "tracestate": "vendor=1"}
    body = {"model": "m", "input": "Animals?", "tools": [{"type": "web_search"}]}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url}/v1/responses", json=body) as reply,
    ):
        assert reply.status == 200, await reply.text()
        return await reply.json()


def facts(span):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}


async def test_the_trees_of_a_client_a_gateway_of_three_processes_and_an_upstream_are_one(tmp_path):
    engine = Engine()
    engine.hits = [HIT]
    async with (
        collecting() as (collector, endpoint),
        searching(engine),
        upstream_serving(Model()) as model,
    ):
        settings = {
            "UPSTREAM_URL": model.url,
            "OTLP_ENDPOINT": endpoint,
            "OTLP_HEADERS": "x-token=opensesame",
            "LOG_LEVEL": "DEBUG",
            "WEB_SEARCH_PROVIDER": "searxng",
            "WEB_SEARCH_URL": engine.url,
        }
        async with replica(tmp_path, "api", **settings) as door:
            crews = (("ingest", "tools"), ("translate",))
            others = [replica(tmp_path, *roles, **settings) for roles in crews]
            await all_of(*(other.start() for other in others))
            await all_of(*(other.ready() for other in others))
            await asked(door.url, "00")  # not sampled: nothing of it arrives
            response = await asked(door.url, "01")
            assert await all_of(*(other.stop() for other in others)) == [0, 0]
    assert len(engine.asked) == 4

    assert all(span.trace_id.hex() == ID for _, span in collector.spans)
    (whole,) = collector.named("response")
    assert whole.parent_span_id.hex() == CALLER
    rounds, tools = collector.named("round"), collector.named("tool")
    assert [facts(span)["respool.round"] for span in rounds] == [1, 2]
    assert len(tools) == 2
    assert len(collector.spans) == 5
    for span in (*rounds, *tools):
        assert span.parent_span_id == whole.span_id
        assert whole.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano < span.end_time_unix_nano
        assert facts(span)["respool.response"] == response["id"]
    assert facts(whole) == {
        "respool.response": response["id"],
        "respool.status": "completed",
        "respool.takeover": "false",
    }
    by = {span.name: roles for roles, span in collector.spans}
    assert by == {
        "response": ["translate"],
        "round": ["ingest", "tools"],
        "tool": ["ingest", "tools"],
    }
    # the upstream: below the round's span, or below the response's that nobody sees
    sent = [seen.headers["traceparent"] for seen in model.requests]
    assert [header[-2:] for header in sent] == ["00", "00", "01", "01"]
    assert [header[36:52] for header in sent[2:]] == [span.span_id.hex() for span in rounds]
    assert {header[3:35] for header in sent} == {ID}
    assert {seen.headers["tracestate"] for seen in model.requests} == {"vendor=1"}
    # what was said is in no span, and what the collector asks for in no log
    assert not [
        query for query in (*QUERIES, "Animals", "Found") if query.encode() in collector.raw
    ]
    assert {headers["x-token"] for headers in collector.headers} == {"opensesame"}
    for served in (door, *others):
        assert "opensesame" not in served.log()


async def test_nothing_of_a_trace_is_kept_or_sent_where_nobody_takes_spans(tmp_path, valkey_url):
    async with upstream_serving(Model()) as model:
        model.play(*answer([message(0, "Hello.")]))
        settings = {"UPSTREAM_URL": model.url, "WEB_SEARCH_PROVIDER": "brave"}
        settings |= {"WEB_SEARCH_API_KEY": "k", "REDIS_URL": valkey_url, "NAMESPACE": "untraced"}
        model.next_play = lambda: model.plays[0]
        async with replica(tmp_path, **settings) as served:
            await asked(served.url, "01")
    assert "traceparent" not in model.requests[0].headers
    assert "tracestate" not in model.requests[0].headers


def test_without_the_extra_an_endpoint_is_refused_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(Unusable, match=r"needs the extra: pip install 'respool\[otel\]'"):
        otel.start("http://127.0.0.1:1", {}, ratio=1.0, roles=["api"])


def test_a_collector_that_is_away_holds_up_nobodys_end(monkeypatch, caplog):
    monkeypatch.setattr(otel, "FLUSH_S", 0.2)
    others = set(threading.enumerate())
    exporting = otel.start(f"http://127.0.0.1:{free_port()}", {}, ratio=1.0, roles=["api"])
    at = tracing.begin(None, None)
    tracing.emit(Span("round", "client", at, 1.0, 2.0, True, {"respool.round": 1}))
    began = time.monotonic()
    exporting.close()
    assert time.monotonic() - began < 2.0
    assert not tracing.on
    assert "could not be sent in time" in caplog.text
    for thread in set(threading.enumerate()) - others:
        thread.join(5)
        assert not thread.is_alive()


async def test_a_failure_is_marked_and_an_own_trace_has_no_parent():
    async with collecting() as (collector, endpoint):
        exporting = otel.start(endpoint, {}, ratio=1.0, roles=["ingest"])
        try:
            at = tracing.begin(None, None)
            tracing.emit(Span("round", "client", at, 1.5, 2.0, True, {"respool.how": "reset"}))
        finally:
            await asyncio.to_thread(exporting.close)
    (span,) = collector.named("round")
    assert (span.trace_id.hex(), span.span_id.hex()) == (at.id, at.span)
    assert span.parent_span_id == b""
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1_500_000, 2_000_000)
    assert span.status.code == span.status.STATUS_CODE_ERROR
