"""What a client gives for a tool server goes to that server, and nowhere else."""

import json
import logging
from typing import Any

import pytest

from tests.api.gateway import Gateway
from tests.api.tools.model import Part, Say, call, mcp_call, search
from tests.api.tools.rig import SEARCH, Rig
from tests.wait import wait_until
from tests.workers.tools.mcp_server import answering

ANSWER: list[Part] = [Say("Done.")]
TOKEN, HEADER, QUERY = "S1-secret-token", "S2-secret-header", "S3-secret-query"
SECRETS = [secret.encode() for secret in (TOKEN, HEADER, QUERY)]


def secret_server(rig: Rig, **fields: Any) -> dict[str, Any]:
    given = {"authorization": TOKEN, "headers": {"X-Key": HEADER}} | fields
    return rig.server(server_url=f"{rig.mcp.url}?key={QUERY}", **given)


async def values(rig: Rig) -> bytes:
    """All that the store holds, in one."""
    command = rig.store.connections.command
    found = []
    for key in await command("KEYS", f"{rig.store.keys.ns}:*"):
        kind = await command("TYPE", key)
        read: dict[bytes, tuple[object, ...]] = {
            b"string": ("GET", key),
            b"hash": ("HGETALL", key),
            b"list": ("LRANGE", key, 0, -1),
            b"set": ("SMEMBERS", key),
            b"zset": ("ZRANGE", key, 0, -1),
            b"stream": ("XRANGE", key, "-", "+"),
        }
        found += [key, repr(await command(*read[kind])).encode()]
    return b"\n".join(found)


def none_of(secrets: list[bytes], *texts: bytes) -> None:
    for text in texts:
        assert [secret for secret in secrets if secret in text] == []


async def test_credentials_go_with_every_request_to_the_server(rig: Rig, stream: bool):
    rig.model.script([mcp_call("echo", "a")], ANSWER)
    await rig.turn(stream, tools=[secret_server(rig)])
    sent = [headers for headers in rig.mcp.headers if headers]
    assert sent
    assert {headers["authorization"] for headers in sent} == {f"Bearer {TOKEN}"}
    assert {headers["x-key"] for headers in sent} == {HEADER}


async def test_no_credential_is_in_a_frame_in_a_get_or_in_the_store_after_the_end(
    rig: Rig, stream: bool, caplog: pytest.LogCaptureFixture
):
    """Although the server says them all again: in its list, in an answer and in an error."""
    for logger in ("api", "streams", "ingest", "translator", "workers"):
        caplog.set_level(logging.DEBUG, logger=logger)
    rig.mcp.schema["description"] = f"Ask with {TOKEN}"
    rig.mcp.confession = f"you sent {TOKEN}, {HEADER} and {QUERY}"
    rig.model.script([call("confess", "s"), call("confess", "s", fail=True)], ANSWER)
    turn = await rig.turn(stream, tools=[secret_server(rig)], parallel_tool_calls=True)
    rid = turn.response["id"]
    for item in turn.of("mcp_call"):
        said = item["output"] or item["error"]["content"][0]["text"]
        assert said == "you sent ***, *** and ***"
    (tool,) = turn.response["tools"]
    assert not {"authorization", "headers"} & set(tool)
    for path in ("", "?stream=true", "/input_items"):
        none_of(SECRETS, (await rig.gateway.get(rid, path)).body)
    none_of(SECRETS, *(request.body for request in rig.gateway.upstream.requests))
    kept = await values(rig)
    assert rid.encode() in kept
    none_of(SECRETS, turn.body, kept, caplog.text.encode())


async def test_a_setting_in_a_header_or_query_changes_no_name_schema_or_result(
    rig: Rig, stream: bool
):
    """Although they are words that names and schemas are full of."""
    rig.mcp.names = ["echo", "list_issues"]
    server = rig.server(
        server_url=f"{rig.mcp.url}?mode=object&style=default",
        headers={"X-MCP-Toolsets": "issues", "X-Format": "string"},
    )
    said = "region is default, of object string issues"
    rig.model.script([mcp_call("echo", said)], ANSWER)
    turn = await rig.turn(stream, tools=[server])
    (listed,) = turn.of("mcp_list_tools")
    assert [tool["name"] for tool in listed["tools"]] == rig.mcp.names
    assert listed["tools"][1]["input_schema"] == rig.mcp.schema
    assert turn.of("mcp_call")[0]["output"] == said
    assert list(rig.model.asked().results.values()) == [said]


async def test_credentials_are_kept_only_while_the_response_runs(rig: Rig, stream: bool):
    rig.model.script([mcp_call("hold", "a")], ANSWER)
    task = rig.starting(stream, tools=[secret_server(rig)])
    await wait_until(lambda: rig.mcp.running == 1)
    rid = await rig.gateway.only()
    where = rig.store.keys.secrets(rid)
    assert TOKEN.encode() in await rig.store.connections.command("HGET", where, "d")
    rig.mcp.doors["a"].set()
    turn = await task
    assert turn.response["status"] == "completed"
    assert await rig.store.connections.command("EXISTS", where) == 0
    none_of(SECRETS, await values(rig))


async def test_the_next_turn_needs_the_credentials_again(rig: Rig, stream: bool):
    """They are the request's: nothing of them is kept with the chain."""
    rig.model.script([mcp_call("echo", "a")], ANSWER)
    first = await rig.turn(stream, tools=[secret_server(rig)])
    rig.mcp.headers.clear()
    rig.model.script([mcp_call("echo", "b")], ANSWER)
    other = secret_server(rig, authorization="another-token", headers=None)
    await rig.turn(stream, tools=[other], previous_response_id=first.response["id"])
    assert {headers.get("authorization") for headers in rig.mcp.headers} == {"Bearer another-token"}
    assert {headers.get("x-key") for headers in rig.mcp.headers} == {None}


async def test_the_clients_own_authorization_goes_to_no_tool_server(rig: Rig, stream: bool):
    rig.model.script([mcp_call("echo", "a"), search("b")], ANSWER)
    rig.gateway.headers |= {"authorization": "Bearer sk-client", "cookie": "session=client"}
    await rig.turn(stream, tools=[rig.server(), SEARCH], parallel_tool_calls=True)
    seen = json.dumps([rig.mcp.headers, rig.engine.asked])
    assert "sk-client" not in seen
    assert "session=client" not in seen
    assert "up-key" not in seen


async def test_a_failing_list_names_no_credential(rig: Rig, stream: bool):
    rig.mcp.answer = answering(401, f"bad token {TOKEN} {HEADER}".encode())
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[secret_server(rig)])
    assert turn.of("mcp_list_tools")[0]["error"]
    none_of(SECRETS, turn.body, await values(rig))


@pytest.mark.parametrize(
    "wrong",
    [
        {"authorization": [TOKEN]},
        {"headers": {"x": [HEADER]}},
        {"headers": [HEADER]},
        {"server_url": None, "connector_id": "connector_gmail"},
        {"server_url": 5},
        {"require_approval": TOKEN},
        {"allowed_tools": TOKEN},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_a_refusal_names_the_field_and_not_what_stood_in_it(rig: Rig, wrong: dict[str, Any]):
    rig.model.script(ANSWER)
    tool = secret_server(rig) | wrong
    for stream in (True, False):
        reply = await rig.gateway.create(stream=stream, tools=[tool])
        assert (reply.status, reply.error["type"]) == (400, "invalid_request_error")
        assert reply.error["param"].startswith("tools")
        none_of(SECRETS, reply.body)
    assert rig.gateway.upstream.requests == []
    assert rig.mcp.headers == []


async def test_a_redirect_takes_no_credential_elsewhere(rig: Rig, stream: bool):
    """A server that points to another origin is left out; that origin hears nothing."""
    rig.mcp.answer = answering(307, location=f"{rig.engine.url}/mcp")
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[secret_server(rig)])
    assert turn.of("mcp_list_tools")[0]["tools"] == []
    assert rig.engine.asked == []


async def test_an_unstored_response_leaves_nothing_of_it(rig: Rig, stream: bool):
    rig.model.script([mcp_call("echo", "x")], ANSWER)
    await rig.turn(stream, tools=[secret_server(rig)], store=False)
    none_of(SECRETS, await values(rig))


async def test_credentials_in_an_input_item_are_hidden_as_well(rig: Rig, stream: bool):
    """`additional_tools` may declare a server, too."""
    item = {"type": "additional_tools", "role": "developer", "tools": [secret_server(rig)]}
    rig.model.script([mcp_call("echo", "a")], ANSWER)
    turn = await rig.turn(stream, input=[item, {"role": "user", "content": "Go."}])
    assert turn.of("mcp_call")[0]["output"] == "a"
    assert {headers["x-key"] for headers in rig.mcp.headers} == {HEADER}
    listed = await rig.gateway.get(turn.response["id"], "/input_items")
    none_of(SECRETS, turn.body, listed.body, await values(rig))


async def test_tools_that_are_not_set_up_are_refused(gateway: Gateway):
    url = "https://tools.test/mcp"
    server = {"type": "mcp", "server_label": "s", "server_url": url, "authorization": TOKEN}
    for tool in (SEARCH, server):
        reply = await gateway.create(tools=[tool])
        assert (reply.status, reply.error["param"]) == (400, "tools")
        assert tool["type"] in reply.error["message"]
        none_of(SECRETS, reply.body)
