"""What is stored of an upstream decides how it is spoken to: its path and its body come from one resolution."""

import json

import pytest

from ingest.upstream import UpstreamClient
from respool.settings import SettingsError, load
from respool.upstreams import Upstreams, api_of, upstreams_of
from tests.ingest.server import Server, serving
from tests.translator.bodies import request
from translator.outbound import check, upstream_body
from translator.protocol.upstream import Upstream

pytestmark = pytest.mark.anyio

CHAT_ID = "openai-compatible-chat-7f3a"
RESPONSES_ID = "openai-compatible-responses-7f3a"
ABSENT = object()

RESOLUTIONS = [
    # what is stored decides, in both directions
    (CHAT_ID, "responses", "responses"),
    (RESPONSES_ID, "chat", "chat"),
    (CHAT_ID, "chat", "chat"),
    (RESPONSES_ID, "responses", "responses"),
    ("mine", "chat", "chat"),
    ("mine", "responses", "responses"),
    # absent and null: the id
    (CHAT_ID, ABSENT, "chat"),
    (RESPONSES_ID, ABSENT, "responses"),
    (CHAT_ID, None, "chat"),
    (RESPONSES_ID, None, "responses"),
    # invalid: the id
    (CHAT_ID, "soap", "chat"),
    (RESPONSES_ID, "soap", "responses"),
    (CHAT_ID, 7, "chat"),
    (RESPONSES_ID, "", "responses"),
    (CHAT_ID, "Responses", "chat"),
    # an id that says nothing
    ("mine", ABSENT, "responses"),
    ("mine", None, "responses"),
    ("my-openai-compatible-chat-7", ABSENT, "responses"),
]
PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stored(upstream_id, api, url="http://127.0.0.1:1/v1"):
    """Settings of one upstream; null can only be said in JSON."""
    table = {"id": upstream_id, "base_url": url} | ({} if api is ABSENT else {"api": api})
    return load(upstreams=[table])


async def spoken_to(upstream: Upstream, server: Server):
    """The path and the body of a request to this upstream."""
    made = request(max_output_tokens=16)
    checked = check(made, api=upstream.api, custom_formats=upstream.custom_formats)
    body = upstream_body(made.body, made.input, checked.tools, api=upstream.api)
    server.play(b"data: [DONE]\n\n")
    async with (
        UpstreamClient() as client,
        client.open(upstream, upstream.api, json.dumps(body).encode()) as answer,
    ):
        while await answer.read():
            pass
    seen = server.requests[-1]
    return seen.path, json.loads(seen.body)


@pytest.mark.parametrize(("upstream_id", "api", "resolved"), RESOLUTIONS)
async def test_path_and_body_follow_from_what_is_stored_and_only_else_from_the_id(
    upstream_id, api, resolved
):
    async with serving() as server:
        (upstream,) = upstreams_of(stored(upstream_id, api, server.url))
        assert upstream.api == resolved
        path, body = await spoken_to(upstream, server)
    assert path == PATHS[resolved]
    assert ("messages" in body) is (resolved == "chat")
    assert ("input" in body) is (resolved == "responses")
    assert upstream.custom_formats == ("validate" if resolved == "chat" else "reject")


@pytest.mark.parametrize("api", ["soap", 7, "", "Chat"])
def test_an_invalid_dialect_of_an_id_that_says_nothing_is_a_fault(api):
    assert api_of("mine", api) is None
    with pytest.raises(SettingsError, match="api must be 'responses' or 'chat'"):
        upstreams_of(stored("mine", api))


async def test_an_edited_dialect_takes_effect_for_the_next_request(folder):
    file = folder / "respool.toml"
    async with serving() as server:

        def write(api: str) -> None:
            text = f"[[upstreams]]\nid = '{CHAT_ID}'\nbase_url = '{server.url}'\n"
            file.write_text(text + (f"api = '{api}'\n" if api else ""))

        write("")
        upstreams = Upstreams(load())
        paths = []
        for api in ("", "responses", "chat", "soap soap"):
            write(api)
            upstream = upstreams.resolve("tiny")
            assert upstream is not None
            paths.append((await spoken_to(upstream, server))[0])
    chat, responses = PATHS["chat"], PATHS["responses"]
    assert paths == [chat, responses, chat, chat]


@pytest.mark.parametrize(
    ("everywhere", "own", "resolved"),
    [
        (None, None, "none"),
        ("reasoning", None, "reasoning"),
        ("reasoning", "none", "none"),
        (None, "reasoning_content", "reasoning_content"),
    ],
)
def test_where_reasoning_goes_is_said_by_the_upstream_and_else_for_all(
    monkeypatch, everywhere, own, resolved
):
    monkeypatch.setenv("RESPOOL_UPSTREAM_URL", "http://127.0.0.1:1/v1")
    table = {"id": "a", "base_url": "http://127.0.0.1:2/v1", "reasoning_history": own}
    first, rest = upstreams_of(load(upstreams=[table], reasoning_history=everywhere))
    assert first.reasoning_history == resolved
    assert rest.reasoning_history == (everywhere or "none")
