"""What is taken for a credential, and what stays as it is."""

import base64

import pytest

from workers.tools.credentials import blanked, blanked_tool, credentials_of, looks_like_key

URL = "https://a.test/mcp"
UUID = "550e8400-e29b-41d4-a716-446655440000"
SETTINGS = [
    *("issues", "object", "string", "default", "Production", "pull_requests,issues,actions"),
    *("read-only", "internationalization", "2026-01-31T00:00:00Z", "claude-3-5-sonnet-20241022"),
    *("pullRequestsAndIssues", "1234567890123456", "eu-central-1.region.example.com"),
    *("application/vnd.api+json", "release-version2025", "a sentence of several plain words"),
]
KEYS = [
    *("sk-abcdefghij", "ghp_abcdefghijkl", "xoxb-12345678-abc", "github_pat_11ABCDEFG"),
    *(UUID, "q7Zr2Lk9Xw4Tn8Vb", "d41d8cd98f00b204e9800998ecf8427e", "QmFzZTY0U3RyaW5nMTIzNA=="),
    *("k3j9d8s7f6g5h4j3k2l1", "abcdefghijklmnopqrstuvwxyzabcdef", "eyJhbGciOiJ9.eyJzdWIiOi.c2ln"),
]


@pytest.mark.parametrize("value", SETTINGS)
def test_a_setting_of_the_client_is_no_secret(value):
    assert not looks_like_key(value)
    assert credentials_of(f"{URL}?mode={value}&{value}", {"x-mcp-toolsets": value}) == []


@pytest.mark.parametrize("value", KEYS)
def test_what_looks_like_a_key_is_one_wherever_it_stands(value):
    assert looks_like_key(value)
    for url, headers in (
        (f"{URL}?{value}", {}),
        (f"{URL}?v=1&{value}", {}),
        (f"{URL}?mode={value}", {}),
        (URL, {"x-tenant": value}),
        (URL, {"cookie": f"theme=dark; which={value}"}),
    ):
        assert value in credentials_of(url, headers)


@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "cookie", "x-api-key", "apikey", "x-apiKey", "access_token", "token"),
        *("x-auth", "x-oauth2", "x-client-secret", "password", "x-session-id", "db-credentials"),
        *("x-amz-signature", "X-GITHUB-TOKEN", "jwt", "pwd", "sid"),
    ],
)
def test_a_name_says_that_its_value_is_secret(name):
    assert "open-sesame" in credentials_of(URL, {name.lower(): "open-sesame"})
    assert "open-sesame" in credentials_of(f"{URL}?{name}=open-sesame", {})


@pytest.mark.parametrize(
    "name",
    [
        *("x-mcp-toolsets", "x-auth-type", "keywords", "author", "max_tokens", "x-session-mode"),
        *("path", "passage", "monkeys", "x-token-limit", "sidebar"),
    ],
)
def test_a_name_that_only_sounds_so_says_nothing(name):
    assert credentials_of(f"{URL}?{name}=100000", {name: "stateless"}) == []


def test_an_authorization_is_secret_in_all_its_parts():
    assert "issues" in credentials_of(URL, {"authorization": "Bearer issues"})
    token = base64.b64encode(b"someone:pass word").decode()
    found = credentials_of(URL, {"authorization": f"Basic {token}"})
    assert {f"Basic {token}", token, "someone:pass word", "pass word"} <= set(found)
    assert {"me:letmein", "letmein"} <= set(credentials_of("https://me:letmein@a.test/", {}))
    assert credentials_of(URL, {"authorization": "Basic no base64", "cookie": "a=b; sid=S-value"})[
        -1
    ] == ("S-value")


def test_a_percent_encoded_secret_is_found_as_sent_and_as_read():
    found = credentials_of(f"{URL}?key=a%2fb%20c%22d+e&x=1;token=second%20one", {})
    for form in ("a%2fb%20c%22d+e", 'a/b c"d e', "a%2Fb%20c%22d%20e", 'a/b c\\"d e', "second one"):
        assert form in found
    assert [len(text) for text in found] == sorted(map(len, found), reverse=True)


def test_values_that_are_too_short_protect_nothing():
    assert credentials_of(f"{URL}?key=12345", {"x-key": "abcde"}) == []


def test_results_are_blanked_at_any_depth():
    value = {"a sec-ret": ["x sec-ret y", {"b": "sec-ret"}], "n": 5, "t": None}
    assert blanked(value, ["sec-ret"]) == {"a ***": ["x *** y", {"b": "***"}], "n": 5, "t": None}


def a_tool(**changes):
    schema = {
        "type": "object",
        "title": "sec-ret t",
        "description": "with sec-ret",
        "properties": {
            "description": {"type": "string", "description": "a sec-ret", "examples": ["sec-ret"]},
            "title": True,
        },
        "required": ["description"],
    }
    tool = {"name": "t", "description": "d sec-ret", "input_schema": schema, "annotations": None}
    return tool | changes


def test_only_the_free_texts_of_a_tool_are_blanked():
    shown = blanked_tool(a_tool(annotations={"title": "sec-ret"}), ["sec-ret"])
    schema = shown["input_schema"]
    assert shown["description"] == "d ***"
    assert shown["annotations"] == {"title": "***"}
    assert (schema["title"], schema["description"]) == ("*** t", "with ***")
    assert schema["properties"]["description"] == {
        "type": "string",
        "description": "a ***",
        "examples": ["***"],
    }
    assert (schema["properties"]["title"], schema["required"]) == (True, ["description"])


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "get_sec-ret"},
        {"input_schema": {"properties": {"sec-ret": {}}}},
        {"input_schema": {"properties": {"a": {"enum": ["sec-ret"]}}}},
        {"input_schema": {"properties": {"a": {"default": {"b": "sec-ret"}}}}},
    ],
)
def test_a_tool_that_cannot_be_shown_without_the_secret_is_left_out(changes):
    assert blanked_tool(a_tool(**changes), ["sec-ret"]) is None


def test_a_secret_that_is_a_mere_word_changes_no_structure():
    tool = a_tool(name="list_issues", description="Lists issues of object")
    shown = blanked_tool(tool, ["issues", "object"])
    assert shown == {**tool, "description": "Lists *** of ***"}
