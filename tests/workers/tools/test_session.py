"""Opening, asking and leaving, against servers that do one of them badly."""

import asyncio

import pytest

from tests.workers.tools.old_server import OldServer, hanging, refused, replied, stating
from tests.workers.tools.test_mcp import at, failing, runner
from workers.tools import session, wire
from workers.tools.addresses import AllowedHosts
from workers.tools.mcp import Mcp

SOON_S = 2.0
"""What is at once, on a busy machine; every limit of these tests is far longer."""


@pytest.fixture
async def run(mcp):
    """With the limits of a real installation; it may take its leave when the test is over."""
    running = runner(mcp, timeout_s=30)
    yield running
    await running.aclose()


# ---- leaving


async def test_a_result_does_not_wait_for_the_end_of_its_session(mcp, run: Mcp):
    mcp.answer = OldServer(DELETE=hanging)
    async with asyncio.timeout(SOON_S):
        assert (await run.call(at(mcp.url), "echo", {})).output == "fine"
        assert [tool["name"] for tool in (await run.list_tools(at(mcp.url))).tools] == ["echo"]


async def test_an_error_does_not_wait_for_the_end_of_its_session(mcp, run: Mcp):
    async def refusing(message):
        return 200, refused(message, -32000, "Not today")

    mcp.answer = OldServer(tools__call=refusing, DELETE=hanging)
    async with asyncio.timeout(SOON_S):
        failure = await failing(run.call(at(mcp.url), "echo", {}))
    assert failure.error == {"type": "mcp_protocol_error", "code": -32000, "message": "Not today"}


async def test_a_call_that_is_called_off_ends_at_once(mcp, run: Mcp):
    mcp.answer = old = OldServer(tools__call=hanging, DELETE=hanging)
    call = asyncio.create_task(run.call(at(mcp.url), "echo", {}))
    await old.until("tools/call")
    call.cancel()
    async with asyncio.timeout(SOON_S):
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_call_that_is_out_of_time_is_told_so_by_its_limit(mcp, run: Mcp):
    mcp.answer = OldServer(tools__call=hanging, DELETE=hanging)
    async with asyncio.timeout(SOON_S):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await run.call(at(mcp.url), "echo", {})


async def test_the_server_hears_that_a_session_is_over(mcp, run: Mcp):
    mcp.answer = old = OldServer()
    await run.call(at(mcp.url, authorization="Bearer tok-A"), "echo", {})
    async with asyncio.timeout(SOON_S):
        await old.until("DELETE")
    assert old.sessions[-1] == "session-1"
    assert mcp.headers[-1]["authorization"] == "Bearer tok-A"
    assert mcp.headers[-1]["mcp-protocol-version"] == "2025-06-18"


async def test_a_server_has_so_long_to_hear_that_a_session_is_over(mcp, run: Mcp, monkeypatch):
    monkeypatch.setattr(session, "FAREWELL_S", 0.05)
    mcp.answer = old = OldServer(DELETE=hanging)
    await run.call(at(mcp.url), "echo", {})
    async with asyncio.timeout(SOON_S):
        await old.until("no DELETE")


async def test_who_closes_does_not_wait_for_sessions_that_do_not_end(mcp):
    mcp.answer = old = OldServer(DELETE=hanging)
    running = runner(mcp, timeout_s=30)
    await running.call(at(mcp.url), "echo", {})
    await old.until("DELETE")
    async with asyncio.timeout(SOON_S):
        await running.aclose()


async def test_an_answer_stays_one_where_leaving_fails(mcp):
    def break_off():
        raise ConnectionError

    async def question(client):
        client._exit_stack.callback(break_off)
        return "an answer"

    sessions = session.Sessions(AllowedHosts(mcp.host), timeout_s=30)
    assert await sessions.ask(at(mcp.url), question) == "an answer"


# ---- what the SDK keeps to itself


@pytest.mark.parametrize("status", [303, 400, 401, 404, 500])
@pytest.mark.parametrize("method", ["server/discover", "tools/call"])
async def test_a_message_that_is_refused_over_sse_fails_its_call_at_once(
    mcp, run, monkeypatch, status, method
):
    monkeypatch.setattr(session, "DOUBT_S", 0.05)
    mcp.answer = old = OldServer(**{method.replace("/", "__"): stating(status)})
    async with asyncio.timeout(SOON_S):
        failure = await failing(run.call(at(f"http://{mcp.host}/sse"), "echo", {}))
    text = f"The MCP server answered with status {status}."
    assert failure.error == {"type": "http_error", "code": status, "message": text}
    assert old.seen.count("GET") == 1  # it speaks SSE: nothing is tried over HTTP


async def test_a_message_that_does_not_arrive_over_sse_fails_its_call_at_once(monkeypatch):
    monkeypatch.setattr(session, "DOUBT_S", 0.05)

    async def served(reader, writer):
        if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /messages\n\n")
            await reader.read()
        writer.close()

    async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
        host = "127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        running = Mcp(AllowedHosts(host), timeout_s=30)
        async with asyncio.timeout(SOON_S):
            failure = await failing(running.call(at(f"http://{host}/sse"), "echo", {}))
        assert failure.message == wire.UNREACHABLE_TEXT


async def test_a_message_that_is_refused_when_all_is_over_changes_nothing():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0) as asking:
            await asyncio.Event().wait()
    session._end(asking, wire.Watch(frozenset()), surely=True)
    assert asking.expired()


async def test_a_call_over_sse_to_an_old_server(mcp, run: Mcp):
    mcp.answer = OldServer()
    server = at(f"http://{mcp.host}/sse")
    assert (await run.call(server, "echo", {})).output == "fine"
    assert [tool["name"] for tool in (await run.list_tools(server)).tools] == ["echo"]


# ---- sessions that a server loses


def forgetting(times: int, *, reason: str | None = None):
    """Knows no session, so many times; says so in JSON-RPC as well, where there is a reason."""
    told = []

    async def answer(message):
        told.append(message)
        if len(told) <= times:
            return 404, reason and refused(message | {"id": None}, -32600, reason)
        return 200, replied(message, {"tools": [], "content": [{"type": "text", "text": "fine"}]})

    return answer


@pytest.mark.parametrize("reason", [None, "Session not found"])
async def test_a_session_that_the_server_lost_is_opened_again(mcp, run: Mcp, reason):
    mcp.answer = old = OldServer(tools__call=forgetting(1, reason=reason))
    assert (await run.call(at(mcp.url), "echo", {})).output == "fine"
    asked = [
        name for name, said in zip(old.sessions, old.seen, strict=True) if said == "tools/call"
    ]
    assert asked == ["session-1", "session-2"]
    async with asyncio.timeout(SOON_S):
        await old.until("DELETE")
    assert old.sessions[old.seen.index("DELETE")] == "session-2"


async def test_a_list_is_asked_for_again_in_a_new_session(mcp, run: Mcp):
    mcp.answer = old = OldServer(tools__list=forgetting(1))
    assert (await run.list_tools(at(mcp.url))).tools == []
    assert old.seen.count("initialize") == 2


async def test_a_server_that_loses_every_session_is_asked_twice(mcp, run: Mcp):
    mcp.answer = old = OldServer(tools__call=forgetting(9))
    failure = await failing(run.call(at(mcp.url), "echo", {}))
    assert failure.error["code"] == 404
    assert old.seen.count("tools/call") == 2


@pytest.mark.parametrize("status", [400, 410, 500])
async def test_a_call_that_may_have_run_is_not_made_again(mcp, run: Mcp, status):
    mcp.answer = old = OldServer(
        tools__call=stating(status), notifications__initialized=stating(404)
    )
    failure = await failing(run.call(at(mcp.url), "echo", {}))
    assert failure.error["code"] == status
    assert old.seen.count("tools/call") == 1


async def test_a_call_that_was_answered_is_not_made_again_although_by_a_404(mcp, run: Mcp):
    async def answer(message):
        return 404, refused(message, -32000, "No such item; the order was placed.")

    mcp.answer = old = OldServer(tools__call=answer)
    await failing(run.call(at(mcp.url), "echo", {}))
    assert old.seen.count("tools/call") == 1


async def test_a_404_without_a_session_is_an_answer(mcp, run: Mcp):
    mcp.answer = old = OldServer(tools__call=stating(404))
    old.has_sessions = False
    failure = await failing(run.call(at(mcp.url), "echo", {}))
    assert failure.error["code"] == 404
    assert old.seen.count("tools/call") == 1
