"""Requests that nobody would write: whatever comes in, there is an answer, it is no 500, and a refusal has OpenAI's shape.

The gateway runs in a thread of its own, as `respool serve` would run it, so that Hypothesis can ask it and shrink what
it finds.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.app import application
from respool.http import Http, bind
from streams.store import Store
from tests.api.gateway import Gateway, Listed, Reply, running
from tests.ingest.server import Seen, text_stream
from tests.ingest.server import serving as upstream_serving
from tests.stores import url_of
from translator.protocol.upstream import Upstream

T = TypeVar("T")

ASK_S = 10.0
"""For one request; it takes milliseconds."""

# One gateway serves all examples: that is what is tested.
fuzz = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def answer(seen: Seen) -> list[bytes]:
    if seen.path.endswith("/models"):
        return [b'{"object": "list", "data": [{"id": "m"}]}']
    return text_stream("an answer")


class Served:
    """A gateway on a loop of its own, for callers without one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._live(),))
        self._ready = threading.Event()
        self._over = asyncio.Event()
        self.gateway: Gateway
        self.port = 0
        self.rid = ""
        """A finished response."""

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(ASK_S)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ASK_S)

    async def _live(self) -> None:
        async with upstream_serving() as upstream, Store.open(self._url, "fuzz") as store:
            upstream.play(answer)
            known = Listed(
                Upstream("chat", upstream.url, "chat", models=("c",), custom_formats="validate"),
                Upstream("main", upstream.url, "responses"),
            )
            tools = {"web_search", "mcp"}
            async with running(store, upstream, upstreams=known, gateway_tools=tools) as gateway:
                self.gateway = gateway
                listener = bind("127.0.0.1", 0)
                http = Http(application(gateway.context), listener, drain_s=0)
                serving = asyncio.create_task(http.run())
                self.port = listener.getsockname()[1]
                self.rid = (await gateway.made())["id"]
                self._ready.set()
                await self._over.wait()
                http.cut()
                await serving

    def ask(self, method: str, path: str, body: bytes | None = None) -> Reply:
        return self.do(self.gateway.ask(method, path, body))

    def say(self, raw: bytes) -> bytes:
        """All that comes back for raw bytes, until the gateway closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=ASK_S) as client:
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            found = b""
            try:
                while piece := client.recv(65_536):
                    found += piece
            except ConnectionResetError:
                pass  # it closed on bytes that it would not read
            return found

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(ASK_S)
        self._loop.close()


@pytest.fixture(scope="module")
def served(request) -> Iterator[Served]:
    made = Served(url_of("fakeredis", request))
    made.start()
    yield made
    made.stop()


def decent(reply: Reply, *allowed: int) -> None:
    """An answer as the contract has it."""
    assert reply.status in (200, 204, *allowed) or 400 <= reply.status < 500, reply.body
    if reply.status >= 400:
        assert reply.error["message"]
        assert isinstance(reply.error["type"], str)


# ---- what is asked


words = st.sampled_from(
    [
        *("message", "user", "system", "assistant", "developer", "function_call", "reasoning"),
        *("function_call_output", "custom_tool_call", "custom_tool_call_output", "item_reference"),
        *("input_text", "output_text", "input_image", "refusal", "function", "custom", "mcp"),
        *("web_search", "web_search_call", "mcp_call", "auto", "none", "required", "allowed_tools"),
        *("grammar", "lark", "regex", "text", "json_schema", "x", "", "résumé", "a" * 70, "\x00"),
        *("http://127.0.0.1/x", "https://a.test", "data:image/png;base64,AA==", "completed"),
    ]
)
scalars = st.one_of(
    *(st.none(), st.booleans(), words, st.text(max_size=8)),
    *(st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
)
FIELDS = [
    *("type", "role", "content", "id", "call_id", "name", "arguments", "output", "input", "text"),
    *("status", "summary", "encrypted_content", "image_url", "annotations", "format", "syntax"),
    *("definition", "parameters", "strict", "server_label", "server_url", "require_approval"),
    *("allowed_tools", "headers", "authorization", "filters", "mode", "tools", "effort", "schema"),
]
things = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=5),
    ),
    max_leaves=14,
)
shaped = st.fixed_dictionaries({"type": words}, optional=dict.fromkeys(FIELDS[1:], things))
many = st.lists(shaped | things, max_size=4)
TOP = [
    *(
        "instructions",
        "tools",
        "tool_choice",
        "stream",
        "store",
        "background",
        "include",
        "metadata",
    ),
    *(
        "reasoning",
        "text",
        "previous_response_id",
        "prompt",
        "truncation",
        "max_tool_calls",
        "user",
    ),
    *("parallel_tool_calls", "temperature", "top_p", "service_tier", "stream_options", "unknown"),
    *("max_output_tokens", "conversation", "safety_identifier", "top_logprobs", "prompt_cache_key"),
]
bodies = st.fixed_dictionaries(
    {"model": st.sampled_from(["m", "c"]) | things, "input": words | many | things},
    optional={name: many if name == "tools" else things for name in TOP},
)


@fuzz
@given(bodies)
def test_whatever_a_body_holds_there_is_an_answer_and_no_500(served: Served, body: Any):
    # A Chat upstream that speaks Responses is a 502 for whoever got so far.
    decent(served.ask("POST", "/v1/responses", json.dumps(body).encode()), 502)


VALID = json.dumps(
    {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "é\\"}]}]}
).encode()


@fuzz
@given(st.integers(0, len(VALID)), st.integers(0, 9), st.binary(max_size=6))
def test_a_body_that_was_damaged_on_its_way_is_a_400_or_another_body(
    served: Served, at: int, cut: int, put: bytes
):
    decent(served.ask("POST", "/v1/responses", VALID[:at] + put + VALID[at + cut :]))


names = st.sampled_from(
    [
        *("stream", "starting_after", "include", "include[]", "include_obfuscation", "sse_ids"),
        *("order", "limit", "after", "before", "x", "é"),
    ]
)
raw_values = st.one_of(
    *(st.text(max_size=6), st.integers().map(str), st.binary(max_size=4)),
    st.sampled_from(
        ["true", "false", "asc", "desc", "0", "-1", "1" * 40, "reasoning", "%", "null"]
    ),
)
queries = st.lists(st.tuples(names, raw_values), max_size=4)


@fuzz
@given(queries, st.sampled_from(["", "/input_items", "/cancel"]), st.booleans(), raw_values)
def test_whatever_a_query_says_there_is_an_answer_and_no_500(
    served: Served, query: list[tuple[str, Any]], route: str, known: bool, name: Any
):
    rid = served.rid if known else quote(name, safe="") or "x"
    text = "&".join(f"{quote(key)}={quote(value)}" for key, value in query)
    method = "POST" if route == "/cancel" else "GET"
    decent(served.ask(method, f"/v1/responses/{rid}{route}?{text}"))


heads = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *(
                    b"authorization",
                    b"idempotency-key",
                    b"last-event-id",
                    b"content-type",
                    b"origin",
                ),
                *(b"content-length", b"transfer-encoding", b"content-encoding", b"expect", b"host"),
                *(b"connection", b"upgrade", b"accept", b"cookie", b"x"),
            ]
        )
        | st.binary(min_size=1, max_size=6),
        st.binary(max_size=12)
        | st.sampled_from(
            [b"chunked", b"gzip", b"0", b"-1", b"5", b"9" * 30, b"close", b"websocket"]
        ),
    ),
    max_size=5,
)
targets = st.sampled_from(
    [b"/v1/responses", b"/v1/models", b"/healthz", b"*", b"/", b"http://x/v1/models", b"/%zz?%"]
) | st.binary(min_size=1, max_size=8)


@fuzz
@given(
    st.sampled_from([b"GET", b"POST", b"DELETE", b"HEAD", b"OPTIONS", b"PUT", b"BREW", b"get"]),
    targets,
    heads,
    st.binary(max_size=12) | st.just(VALID),
)
def test_whatever_a_head_says_there_is_an_answer_and_no_500(
    served: Served, method: bytes, target: bytes, head: list[tuple[bytes, bytes]], body: bytes
):
    lines = b"".join(b"%s: %s\r\n" % pair for pair in head)
    said = served.say(b"%s %s HTTP/1.1\r\n%s\r\n%s" % (method, target, lines, body))
    for one in answers(said):
        status, rest = int(one[9:12]), one.partition(b"\r\n\r\n")[2]
        assert status < 500, one
        if status >= 400 and rest:
            error = json.loads(rest)["error"]
            assert set(error) == {"message", "type", "param", "code"}
    assert served.do(served.gateway.ask("GET", "/healthz")).status == 200


def answers(said: bytes) -> list[bytes]:
    """The answers on a connection; what follows the first may be to what was taken for a second request."""
    first, *others = said.split(b"HTTP/1.1 ")
    assert first == b"", said
    return [b"HTTP/1.1 " + one for one in others if not one.startswith(b"100 ")]
