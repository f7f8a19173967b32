"""The commands that look at responses, on a store with real responses and on files."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from respool import cli
from respool.inspection import contrast, listing, replay, screen, showing, tailing, transfer
from respool.inspection.evidence import of_file
from respool.inspection.screen import Screen
from respool.settings import Settings
from respool.unusable import Unusable
from streams.store import Store
from tests.api.gateway import running
from tests.ingest.server import event, serving, text_stream
from tests.respool.processes import post, replica, respool
from tests.streams.rig import Rig
from tests.wait import wait_until
from translator.machine import Machine
from translator.protocol.sse import DeltaTemplate

CASES = Path(__file__).parent.parent / "cases"
TEXT = str(CASES / "text.respool")
TOOLS = str(CASES / "tool-times-out.respool")


@pytest.fixture
def store_url(valkey_url):
    """A real server: other processes must be able to see it."""
    return valkey_url


@pytest.fixture
def settings(store_url, namespace) -> Settings:
    return Settings(redis_url=store_url, namespace=namespace, retention_s=60)


@pytest.fixture
async def gateway(store):
    async with serving() as upstream, running(store, upstream) as made:
        upstream.play(*text_stream("The sky", " is", " blue."))
        yield made


@pytest.fixture
def printed(capsys):
    """What was printed since the last look, as lines."""

    def lines() -> list[str]:
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Runs a command as the console script does: status, lines, and what stands on standard error."""

    def run(*words: str) -> tuple[int, list[str], str]:
        monkeypatch.setattr("sys.argv", ["respool", *words])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out.splitlines(), told.err

    return run


def objects(lines: list[str]) -> list[dict]:
    return [json.loads(line) for line in lines]


PEOPLE, PROGRAMS = Screen(), Screen(as_json=True)


# ---- ls


async def test_ls_lists_the_newest_first(gateway, settings, printed):
    model = "a-model-with-" + "-".join(["a-very-long-name"] * 10)
    first = (await gateway.made(model=model))["id"]
    second = (await gateway.made(background=True))["id"]
    await gateway.until(second, "completed")
    assert await listing.ls(PEOPLE, settings, limit=5, tenant=None, wanted=None) == 0
    head, *rows = printed()
    assert head.split()[:4] == ["ID", "STATUS", "MODEL", "TENANT"]
    assert [row.split()[:4] for row in rows] == [
        [second, "completed", "m", "anonymous"],
        [first, "completed", model, "anonymous"],
    ]
    await listing.ls(PROGRAMS, settings, limit=1, tenant="anonymous", wanted="completed")
    (one,) = objects(printed())
    assert (one["id"], one["frames"], one["done"]) == (second, 12, True)
    assert one["took_ms"] == one["ended"] - one["created"]
    await listing.ls(PEOPLE, settings, limit=5, tenant="nobody", wanted=None)
    assert printed() == ["no responses"]


@pytest.mark.parametrize("width", [80, 100, 120, 149, 150, None])
def test_a_table_fits_the_terminal_and_never_cuts_an_id(width):
    columns, model = listing.fitting(width)
    assert {"ID", "STATUS", "MODEL", "FRAMES"} <= set(columns)
    if width is None or width >= 150:
        assert (columns, model) == (listing.WIDE, None)
    else:
        assert listing.FIXED[columns] + model <= width


# ---- show and why


async def test_show_tells_all_of_a_response(gateway, settings, printed):
    rid = (await gateway.made(input="Why is the sky blue?", instructions="Be brief."))["id"]
    body = json.loads(gateway.upstream.requests[0].body)
    assert await showing.show(PEOPLE, settings, rid, full=False) == 0
    shown = "\n".join(printed())
    for text in (rid, "Why is the sky blue?", "Be brief.", "The sky is blue.", "round 1", "text"):
        assert text in shown
    assert f"sent {gateway.upstream.requests[0].body.decode()}" in shown
    await showing.show(PROGRAMS, settings, rid, full=False)
    (told,) = objects(printed())
    assert json.loads(told["rounds"][0]["body"]) == body
    assert told["items"][0]["content"][0]["text"] == "The sky is blue."
    assert told["rounds"][0]["attempts"][0]["how"] == "ok"
    assert told["why"].startswith("It ended as completed")


def test_show_tells_of_tool_calls_and_their_times(command):
    status, lines, _ = command("show", TOOLS, "--json")
    (told,) = objects(lines)
    assert status == 0
    calls = told["tool_calls"]
    assert [call["tool"] for call in calls] == ["list mcp", "mcp", "mcp", "mcp"]
    assert calls[1]["ok"] is False
    assert calls[1]["took_ms"] >= 1000
    assert "longer than 1 s" in json.dumps(calls[1]["error"])
    status, lines, _ = command("show", TOOLS)
    (row,) = [line for line in lines if line.startswith("  2.0  ")]
    assert row.split()[1:3] == ["mcp", "sleep"]
    assert "failed: The call took longer than 1 s." in row


def test_a_body_that_is_cut_says_so(command):
    _, cut, _ = command("show", TOOLS)
    _, full, _ = command("show", TOOLS, "--full")
    assert any("more characters: --full" in line for line in cut)
    bodies = [line for line in full if line.startswith("  sent ")]
    for line in bodies:
        json.loads(line.removeprefix("  sent "))
    assert len(bodies) == 3


WHY = {
    "text": ("completed", "`response.completed`"),
    "cancelled": ("cancelled", "a client asked for it"),
    "cut-by-a-proxy": ("failed", "closed its stream without saying that it was done"),
    "refused-429": ("failed", "refused the request with status 429 (retry after 7)"),
    "tool-times-out": ("incomplete", "past the last round"),
    "name-comes-last": ("completed", "the client's turn, with 1 call (apply_patch)"),
    "chat-reasoning": ("completed", "`[DONE]`"),
}


@pytest.mark.parametrize("case", WHY)
def test_why_tells_what_ended_it(command, case):
    word, cause = WHY[case]
    status, (line,), _ = command("why", str(CASES / f"{case}.respool"))
    assert status == 0
    assert line.startswith(f"It ended as {word} ")
    assert cause in line


async def test_why_tells_what_a_response_waits_for(store, settings, printed):
    rig = Rig(store)
    await rig.create(request_data=of_file(TEXT).entries[0].data)
    waits = [("round 1 waits for a process with the role ingest", "Nobody translates it")]
    await showing.why(PEOPLE, settings, rig.rid)
    told = [printed()[0]]
    await rig.claim(lease_ms=1)
    await rig.acquire()
    await wait_until(lambda: passed(store, rig))
    waits.append(("reads its upstream", "has run out"))
    await showing.why(PEOPLE, settings, rig.rid)
    told.append(printed()[0])
    await rig.cancel()
    waits.append(("a cancel waits to be folded", "has run out"))
    await showing.why(PEOPLE, settings, rig.rid)
    told.append(printed()[0])
    for line, expected in zip(told, waits, strict=True):
        assert line.startswith("It has not ended")
        for text in expected:
            assert text in line


async def passed(store, rig) -> bool:
    return (await rig.state()).ilease < await store.logs.now()


# ---- tail


async def test_tail_follows_both_logs_until_the_end(gateway, settings, printed):
    gate = asyncio.Event()
    frames = text_stream("The sky", " is blue.")
    gateway.upstream.plays.clear()
    gateway.upstream.play(*frames[:4], gate, *frames[4:])
    async with gateway.creating(stream=True) as live:
        await live.until(b"The sky")
        rid = live.rid
        tail = asyncio.create_task(tailing.tail(PROGRAMS, settings, rid, after=-1))
        lines: list[str] = []

        def seen() -> bool:
            lines.extend(printed())
            return any('"out"' in line and "The sky" in line for line in lines)

        await wait_until(seen)
        assert not tail.done()
        gate.set()
        streamed = await live.rest()
    assert await tail == 0
    rows = objects(lines + printed())
    out = [row["out"]["frame"].encode() for row in rows if "out" in row]
    assert out == streamed[:-1]
    entries = [row["in"]["n"] for row in rows if "in" in row]
    assert entries == list(range(1, len(entries) + 1))
    assert rows[0]["in"]["kind"] == "request"


async def test_tail_shows_frames_beside_what_brought_them(gateway, settings, printed):
    rid = (await gateway.made())["id"]
    await tailing.tail(PEOPLE, settings, rid, after=-1)
    rows = printed()
    (row,) = [row for row in rows if row.count("'The sky'") == 2]
    assert row.index("frame output_text.delta") < row.index(" 4  output_text.delta")
    await tailing.tail(PEOPLE, settings, rid, after=4)
    after = printed()
    assert after == rows[rows.index(row) + 1 :]


async def test_tail_ends_where_the_response_is_gone(gateway, settings):
    rid = (await gateway.made())["id"]
    await Rig(gateway.store, rid).delete()
    with pytest.raises(Unusable, match="deleted, expired or never there"):
        await tailing.tail(PEOPLE, settings, rid, after=-1)
    with pytest.raises(Unusable, match="not the id of a response"):
        await tailing.tail(PEOPLE, settings, "resp_1", after=-1)


async def test_tail_tells_of_a_delete_under_it(store, settings):
    rig = await Rig(store).running()
    tail = asyncio.create_task(tailing.tail(PEOPLE, settings, rig.rid, after=-1))
    await wait_until(lambda: listened(store, rig))
    await rig.delete()
    with pytest.raises(Unusable, match="deleted"):
        await tail


async def listened(store, rig) -> bool:
    channel = store.keys.bell_out(rig.rid)
    reply = await store.connections.command("PUBSUB", "NUMSUB", channel)
    found = dict(zip(reply[::2], reply[1::2], strict=True)) if isinstance(reply, list) else {}
    return bool(found.get(channel.encode(), 0))


# ---- replay


async def test_a_stored_response_replays_identically(gateway, settings, printed):
    rid = (await gateway.made())["id"]
    assert await replay.replay(PEOPLE, settings, rid) == 0
    assert printed()[0].startswith("identical: 11 frames ")
    await Rig(gateway.store, rid).seal()
    assert await replay.replay(PROGRAMS, settings, rid) == 0
    (told,) = objects(printed())
    assert (told["identical"], told["frames"], told["done"]) == (True, 11, True)


def test_an_altered_translator_is_found_at_its_first_difference(command, monkeypatch):
    whole = DeltaTemplate.frame

    def shouting(self, *said):
        told = whole(self, *said)
        return told.replace(b"blue", b"BLUE")

    monkeypatch.setattr(DeltaTemplate, "frame", shouting)
    status, lines, _ = command("replay", TEXT)
    assert status == 1
    assert lines[0] == "different: frame 5, at entry 9 (frame output_text.delta ' is blue')"
    assert lines[1].startswith("  stored    ")
    assert "blue" in lines[1]
    assert lines[2].startswith("  refolded  ")
    assert "BLUE" in lines[2]
    status, lines, _ = command("replay", TEXT, "--json")
    (told,) = objects(lines)
    assert (status, told["identical"], told["seq"]) == (1, False, 5)
    assert told["stored"].replace("blue", "BLUE") == told["refolded"]
    assert told["entry"]["n"] == 9


def test_another_upstream_body_is_a_difference(command, monkeypatch):
    monkeypatch.setattr("translator.machine.dumps", lambda value: b" " + json.dumps(value).encode())
    status, lines, _ = command("replay", TOOLS)
    assert status == 1
    assert "the upstream body of round" in lines[0]


def test_a_translator_that_breaks_is_told_with_the_entry(command, monkeypatch):
    whole = Machine.feed

    def breaking(self, entry):
        if entry.n == 9:
            raise KeyError("no such thing")
        return whole(self, entry)

    monkeypatch.setattr(Machine, "feed", breaking)
    status, lines, err = command("replay", TEXT)
    assert (status, err) == (1, "")
    assert lines == [
        "cannot be folded: KeyError: 'no such thing', at entry 9 (frame output_text.delta ' is blue')"
    ]
    status, _, err = command("replay", TEXT, "--at", "9")
    assert (status, err.count("\n")) == (2, 1)
    assert "the fold breaks before that: KeyError: 'no such thing'" in err
    status, lines, _ = command("replay", TEXT, "--pace", "--speed", "100")
    assert (status, lines[-1].split(":")[0]) == (1, "cannot be folded")
    for word in ("show", "why"):  # what does not depend on the fold is shown all the same
        status, lines, _ = command(word, TEXT)
        assert status == 0
        assert lines[-1].startswith("It ended as completed")


def test_the_state_on_the_way_is_shown(command):
    status, lines, _ = command("replay", TEXT, "--at", "5", "--json")
    (told,) = objects(lines)
    assert status == 0
    assert told["frames"] == [5, 5]
    assert told["state"]["round"]["items"][0]["parts"][0]["text"] == "The sky is blue"
    status, lines, _ = command("replay", TEXT, "--at", "5")
    assert lines[0].startswith("after entry 9 ")
    assert json.loads("\n".join(lines[1:])) == told["state"]
    name = str(CASES / "name-comes-last.respool")
    status, lines, _ = command("replay", name, "--entry", "20", "--json")
    (told,) = objects(lines)
    assert (told["frames"], told["state"]["round"]["items"][1]["held"]) == (None, "unknown")
    status, _, err = command("replay", name, "--entry", "20", "--at", "3")
    assert status == 2
    assert "name one" in err
    status, _, err = command("replay", TEXT, "--at", "99")
    assert (status, err.count("\n")) == (2, 1)
    assert "no frame 99" in err


async def test_a_paced_replay_keeps_the_original_timing(printed):
    name = str(CASES / "name-comes-last.respool")
    found = of_file(name)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await replay.replay(PROGRAMS, Settings(), name, replay.Look(pace=2.0))
    took = loop.time() - began
    original = (found.entries[-1].t - found.entries[0].t) / 1000
    assert took >= original / 2
    rows = objects(printed())
    assert [row["out"]["frame"].encode() for row in rows if "out" in row] == [
        frame.data for frame in found.frames
    ]


# ---- export and import


async def test_a_response_comes_back_whole_in_an_empty_store(gateway, settings, tmp_path, printed):
    """The same public bytes from every place, the same retrieve and input items, the same replay."""
    rid = (await gateway.made(input="Why?", metadata={"a": "ü"}))["id"]
    ways = [f"?stream=true&starting_after={n}" for n in range(-1, 11)] + ["", "/input_items"]
    ways[0] = "?stream=true"
    expected = [(await gateway.get(rid, way)).body for way in ways]
    file = tmp_path / "x.respool"
    await transfer.export(PROGRAMS, settings, rid, into=file, gzip=True)
    assert objects(printed())[0]["bytes"] == file.stat().st_size
    empty = settings.model_copy(update={"namespace": f"{settings.namespace}-empty"})
    assert await transfer.import_(PROGRAMS, empty, [str(file)], tenant=None) == 0
    (told,) = objects(printed())
    assert (told["id"], told["was_there"]) == (rid, False)
    async with (
        Store.open(empty.store, empty.namespace) as other,
        serving() as upstream,
        running(other, upstream) as there,
    ):
        assert [(await there.get(rid, way)).body for way in ways] == expected
        upstream.play(*text_stream("Because."))
        follow = await there.made(previous_response_id=rid, input="And then?")
        asked = json.loads(upstream.requests[0].body)["input"]
        assert len(asked) == 3
        assert follow["status"] == "completed"
    assert await replay.replay(PEOPLE, empty, rid) == 0
    assert printed()[0].startswith("identical: ")
    await transfer.import_(PEOPLE, empty, [str(file)], tenant=None)
    assert "is there already" in printed()[0]


async def test_an_import_may_give_a_response_to_another_tenant(settings, printed, store):
    await transfer.import_(PROGRAMS, settings, [TEXT, TOOLS], tenant="acme")
    await listing.ls(PROGRAMS, settings, limit=5, tenant="acme", wanted=None)
    imported, listed = printed()[:2], printed()
    assert len(imported) == 2
    del listed
    rid = of_file(TEXT).rid
    state = await store.logs.state(rid)
    assert state is not None
    assert state.tenant == "acme"


async def test_what_still_runs_can_be_exported_and_replayed_and_not_imported(
    gateway, settings, tmp_path, printed
):
    gate = asyncio.Event()
    gateway.upstream.plays.clear()
    gateway.upstream.play(*text_stream("The sky")[:4], gate)
    async with gateway.creating(stream=True) as live:
        await live.until(b"The sky")
        file = tmp_path / "x.respool"
        await transfer.export(PEOPLE, settings, live.rid, into=file, gzip=False)
        printed()
        assert await replay.replay(PEOPLE, settings, str(file)) == 0
        assert "(it has not ended)" in printed()[0]
        with pytest.raises(Unusable, match="had not ended"):
            await transfer.import_(PEOPLE, settings, [str(file)], tenant=None)
        gate.set()
        await live.rest()


def test_an_export_goes_to_standard_output(command):
    status, lines, _ = command("export", TEXT)
    assert status == 0
    assert lines == Path(TEXT).read_text().splitlines()


# ---- diff


async def test_diff_tells_what_two_responses_have_differently(gateway, settings, printed):
    one = (await gateway.made(input="Why?", temperature=0.5))["id"]
    same = (await gateway.made(input="Why?", temperature=0.5))["id"]
    gateway.upstream.plays.clear()
    gateway.upstream.play(*text_stream("The sky", " is", " grey."))
    other = (await gateway.made(input="Why?", temperature=1))["id"]
    assert await contrast.diff(PEOPLE, settings, one, same) == 0
    assert printed() == ["no difference but ids and times"]
    assert await contrast.diff(PROGRAMS, settings, one, other) == 1
    told = {row["where"]: (row["one"], row["other"]) for row in objects(printed())}
    assert told["request.temperature"] == (0.5, 1)
    assert told["round 1: body.temperature"] == (0.5, 1)
    frame = "frames: the first that differs is 0 (created).response.temperature"
    assert told[frame] == (0.5, 1)


def test_diff_tells_of_rounds_and_ends(command):
    status, lines, _ = command("diff", TEXT, TOOLS, "--json")
    assert status == 1
    told = {row["where"]: (row["one"], row["other"]) for row in objects(lines)}
    assert told["status"] == ("completed", "incomplete")
    assert told["round 3"][0] is None
    assert told["frames: response.completed"] == (1, 0)
    status, lines, _ = command("diff", TEXT, TOOLS)
    assert "status" in lines
    assert "  - completed" in lines


# ---- what cannot be done


def damaged(tmp_path: Path) -> str:
    path = tmp_path / "damaged.respool"
    path.write_bytes(Path(TEXT).read_bytes().replace(b"sky", b"sea", 1))
    return str(path)


def cut(tmp_path: Path) -> str:
    path = tmp_path / "cut.respool"
    path.write_bytes(Path(TEXT).read_bytes()[:2000])
    return str(path)


def foreign(tmp_path: Path) -> str:
    path = tmp_path / "foreign.respool"
    path.write_bytes(Path(TEXT).read_bytes().replace(b'"version":1', b'"version":2', 1))
    return str(path)


@pytest.mark.parametrize("word", ["why", "show", "replay", "export", "import", "upstream"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (damaged, "the file is damaged: it is not what its checksum says"),
        (cut, "the file is cut off: its last line is missing"),
        (foreign, "the file has version 2; this Respool reads version 1"),
    ],
)
def test_a_file_that_is_not_whole_is_one_line(command, tmp_path, word, make, message):
    name = make(tmp_path)
    assert command(word, name) == (2, [], f"respool: {name}: {message}\n")


def test_what_is_not_there_is_one_line(command, monkeypatch, store_url):
    rid = "resp_" + "0" * 32
    assert command("why", "nonsense") == (
        2,
        [],
        "respool: 'nonsense' is neither a file nor the id of a response\n",
    )
    status, _, err = command("ls")
    assert (status, err.startswith("respool: no store: ")) == (2, True)
    monkeypatch.setenv("RESPOOL_REDIS_URL", "memory://")
    status, _, err = command("ls")
    assert (status, "only the process that serves" in err) == (2, True)
    monkeypatch.setenv("RESPOOL_REDIS_URL", "redis://127.0.0.1:1/0")
    assert command("ls") == (2, [], "respool: redis://127.0.0.1:1: the store is away\n")
    monkeypatch.setenv("RESPOOL_REDIS_URL", store_url)
    for word in ("why", "show", "replay", "tail"):
        status, lines, err = command(word, rid)
        assert (status, lines, err.count("\n")) == (2, [], 1)
        assert f"no response {rid} in this store" in err


def test_a_file_is_not_left_half_written(command, tmp_path):
    into = tmp_path / "nowhere" / "x.respool"
    status, _, err = command("export", TEXT, "-o", str(into))
    assert (status, err) == (2, f"respool: {into}: no such file or directory\n")
    status, _, err = command("export", TEXT, "--json")
    assert status == 2
    assert "--output" in err


async def test_the_embedded_store_of_a_running_gateway_is_seen(tmp_path):
    async with serving() as upstream:
        upstream.play(event("response.completed", response={"status": "completed", "output": []}))
        async with replica(tmp_path, UPSTREAM_URL=upstream.url) as served:
            _, made = await post(served.url, model="m")
            found = await asyncio.to_thread(respool, tmp_path, "ls", "--json")
    assert [one["id"] for one in objects(found.stdout.splitlines())] == [made["id"]]
    assert found.stderr == ""


# ---- the bar


def test_a_bar_is_shown_on_a_terminal_for_what_takes_long(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with screen.bar("reading") as told:
        told(1, 2)
    assert "reading" not in capsys.readouterr().err, "it did not take long"
    monkeypatch.setattr(screen, "BAR_AFTER_S", 0.0)
    shown = ""
    with screen.bar("reading") as told:
        told(1, 2)
        deadline = time.monotonic() + 5
        while "50%" not in shown and time.monotonic() < deadline:
            shown += capsys.readouterr().err
    assert "reading" in shown
    assert "50%" in shown
    assert capsys.readouterr().out == ""
    monkeypatch.delenv("FORCE_COLOR")
    with screen.bar("reading") as told:
        told(1, 2)
    assert capsys.readouterr().err == "", "it is no terminal"
