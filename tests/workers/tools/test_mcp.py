"""Listing and calling over the wire, against a real server of the SDK."""

import base64
import gzip
import json
import logging

import pytest

from respool import log
from tests.workers.tools.mcp_server import PNG, answering, serving
from workers.tools import mcp as mcp_module
from workers.tools import session, wire
from workers.tools.addresses import REFUSED_TEXT, AllowedHosts
from workers.tools.job import MAX_MESSAGE_CHARS, MAX_OUTPUT_BYTES, Failed
from workers.tools.mcp import Mcp
from workers.tools.servers import Server, server_of


def runner(mcp, timeout_s: float = 5) -> Mcp:
    return Mcp(AllowedHosts(mcp.host), timeout_s=timeout_s)


def at(url: str, **headers: str) -> Server:
    spec = {"servers": [{"url": url, "headers": headers}]}
    return server_of(json.dumps(spec).encode(), 0)


async def failing(work) -> Failed:
    with pytest.raises(Failed) as failed:
        await work
    return failed.value


# ---- lists


async def test_a_list_has_all_pages_and_every_field(mcp):
    mcp.pages = 3
    listing = await runner(mcp).list_tools(at(mcp.url))
    assert [tool["name"] for tool in listing.tools] == ["echo", "look", "page_1", "page_2"]
    assert listing.tools[1] == {
        "name": "look",
        "description": "The tool look",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    }
    assert listing.tools[0]["annotations"] is None
    assert listing.error is None


async def test_a_list_is_kept_per_server_and_credentials_for_a_short_time(mcp, monkeypatch):
    run = runner(mcp)
    await run.list_tools(at(mcp.url))
    await run.list_tools(at(mcp.url))
    assert mcp.lists == 1
    await run.list_tools(at(mcp.url, authorization="Bearer other"))
    await run.list_tools(at(f"{mcp.url}?tenant=2"))
    assert mcp.lists == 3
    monkeypatch.setattr(mcp_module, "LIST_TTL_S", 0)
    await run.list_tools(at(mcp.url))
    assert mcp.lists == 4


async def test_only_so_many_lists_are_kept(mcp, monkeypatch):
    monkeypatch.setattr(mcp_module, "MAX_LISTS", 2)
    run = runner(mcp)
    for tenant in (1, 2, 1, 3, 1, 2):
        await run.list_tools(at(f"{mcp.url}?tenant={tenant}"))
    assert mcp.lists == 4  # 1, 2, 3 and 2 again, which went when 3 came


@pytest.mark.parametrize(
    ("bound", "what"), [("MAX_PAGES", "5 pages of tools"), ("MAX_TOOLS", "5 tools")]
)
async def test_a_list_without_an_end_is_cut_off_and_says_at_what(mcp, monkeypatch, bound, what):
    mcp.pages = 10**6
    monkeypatch.setattr(mcp_module, bound, 5)
    failure = await failing(runner(mcp).list_tools(at(mcp.url)))
    assert failure.message == f"The MCP server lists more than {what}."
    assert mcp.lists <= 6


async def test_a_list_that_is_too_large_is_no_list(mcp, monkeypatch):
    monkeypatch.setattr(mcp_module, "MAX_OUTPUT_BYTES", 100)
    assert "larger" in (await failing(runner(mcp).list_tools(at(mcp.url)))).message


async def test_a_setting_of_the_client_leaves_names_and_schemas_and_results_as_they_are(mcp):
    mcp.names = ["echo", "list_issues"]
    mcp.schema["properties"]["string_default"] = {"type": "string", "default": "default"}
    server = at(
        f"{mcp.url}?mode=object&style=default",
        **{"X-MCP-Toolsets": "issues", "X-Format": "string", "X-Region": "default"},
    )
    listing = await runner(mcp).list_tools(server)
    assert [tool["name"] for tool in listing.tools] == mcp.names
    assert listing.tools[1]["input_schema"] == mcp.schema
    said = "region is default, an object of string issues"
    assert (await runner(mcp).call(server, "echo", {"text": said})).output == said


async def test_a_tool_named_with_the_secret_is_left_out_and_the_others_stay(mcp):
    mcp.names = ["echo", "get_S1-secret", "look"]
    mcp.schema["description"] = "S1-secret"
    listing = await runner(mcp).list_tools(at(mcp.url, authorization="S1-secret"))
    assert [tool["name"] for tool in listing.tools] == ["echo", "look"]
    assert listing.tools[0]["input_schema"] == {**mcp.schema, "description": "***"}


async def test_a_schema_with_numbers_past_64_bits_does_not_take_the_list_with_it(mcp):
    mcp.schema["properties"]["text"]["maximum"] = 10**30
    listing = await runner(mcp).list_tools(at(mcp.url))
    assert listing.tools[0]["input_schema"]["properties"]["text"]["maximum"] == 1e30
    mcp.schema["properties"]["text"]["maximum"] = 10**400
    assert (await runner(mcp).list_tools(at(f"{mcp.url}?again"))).tools == []


def test_a_schema_with_a_number_that_no_double_holds_is_left_out_and_not_changed():
    from mcp_types import Tool

    schema = {"type": "object", "default": float("inf")}  # as JSON's 1e999 is read
    assert mcp_module._described(Tool(name="x", inputSchema=schema), []) is None


# ---- calls


@pytest.mark.parametrize("path", ["mcp", "sse", "old"])
async def test_a_call_over_either_transport(mcp, path):
    server = at(f"http://{mcp.host}/{path}")
    outcome = await runner(mcp).call(server, "look", {"text": "é\u2028"})
    assert (outcome.ok, outcome.error) == (True, None)
    assert outcome.content == outcome.output == "first\nsecond\né\u2028"
    listing = await runner(mcp).list_tools(server)
    assert [tool["name"] for tool in listing.tools] == ["echo", "look"]


async def test_an_address_that_only_looks_like_sse_is_spoken_to_in_http(mcp):
    assert (await runner(mcp).call(at(mcp.url), "echo", {"text": "x"})).output == "x"
    mcp.answer = answering(405)
    failure = await failing(runner(mcp).call(at(f"http://{mcp.host}/sse"), "echo", {}))
    assert failure.error["type"] == "http_error"


async def test_a_call_is_not_preceded_by_a_list(mcp):
    await runner(mcp).call(at(mcp.url), "echo", {})
    assert (mcp.lists, mcp.calls) == (0, [("echo", {})])


async def test_structured_content_stands_in_for_texts_that_are_not_there(mcp):
    outcome = await runner(mcp).call(at(mcp.url), "structured", {"a": 1})
    assert json.loads(outcome.output) == {"given": {"a": 1}, "n": [1, 2]}
    outcome = await runner(mcp).call(at(mcp.url), "blank", {"a": 1})
    assert json.loads(outcome.output) == {"given": {"a": 1}}


async def test_images_come_beside_the_text_and_are_named_in_it(mcp):
    outcome = await runner(mcp).call(at(mcp.url), "parts", {})
    assert outcome.images == [f"data:image/png;base64,{PNG}"]
    assert outcome.output.split("\n") == [
        "before",
        "[image 1: image/png]",
        "[audio: audio/wav]",
        "[resource: file:///r]",
        "inside",
        "[resource: a://c]",
    ]


async def test_an_integer_past_64_bits_is_the_same_for_server_and_model(mcp):
    number = 123456789012345678901234567890
    outcome = await runner(mcp).call(at(mcp.url), "structured", {"k": number, "f": 0.5})
    assert mcp.calls == [("structured", {"k": number, "f": 0.5})]
    assert json.loads(outcome.output) == {"given": {"k": number, "f": 0.5}, "n": [1, 2]}


@pytest.mark.parametrize("path", ["mcp", "sse"])
@pytest.mark.parametrize(
    ("said", "read"),
    [
        (rb"a\ud800b", "a\ufffdb"),
        (rb"\uDFFF\ud83d\ude00\\ud800", "\ufffd\U0001f600\\ud800"),
        (rb"\ud800" * 20_000, "\ufffd" * 20_000),
    ],
    ids=["one", "among pairs", "many"],
)
async def test_halves_of_surrogate_pairs_are_replaced_one_for_one(mcp, path, said, read):
    mcp.swap = (b"MARK", said)
    outcome = await runner(mcp).call(at(f"http://{mcp.host}/{path}"), "echo", {"text": "MARK"})
    assert outcome.output == read


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ('text/html;x="\n', PNG),
        ("image/png", "!!notb64"),
        ("image/png", PNG[:-1]),
        ("image/png", ""),
        ("image/png", "\u0660" * 4),
        ("image/svg+xml", PNG),
        ("image/png", base64.b64encode(b"PNG S1-secret").decode()),
    ],
)
async def test_what_is_no_image_for_a_model_is_only_named(mcp, kind, data):
    mcp.image = (kind, data)
    outcome = await runner(mcp).call(at(mcp.url, authorization="S1-secret"), "picture", {})
    assert outcome.images is None
    assert outcome.output == "[an image that could not be passed on]"


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "image/webp", "image/gif"])
async def test_images_of_the_four_kinds_are_passed_on(mcp, kind):
    mcp.image = (kind, PNG)
    outcome = await runner(mcp).call(at(mcp.url), "picture", {})
    assert outcome.images == [f"data:{kind};base64,{PNG}"]


async def test_an_image_of_2_mib_is_too_large(mcp):
    mcp.image = ("image/png", PNG * (2 * MAX_OUTPUT_BYTES // len(PNG)))
    failure = await failing(runner(mcp).call(at(mcp.url), "picture", {}))
    assert failure.message == mcp_module.TOO_LARGE_TEXT


async def test_is_error_is_a_failure_with_its_text(mcp):
    failure = await failing(runner(mcp).call(at(mcp.url), "fail", {}))
    content = [{"type": "text", "text": "it broke"}]
    assert failure.message == "it broke"
    assert failure.error == {"type": "mcp_tool_execution_error", "content": content}
    assert (await failing(runner(mcp).call(at(mcp.url), "mute", {}))).message == "The tool failed."


async def test_an_error_of_the_protocol_has_its_code(mcp):
    failure = await failing(runner(mcp).call(at(mcp.url), "raise", {}))
    assert failure.error["type"] == "mcp_protocol_error"
    assert isinstance(failure.error["code"], int)
    assert failure.error["message"] == failure.message


async def test_an_output_of_2_mib_fails_and_one_at_the_bound_does_not(mcp):
    run = runner(mcp)
    failure = await failing(run.call(at(mcp.url), "big", {"bytes": 2 * MAX_OUTPUT_BYTES}))
    assert failure.message == mcp_module.TOO_LARGE_TEXT
    assert failure.error["type"] == "mcp_protocol_error"
    outcome = await run.call(at(mcp.url), "big", {"bytes": MAX_OUTPUT_BYTES})
    assert len(outcome.output) == MAX_OUTPUT_BYTES


@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_an_answer_without_an_end_is_cut_off(mcp, path):
    failure = await failing(
        runner(mcp).call(at(f"http://{mcp.host}/{path}"), "big", {"bytes": 9 * 2**20})
    )
    assert failure.message in (wire.TOO_LARGE_TEXT, session.UNREADABLE_TEXT)


async def test_a_tool_that_wants_its_arguments_as_headers_gets_them_after_a_look_at_the_list(mcp):
    place = {"type": "string", "x-mcp-header": "Place"}
    mcp.schema = {"type": "object", "properties": {"text": place}}
    outcome = await runner(mcp).call(at(mcp.url), "echo", {"text": "here"})
    assert outcome.output == "here"
    assert any(headers.get("mcp-param-place") == "here" for headers in mcp.headers)


# ---- what a server may not do


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_a_status_is_an_http_error_without_the_body(mcp, status):
    mcp.answer = answering(status, b"boom S3-secret")
    failure = await failing(runner(mcp).call(at(mcp.url), "echo", {}))
    assert failure.error == {
        "type": "http_error",
        "code": status,
        "message": f"The MCP server answered with status {status}.",
    }


async def test_what_is_not_mcp_is_a_failure_of_its_own(mcp):
    mcp.answer = answering(200, b"<html>", content_type="text/html")
    assert (await failing(runner(mcp).call(at(mcp.url), "echo", {}))).error["type"] == (
        "mcp_protocol_error"
    )
    mcp.answer = answering(200, b"{}", content_type="application/json")
    assert (await failing(runner(mcp).call(at(mcp.url), "echo", {}))).error["type"] == (
        "mcp_protocol_error"
    )


async def test_a_compressed_answer_is_not_unpacked(mcp):
    bomb = gzip.compress(b"0" * 10**6)
    mcp.answer = answering(200, bomb, content_type="application/json", content_encoding="gzip")
    failure = await failing(runner(mcp).call(at(mcp.url), "echo", {}))
    assert failure.message == wire.ENCODED_TEXT


async def test_nobody_there_is_told_as_such():
    run = Mcp(AllowedHosts("127.0.0.1:9"), timeout_s=2)
    failure = await failing(run.call(at("http://127.0.0.1:9/mcp"), "echo", {}))
    assert failure.error == {"type": "http_error", "code": 502, "message": wire.UNREACHABLE_TEXT}


async def test_a_server_that_is_silent_is_given_up(mcp):
    failure = await failing(runner(mcp, timeout_s=0.3).call(at(mcp.url), "wait", {}))
    assert failure.error["type"] in ("http_error", "mcp_protocol_error")


@pytest.mark.parametrize("path", ["mcp", "sse"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_origin_is_not_followed(mcp, status, path):
    async with serving() as other:
        run = Mcp(AllowedHosts(f"{mcp.host},{other.host}"), timeout_s=5)
        mcp.answer = answering(status, location=other.url)
        server = at(f"http://{mcp.host}/{path}", authorization="Bearer tok-A")
        failure = await failing(run.call(server, "echo", {}))
        assert failure.error["type"] == "http_error"
        assert failure.error["code"] == status
        assert other.headers == []
        assert other.host not in str(failure.error)


async def test_a_redirect_within_the_origin_is_followed(mcp):
    server = at(f"http://{mcp.host}/moved", authorization="Bearer tok-A")
    assert (await runner(mcp).call(server, "echo", {"text": "x"})).output == "x"
    assert mcp.headers[-1]["authorization"] == "Bearer tok-A"


@pytest.mark.parametrize(
    "url",
    ["http://{host}/mcp", "https://localhost/mcp", "https://127.0.0.1/", "https://no.invalid/"],
)
async def test_a_refused_address_gets_no_connection(mcp, url):
    run = Mcp(AllowedHosts(), timeout_s=5)
    failure = await failing(run.call(at(url.format(host=mcp.host)), "echo", {}))
    assert failure.message == REFUSED_TEXT
    assert failure.error == {"type": "http_error", "code": 403, "message": REFUSED_TEXT}
    assert mcp.headers == []


async def test_the_connection_goes_to_the_address_that_was_checked(mcp, monkeypatch):
    """A name that resolves to something else the second time is never asked a second time."""
    asked = []

    async def rebinding(origin):
        asked.append(origin.host)
        return ["127.0.0.2", "127.0.0.1"]  # nobody listens at the first

    monkeypatch.setattr(wire, "addresses_of", rebinding)
    name = f"rebind.invalid:{mcp.port}"
    run = Mcp(AllowedHosts(name), timeout_s=5)
    assert (await run.call(at(f"http://{name}/mcp"), "echo", {"text": "x"})).output == "x"
    assert set(asked) == {"rebind.invalid"}
    assert mcp.headers[0]["host"] == name


async def test_an_endpoint_at_another_origin_is_not_used(mcp):
    async with serving() as other:
        body = f"event: endpoint\ndata: {other.url}\n\n".encode()
        mcp.answer = answering(200, body, content_type="text/event-stream")
        run = Mcp(AllowedHosts(f"{mcp.host},{other.host}"), timeout_s=1)
        await failing(run.call(at(f"http://{mcp.host}/sse"), "echo", {}))
        assert other.headers == []


async def test_the_guard_itself_sends_nothing_to_another_origin(mcp):
    import ssl

    from workers.tools.addresses import origin_of

    origin = origin_of(mcp.url, AllowedHosts(mcp.host))
    for url in (
        f"http://localhost:{mcp.port}/mcp",
        f"https://{mcp.host}/mcp",
        "http://127.0.0.1:9/mcp",
        f"http://u:p@{mcp.host}/mcp",
    ):
        watch = wire.Watch(frozenset())
        client = wire.client_for(origin, {}, watch, ssl.create_default_context(), timeout_s=1)
        async with client:
            with pytest.raises(Exception, match="elsewhere"):
                await client.get(url)
        assert watch.trouble.message == wire.ELSEWHERE_TEXT
    assert mcp.headers == []


@pytest.mark.parametrize(
    "answer",
    [
        answering(200, b"<<TOKEN S1-secret>>", content_type="application/json"),
        answering(200, b'{"jsonrpc":"2.0","id":1,"result":5}', content_type="application/json"),
        answering(200, b"event: message\ndata: <<TOKEN>>\n\n", content_type="text/event-stream"),
        answering(200, b"\xff\xfe", content_type="application/json"),
        answering(200, b"hello", content_type="text/x-S1-secret"),
        answering(202),
    ],
    ids=["no JSON", "no message", "no event", "no UTF-8", "no type", "accepted"],
)
async def test_what_the_sdk_says_of_a_bad_answer_is_not_passed_on(mcp, answer):
    mcp.answer = answer
    failure = await failing(runner(mcp).list_tools(at(mcp.url)))
    assert failure.error == {
        "type": "mcp_protocol_error",
        "code": -32603,
        "message": session.UNREADABLE_TEXT,
    }


@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_a_result_of_the_wrong_shape_is_told_in_our_words(mcp, path):
    mcp.swap = (b'"content"', b'"context"')
    failure = await failing(
        runner(mcp, timeout_s=2).call(at(f"http://{mcp.host}/{path}"), "echo", {})
    )
    assert failure.message == session.UNREADABLE_TEXT


async def test_a_connection_that_ends_without_an_answer_is_told_as_such(mcp):
    mcp.answer = answering(200, content_type="text/event-stream")
    failure = await failing(runner(mcp).call(at(mcp.url), "echo", {}))
    assert failure.message == session.ENDED_TEXT


async def test_what_the_server_says_of_an_error_is_passed_on(mcp):
    mcp.swap = (b'"message":"', b'"message":"It says \\u00e9, ')
    failure = await failing(runner(mcp).call(at(mcp.url), "raise", {}))
    assert failure.message.startswith("It says é, ")
    body = b"""{"jsonrpc": "2.0", "id": null, "error":
        {"code": -32001, "message" : "in\\nlines"}}"""
    mcp.answer = answering(500, body, content_type="application/json")
    failure = await failing(runner(mcp).call(at(mcp.url), "echo", {}))
    assert failure.error == {"type": "mcp_protocol_error", "code": -32001, "message": "in\nlines"}


@pytest.mark.parametrize("said", ["é", "\U0001f600", "\n", '"', "a", "aé€\U0001f600"])
async def test_an_error_of_any_length_is_the_servers_own(mcp, said):
    body = {"code": -32001, "message": said * 10_000}
    for ascii_only in (True, False):
        answer = json.dumps(
            {"jsonrpc": "2.0", "id": None, "error": body}, ensure_ascii=ascii_only
        ).encode()
        mcp.answer = answering(500, answer, content_type="application/json")
        failure = await failing(runner(mcp).call(at(mcp.url), "echo", {}))
        assert failure.message == (said * MAX_MESSAGE_CHARS)[:MAX_MESSAGE_CHARS]


# ---- credentials


async def test_an_error_is_blanked_before_it_is_cut(mcp):
    secret = "S1-" + "secret" * 10
    for at_end in range(1, len(secret), 7):
        before = "x" * (MAX_MESSAGE_CHARS - at_end)
        body = {"code": -32001, "message": f"{before}{secret}"}
        answer = json.dumps({"jsonrpc": "2.0", "id": None, "error": body}).encode()
        mcp.answer = answering(500, answer, content_type="application/json")
        failure = await failing(runner(mcp).list_tools(at(mcp.url, authorization=secret)))
        assert failure.message == f"{before}***"[:MAX_MESSAGE_CHARS]


async def test_a_secret_is_found_in_whatever_form_it_comes_back(mcp):
    quoted = 'S1"sec\\ret'
    server = at(f"{mcp.url}?sk-abcdefghij&key=S%2f2%20secret", **{"x-key": quoted})
    run = runner(mcp)
    said = ("sk-abcdefghij", "S%2f2%20secret", "S/2 secret", "S%2F2%20secret", quoted)
    for text in said:
        assert (await run.call(server, "echo", {"text": f"<{text}>"})).output == "<***>"
        assert (await failing(run.call(server, "fail", {"text": text}))).message == "***"
        mcp.structure = {"a": [text], text: f"<{text}>"}
        outcome = await run.call(server, "raw", {})
        assert json.loads(outcome.output) == {"a": ["***"], "***": "<***>"}
    text = json.dumps({"inner": quoted})
    assert (await run.call(server, "echo", {"text": text})).output == '{"inner": "***"}'


async def test_credentials_go_to_the_server_and_nothing_else_of_the_client_does(mcp):
    spec = {
        "url": mcp.url,
        "authorization": "tok-A",
        "headers": {
            "X-Team": "blue",
            "X-User": "José",
            "Host": "evil",
            "Content-Length": "1",
            "connection": "x",
        },
    }
    server = server_of(json.dumps({"servers": [None, spec]}).encode(), 1)
    await runner(mcp).call(server, "echo", {})
    for headers in mcp.headers:
        assert headers["authorization"] == "Bearer tok-A"
        assert headers["x-team"] == "blue"
        assert headers["x-user"] == "José"
        assert headers["host"] == mcp.host
        assert "cookie" not in headers
        assert headers["accept-encoding"] == "identity"


def test_an_authorization_with_a_scheme_is_sent_as_it_is():
    for given, sent in (
        ("tok", "Bearer tok"),
        ("Basic abc=", "Basic abc="),
        ("Bearer t", "Bearer t"),
    ):
        spec = {"servers": [{"url": "https://a.test", "authorization": given}]}
        assert server_of(json.dumps(spec).encode(), 0).headers == {"authorization": sent}


@pytest.mark.parametrize(
    "spec",
    [
        {"url": "https://a.test", "headers": {"a\nb": "c"}},
        {"url": "https://a.test", "headers": {"a": "b\r\nx: y"}},
        {"url": "https://a.test", "authorization": "a\nb"},
        {"url": "https://a.test", "headers": {"a": 5}},
        {"headers": {}},
        "no table",
    ],
)
def test_credentials_that_would_break_a_request_are_refused_without_showing_them(spec):
    with pytest.raises(Failed) as failed:
        server_of(json.dumps({"servers": [spec]}).encode(), 0)
    assert "b" not in failed.value.message.split()


@pytest.mark.parametrize("secrets", [b"", b"{}", b"[]", b'{"servers":[]}', b"not json"])
@pytest.mark.parametrize("index", [0, None])
def test_a_server_that_nobody_knows_is_a_failed_call(secrets, index):
    with pytest.raises(Failed, match="not known"):
        server_of(secrets, index)


def test_secrets_are_found_wherever_they_came_from():
    spec = {
        "url": "https://a.test/mcp?api_key=S1-secret&v=1",
        "authorization": "S2-secret",
        "headers": {"x-key": "S3-secret"},
    }
    server = server_of(json.dumps({"servers": [spec]}).encode(), 0)
    found = {"S1-secret", "Bearer S2-secret", "S2-secret", "S3-secret"}
    assert found <= set(server.secrets)
    assert {text for text in server.secrets if "+" not in text and "%" not in text} == found


def test_a_server_shows_nothing_of_itself_in_a_log():
    server = at("https://a.test/mcp?key=S1-secret", **{"x-key": "S2-secret"})
    assert repr(server) == "Server()"


@pytest.mark.parametrize("path", ["mcp", "sse"])
@pytest.mark.parametrize("answer", [None, answering(500, b"boom"), answering(200, b"<html>")])
async def test_no_secret_is_ever_logged(mcp, path, answer):
    lines = []
    handler = logging.Handler(logging.DEBUG)
    handler.setFormatter(log.OneLine())
    handler.emit = lambda record: lines.append(handler.format(record))
    root, level = logging.getLogger(), logging.getLogger().level
    quiet = {name: logging.getLogger(name).level for name in log.SILENT}
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    log.hush()
    try:
        mcp.answer = answer
        server = at(f"http://{mcp.host}/{path}?key=S1-secret", authorization="Bearer S2-secret")
        run = runner(mcp)
        for work in (run.list_tools(server), run.call(server, "raise", {"x": "S4-secret"})):
            try:
                await work
            except Failed as failure:
                lines.append(str(failure.error))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        for name, kept in quiet.items():
            logging.getLogger(name).setLevel(kept)
    assert not [line for line in lines if "S1-secret" in line or "S2-secret" in line]


def test_the_errors_inside_a_group_are_found_in_order():
    a, b = ValueError("a"), KeyError("b")
    assert session.leaves_of(ExceptionGroup("x", [ExceptionGroup("y", [a]), b])) == [a, b]
