"""What the debug page asks: both logs of a response, looked at from the inside, for its own tenant and nobody else."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from api.debug import folding
from api.debug.folding import KEPT, Foldings
from api.debug.inspection import TEXT_CHARS, shortened
from api.debug.rows import row
from streams import recording, transcript
from streams.store import Store
from tests.api.gateway import Gateway, data_of, running
from tests.api.tools.model import Say, mcp_call, search
from tests.api.tools.rig import CUSTOM, SEARCH, Rig
from tests.browser.stage import stage
from tests.ingest.server import Server, event, text_stream
from tests.stall import longest_stall
from tests.workers.team import seal
from translator.protocol.entries import Entry, Kind

API = "/debug/api/responses"
KEYS = {"key-a": "a", "key-b": "b"}
A, B = {"authorization": "Bearer key-a"}, {"authorization": "Bearer key-b"}
SUFFIXES = (
    "",
    "/log",
    "/entries/1",
    "/frames",
    "/frames/0",
    "/state?after=1",
    "/replay",
    "/export",
)
ROW = ("n", "kind", "t", "round", "attempt", "size", "name", "said", "frames")
STALL_S = 0.03


@pytest.fixture
async def gateway(store: Store, upstream: Server):
    async with running(store, upstream, debug_ui=True) as made:
        yield made


async def whole_log(gateway: Gateway, rid: str, limit: int = 2_000) -> dict[str, Any]:
    """All pages of a log as one."""
    rows: list[dict[str, Any]] = []
    while True:
        reply = await gateway.ask("GET", f"{API}/{rid}/log?after={len(rows)}&limit={limit}")
        page = reply.json
        rows += [dict(zip(ROW, one, strict=True)) for one in page["rows"]]
        if not page["more"]:
            return {**page, "rows": rows}


async def test_without_the_setting_there_is_no_such_route(store, upstream):
    upstream.play(*text_stream("x"))
    async with running(store, upstream) as gateway:
        rid = (await gateway.made())["id"]
        for path in ("/debug", "/debug/", "/debug/app.js", API, f"{API}/{rid}", f"{API}/{rid}/log"):
            assert (await gateway.ask("GET", path)).status == 404, path


async def test_the_list_has_the_newest_first_and_only_ones_that_are_kept(gateway, upstream):
    upstream.play(*text_stream("x"))
    made = [(await gateway.made(model=f"m{n}"))["id"] for n in range(3)]
    await gateway.made(store=False)
    reply = await gateway.ask("GET", API)
    assert [one["id"] for one in reply.json["data"]] == made[::-1]
    first = reply.json["data"][0]
    assert (first["model"], first["status"], first["done"]) == ("m2", "completed", True)
    assert 0 < first["created"] <= first["ended"] <= reply.json["now"]
    assert first["frames"] == len((await gateway.get(made[2], "?stream=true")).frames) - 1
    assert reply.headers["cache-control"] == "no-store"
    short = await gateway.ask("GET", f"{API}?limit=1")
    assert [one["id"] for one in short.json["data"]] == made[:1:-1]
    assert (await gateway.ask("GET", f"{API}?limit=0")).error["param"] == "limit"


async def test_every_public_frame_is_told_of_the_entry_that_it_came_from(gateway, upstream):
    upstream.play(*text_stream("Hel", "lo"))
    rid = (await gateway.made())["id"]
    log = await whole_log(gateway, rid)
    frames = (await gateway.get(rid, "?stream=true")).frames[:-1]
    assert [one["n"] for one in log["rows"]] == list(range(1, len(log["rows"]) + 1))
    assert sum(one["frames"] for one in log["rows"]) == len(frames) == log["state"]["frames"]
    causes = [one for one in log["rows"] for _ in range(one["frames"])]
    for cause, frame in zip(causes, map(data_of, frames), strict=True):
        if frame["type"].endswith("text.delta"):
            assert (cause["name"], cause["said"]) == (frame["type"], frame["delta"])
    kinds = [one["kind"] for one in log["rows"] if one["kind"] != "frame"]
    assert kinds[:4] == ["request", "round", "attempt", "opened"]


async def test_a_log_read_in_small_pages_is_the_same(gateway, upstream):
    upstream.play(*text_stream(*"some letters"))
    rid = (await gateway.made())["id"]
    assert (await whole_log(gateway, rid, limit=3))["rows"] == (await whole_log(gateway, rid))[
        "rows"
    ]


async def test_a_log_is_followed_while_the_response_runs(gateway, upstream):
    go = asyncio.Event()
    events = text_stream(*"some letters")
    upstream.play(*events[:6], go, *events[6:])
    async with gateway.creating(stream=True) as live:
        await live.until(b'"delta":"m"')
        part = await whole_log(gateway, live.rid)
        assert not part["state"]["done"]
        go.set()
        await live.rest()
        whole = await whole_log(gateway, live.rid)
    assert whole["rows"][: len(part["rows"])] == part["rows"]
    assert whole["state"]["done"]
    assert sum(one["frames"] for one in whole["rows"]) == whole["state"]["frames"]


async def test_bytes_are_given_as_they_lie_in_the_logs(gateway, upstream, store):
    upstream.play(*text_stream("<script>alert(1)</script>"))
    rid = (await gateway.made())["id"]
    held = await recording.read(store.logs, rid)
    for entry in held.entries:
        reply = await gateway.ask("GET", f"{API}/{rid}/entries/{entry.n}")
        assert reply.body == entry.data
        assert reply.headers["content-type"] == "application/octet-stream"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in reply.headers["content-security-policy"]
    for frame in held.frames:
        assert (await gateway.ask("GET", f"{API}/{rid}/frames/{frame.seq}")).body == frame.data
    past = (f"entries/{len(held.entries) + 1}", "entries/0", f"frames/{len(held.frames)}")
    for path in past:
        assert (await gateway.ask("GET", f"{API}/{rid}/{path}")).status == 404, path
    for path in ("entries/-1", "entries/x", "frames/-1"):
        assert (await gateway.ask("GET", f"{API}/{rid}/{path}")).status == 400, path


async def test_public_frames_are_told_in_pages(gateway, upstream):
    upstream.play(*text_stream(*"some letters"))
    rid = (await gateway.made())["id"]
    *frames, _ = (await gateway.get(rid, "?stream=true")).frames
    found: list[str] = []
    more = True
    while more:
        path = f"{API}/{rid}/frames?after={len(found) - 1}&limit=4"
        page = (await gateway.ask("GET", path)).json
        found += page["frames"]
        more = page["more"]
    assert [frame.encode() for frame in found] == frames
    assert (await gateway.ask("GET", f"{API}/{rid}/frames")).json == {
        "frames": found,
        "more": False,
    }
    past = await gateway.ask("GET", f"{API}/{rid}/frames?after={len(found) - 1}")
    assert past.json == {"frames": [], "more": False}
    assert (await gateway.ask("GET", f"{API}/{rid}/frames?after=-2")).error["param"] == "after"


async def test_the_machines_state_is_told_after_any_entry_in_any_order(gateway, upstream):
    upstream.play(*text_stream("Hel", "lo"))
    rid = (await gateway.made())["id"]
    rows = (await whole_log(gateway, rid))["rows"]
    deltas = [one["n"] for one in rows if one["name"].endswith("text.delta")]

    async def text(n: int) -> str:
        state = (await gateway.ask("GET", f"{API}/{rid}/state?after={n}")).json["state"]
        return state["round"]["items"][0]["parts"][0]["text"]

    for n, expected in ((deltas[1], "Hello"), (deltas[0], "Hel"), (deltas[1], "Hello")):
        assert await text(n) == expected
    last = (await gateway.ask("GET", f"{API}/{rid}/state?after={len(rows)}")).json["state"]
    assert (last["phase"], last["status"]) == ("ended", "completed")
    for n in (0, len(rows) + 1):
        reply = await gateway.ask("GET", f"{API}/{rid}/state?after={n}")
        assert reply.error["param"] == "after"


def test_a_long_text_of_the_state_has_its_two_ends():
    long = "a" * TEXT_CHARS + "b" * TEXT_CHARS
    said = shortened({"items": [{"text": long, "n": 1}]})["items"][0]
    assert said["n"] == 1
    assert len(said["text"]) < TEXT_CHARS + 100
    assert said["text"].startswith("aaa")
    assert said["text"].endswith("bbb")
    assert "8,000 characters left out" in said["text"]


async def test_a_replay_is_identical_and_tells_the_first_difference(gateway, upstream, store):
    upstream.play(*text_stream("Hel", "lo"))
    rid = (await gateway.made())["id"]
    held = await recording.read(store.logs, rid)
    same = (await gateway.ask("GET", f"{API}/{rid}/replay")).json
    assert same == {
        "identical": True, "done": True, "entries": len(held.entries), "frames": len(held.frames),
    }  # fmt: skip
    # The same log with another frame in it, as other code would have written it.
    key, seq = store.keys.output(rid), len(held.frames) - 3
    await store.connections.command("XDEL", key, *(f"{f.seq}-1" for f in held.frames[seq:]))
    await store.connections.command("DEL", key)
    for frame in held.frames:
        data = frame.data.replace(b"Hello", b"Hallo") if frame.seq >= seq else frame.data
        end = ("e", 1) if frame.terminal else ()
        await store.connections.command("XADD", key, f"{frame.seq}-1", "d", data, *end)
    await store.connections.command("PEXPIRE", key, 60_000)
    found = (await gateway.ask("GET", f"{API}/{rid}/replay")).json
    assert (found["identical"], found["seq"], found["round"]) == (False, seq, 0)
    assert "Hallo" in found["stored"]["text"]
    assert found["refolded"]["text"].encode() == held.frames[seq].data
    log = await whole_log(gateway, rid)
    assert log["rows"][found["entry"] - 1]["frames"]


async def test_an_export_is_the_whole_response(gateway, upstream, store):
    upstream.play(*text_stream("Hello"))
    rid = (await gateway.made())["id"]
    reply = await gateway.ask("GET", f"{API}/{rid}/export")
    assert reply.headers["content-disposition"] == f'attachment; filename="{rid}.respool"'
    told = transcript.recording_of(transcript.read(reply.body))
    held = await recording.read(store.logs, rid)
    assert (told.entries, told.frames) == (held.entries, held.frames)


async def test_packed_logs_are_shown_as_they_were(gateway, upstream, store, store_url, namespace):
    upstream.play(*text_stream(*"some letters"))
    rid = (await gateway.made())["id"]
    paths = ("log", "entries/3", "frames", "frames/2", "state?after=9", "replay", "export")

    async def told(one: Gateway) -> list[bytes]:
        replies = [await one.ask("GET", f"{API}/{rid}/{path}") for path in paths]
        assert {reply.status for reply in replies} == {200}
        return [re.sub(rb'"(now|expires)":\d+|"sealed":\w+', b"", reply.body) for reply in replies]

    before = await told(gateway)
    await seal(store, rid)
    assert await told(gateway) == before
    # And in a process that has folded nothing of it yet.
    async with (
        Store.open(store_url, namespace) as second,
        running(second, upstream, roles=False, debug_ui=True) as other,
    ):
        assert await told(other) == before


async def test_what_was_asked_is_summed_up(gateway, upstream):
    upstream.play(*text_stream("x"))
    tools = [CUSTOM]
    rid = (await gateway.made(tools=tools))["id"]
    found = (await gateway.ask("GET", f"{API}/{rid}")).json
    assert found["upstream"] == {"id": "main", "api": "responses"}
    assert found["tools"] == [{"type": "custom", "name": "shell"}]
    assert (found["model"], found["translators"]) == ("m", 1)
    assert found["entries"] == (await whole_log(gateway, rid))["state"]["entries"]


async def test_every_route_is_for_the_responses_own_tenant(store, upstream):
    upstream.play(*text_stream("private"))
    async with running(store, upstream, debug_ui=True, api_keys=KEYS) as gateway:
        made = await gateway.ask("POST", "/v1/responses", {"model": "m", "input": "x"}, headers=A)
        rid = made.json["id"]
        unknown = "resp_" + "0" * 32
        for suffix in SUFFIXES:
            path = f"{API}/{rid}{suffix}"
            assert (await gateway.ask("GET", path, headers=A)).status == 200, suffix
            assert (await gateway.ask("GET", path)).status == 401, suffix
            foreign = await gateway.ask("GET", path, headers=B)
            assert foreign.status == 404, suffix
            never = await gateway.ask("GET", path.replace(rid, unknown), headers=B)
            assert never.body.replace(unknown.encode(), rid.encode()) == foreign.body
        assert (await gateway.ask("GET", API)).status == 401
        assert (await gateway.ask("GET", API, headers=B)).json["data"] == []
        (own,) = (await gateway.ask("GET", API, headers=A)).json["data"]
        assert own["id"] == rid
        # The page itself holds nothing, and a browser that opens it cannot send a key.
        assert (await gateway.ask("GET", "/debug")).status == 200


async def test_an_unstored_response_is_nobodys_to_look_at(gateway, upstream):
    upstream.play(*text_stream("x"))
    rid = (await gateway.made(store=False))["id"]
    for suffix in SUFFIXES:
        assert (await gateway.ask("GET", f"{API}/{rid}{suffix}")).status == 404, suffix


async def test_what_an_open_page_asks_all_the_time_does_not_fill_the_log(gateway, upstream, caplog):
    upstream.play(*text_stream("x"))
    rid = (await gateway.made())["id"]
    caplog.set_level("INFO", "api.request_id")
    caplog.clear()
    for path in ("", f"/{rid}/log", f"/{rid}/frames", f"/{rid}/state?after=1"):
        assert (await gateway.ask("GET", API + path)).status == 200
    assert caplog.records == []
    await gateway.ask("GET", f"{API}/{rid}/export")
    assert len(caplog.records) == 1


async def test_without_keys_the_page_is_for_this_machine_only(gateway):
    for path in ("/debug", "/debug/", "/debug/app.js", API):
        reply = await gateway.ask("GET", path, headers={"host": "elsewhere.test"})
        assert reply.status == 403, path


async def test_the_pages_files_may_run_nothing_but_themselves(gateway):
    reply = await gateway.ask("GET", "/debug")
    assert reply.status == 200
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert b"<script type" in reply.body
    assert not re.search(rb"<script(?![^>]*src=)|\son\w+=|style=", reply.body)
    again = await gateway.ask("GET", "/debug", headers={"if-none-match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    named = set(re.findall(rb'(?:src|href)="debug/([a-z]+\.[a-z]+)"', reply.body))
    assert named == {b"app.js", b"style.css", b"icon.svg"}
    for name in named:
        assert (await gateway.ask("GET", f"/debug/{name.decode()}")).status == 200
    for name in ("nothing.js", "..%2fpage.py", "__init__.py"):
        assert (await gateway.ask("GET", f"/debug/{name}")).status == 404


async def test_the_address_with_a_slash_leads_to_the_page(gateway):
    async with gateway.http.get(f"{gateway.url}/debug/", allow_redirects=False) as reply:
        assert (reply.status, reply.headers["location"]) == (308, "../debug")


def test_the_page_listens_for_every_event_that_is_documented():
    docs = Path(__file__).parents[2] / "docs" / "events.md"
    table = docs.read_text().partition("## Out")[2].partition("## In")[0]
    documented = set(re.findall(r"`(response\.[a-z_.]+)`", table))
    source = (Path(__file__).parents[2] / "api/debug/page/events.js").read_text()
    listed = source.partition("EVENTS = [")[2].partition("];")[0]
    named = set()
    for group, phases in re.findall(r'call\("(\w+)", ([^)]+)\)', listed):
        named |= {f"response.{group}.{phase}" for phase in re.findall(r'"([\w.]+)"', phases)}
    lives = re.search(r"\.\.\.\[([^\]]+)\]\.map", listed)
    assert lives
    named |= {f"response.{life}" for life in re.findall(r'"(\w+)"', lives[1])}
    assert named == documented


# ---- calls of the gateway


@pytest.fixture
async def rig(store: Store):
    async with stage(store) as made:
        yield made


async def test_calls_are_told_with_the_times_of_their_workers(rig: Rig):
    rig.model.script([Say("One moment."), search("x"), mcp_call("echo", "hi")], [Say("There.")])
    turn = await rig.turn(True, tools=[SEARCH, rig.server()], parallel_tool_calls=True)
    log = await whole_log(rig.gateway, turn.response["id"])
    rows = log["rows"]
    named = {call[0]: call for call in log["calls"]}
    assert [(call[1], call[2]) for call in log["calls"]] == [
        *(("mcp", ""), ("web_search", ""), ("mcp", "echo")),
    ]
    for key, _, _, asked, ended, began, over, ok in named.values():
        kind = Kind.TOOLS_LISTED if key.startswith("list") else Kind.TOOL_RESULT
        assert rows[ended - 1]["kind"] == kind
        assert asked < ended
        assert ok is True
        if kind == Kind.TOOL_RESULT:
            assert rows[asked - 1]["t"] <= began <= over <= rows[ended - 1]["t"] + 1


# ---- what a row says


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (event("response.output_text.delta", delta="Hi"), "response.output_text.delta", "Hi"),
        (event("response.x", item={"type": "function_call", "name": "f"}), "response.x", "function_call f"),
        (b'event: error\ndata: {"error":{"message":"no"}}', "error", "no"),
        (b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"Hi"}}]}',
         "chat.completion.chunk", "Hi"),
        (b'data: {"object":"c","choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{"}}]},'
         b'"finish_reason":"tool_calls"}]}', "c", "f { tool_calls"),
        (b"data: [DONE]", "event", "[DONE]"),
        (b"data: [1]", "event", ""),
        (b'data: {"choices":[1]}', "event", ""),
        (b'data: {"choices":[{"delta":1}]}', "event", ""),
        (b'event: big\ndata: {"delta":"' + b"x" * 20_000 + b'"}', "big", ""),
    ],
)  # fmt: skip
def test_a_frame_is_called_by_its_type_and_says_its_text(data, name, said):
    assert row(Entry(3, Kind.FRAME, 7, data, 1, 1), 2) == [
        *(3, "frame", 7, 1, 1, len(data), name, said, 2),
    ]


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (Kind.ROUND_END, b'{"how":"http","error":{"message":"busy"}}', "http busy"),
        (Kind.CANCEL, b'{"reason":"client"}', "client"),
        (Kind.TOOLS_LISTED, b'{"key":"list.0","error":"away"}', "list.0 away"),
        (Kind.REQUEST, b'{"reason":"not looked at"}', ""),
        (Kind.CANCEL, b"[]", ""),
        (Kind.CANCEL, b"{", ""),
    ],
)
def test_an_entry_that_is_no_frame_says_how_or_why(kind, data, said):
    assert row(Entry(1, kind, 0, data), 0)[7] == said


def test_a_row_is_short_and_can_be_written():
    data = event("x" * 200, delta="\ud800" + "y" * 500)
    name, said = row(Entry(1, Kind.FRAME, 0, data), 0)[6:8]
    assert (len(name), len(said)) == (80, 120)


# ---- the fold that stays


async def test_a_log_that_this_code_cannot_fold_is_told_as_that(gateway, upstream, store):
    upstream.play(*text_stream("x"))
    rid = (await gateway.made())["id"]
    held = await recording.read(store.logs, rid)
    key = store.keys.input(rid)
    await store.connections.command("DEL", key)
    for entry in held.entries:
        data = entry.data.replace(b'"version":1', b'"version":9')
        fields = ("k", entry.kind, "t", entry.t, "d", data, "r", entry.round, "a", entry.attempt)
        await store.connections.command("XADD", key, f"{entry.n}-1", *fields)
    await store.connections.command("PEXPIRE", key, 60_000)
    for path in ("log", "state?after=1", "replay"):
        reply = await gateway.ask("GET", f"{API}/{rid}/{path}")
        assert (reply.status, reply.error["code"]) == (500, "foreign_log"), path
    # Its bytes are there all the same.
    assert b'"version":9' in (await gateway.ask("GET", f"{API}/{rid}/entries/1")).body


async def test_a_log_with_a_hole_is_told_as_lost(gateway, upstream, store):
    upstream.play(*text_stream("x"))
    rid = (await gateway.made())["id"]
    await store.connections.command("XDEL", store.keys.input(rid), "3-1")
    for path in ("log?after=4", "state?after=5"):
        reply = await gateway.ask("GET", f"{API}/{rid}/{path}")
        assert (reply.status, reply.error["code"]) == (410, "events_lost"), path


async def test_folds_are_kept_up_to_a_bound_in_bytes(gateway, upstream, monkeypatch):
    monkeypatch.setattr(folding, "KEPT_BYTES", 3_000)
    upstream.play(*text_stream("x" * 2_000))
    foldings = Foldings(gateway.store.logs)
    rids = [(await gateway.made())["id"] for _ in range(3)]
    held = []
    for rid in rids:
        held.append(foldings.of(rid))
        await held[-1].reach(4)
        await held[-1].reach(8)
        assert held[-1].size > 3_000
    assert foldings.of(rids[2]) is held[2]
    assert foldings.of(rids[0]) is not held[0]


async def test_a_few_folds_are_kept_and_each_goes_on_where_it_was(store: Store):
    foldings = Foldings(store.logs)
    first = foldings.of("resp_1")
    assert foldings.of("resp_1") is first
    for n in range(2, KEPT + 2):
        foldings.of(f"resp_{n}")
    assert foldings.of("resp_1") is not first


@pytest.mark.usefixtures("collected_as_served")
@pytest.mark.parametrize("store_url", ["valkey"], indirect=True)
async def test_a_long_log_is_folded_without_holding_up_the_streams(gateway, upstream):
    upstream.play(*text_stream(*["word "] * 4_000))
    rid = (await gateway.made())["id"]
    watch = asyncio.create_task(longest_stall())
    log = await whole_log(gateway, rid)
    await gateway.ask("GET", f"{API}/{rid}/state?after={len(log['rows']) - 2}")
    watch.cancel()
    assert len(log["rows"]) > 4_000
    assert await watch < STALL_S
