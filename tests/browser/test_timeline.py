"""A run with custom tools and tools of the gateway, on the timeline and in the list of both logs."""

import json

import pytest

from streams import recording, transcript
from tests.api.tools.model import Say, Think, call, mcp_call, search
from tests.api.tools.rig import CUSTOM, SEARCH
from tests.browser.chromium import Browser
from tests.browser.debug import go_to, settled, show
from tests.browser.marks import BROWSER
from tests.wait import wait_until
from translator.refold import refold

pytestmark = BROWSER

ROWS = "[...document.querySelectorAll('.row:not([hidden])')]"


@pytest.fixture
async def rid(rig) -> str:
    """Two rounds: a list of tools, two searches and two MCP calls; then a custom tool of the client's."""
    rig.engine.delay_s = 0.15
    rig.model.script(
        [Think("Where?"), Say("Let me look."), search("streams"), mcp_call("echo", "hi"), mcp_call("look"),
         search("logs")],
        [Say("Found it."), call("shell", input="ls -la")],
    )  # fmt: skip
    tools = [SEARCH, rig.server(), CUSTOM]
    return (await rig.turn(True, tools=tools, parallel_tool_calls=True)).response["id"]


async def test_calls_are_bars_and_what_happened_are_marks(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    bars = await browser.js(
        "return [...document.querySelectorAll('#bars button')].map(b => [b.className, b.getAttribute('aria-label')])"
    )
    named = sorted(label.split(":")[0] for _, label in bars)
    assert named == ["echo", "list tools", "look", "shell", "web_search", "web_search"]
    assert {kind for kind, label in bars if label.startswith("shell")} == {"call client"}
    took = [float(label.split(" · ")[1].split(" ")[0]) for _, label in bars if "search" in label]
    assert all(ms >= 150 for ms in took)  # as long as the engine lets them wait
    marks = await browser.js(
        "return [...document.querySelectorAll('#marks button')].map(b => b.getAttribute('aria-label'))"
    )
    assert {"request", "upstream opened", "round 2", "completed"} <= set(marks)
    # Both searches ran at once: their bars stand in rows of their own and overlap.
    boxes = await browser.js(
        "return [...document.querySelectorAll('#bars button')].filter(b => b.textContent.startsWith('web_search'))"
        ".map(b => { const r = b.getBoundingClientRect(); return [r.left, r.right, r.top] })"
    )
    (a, b, y1), (c, d, y2) = boxes
    assert y1 != y2
    assert max(a, c) < min(b, d)
    # A click on a bar leads to its result.
    await browser.click("#bars [aria-label^=echo]")
    await settled(browser)
    assert await browser.text(".row.at .name") == "tool_result"


async def test_a_frame_and_its_entry_light_up_together(browser: Browser, rig, rid, store):
    await show(browser, rig.gateway, rid)
    held = await recording.read(store.logs, rid)
    brought = next(refold(rid, held.entries)).frames  # of the request: more than one
    await browser.press("\ue011")
    await settled(browser)
    await browser.hover(".row.at .half.out")
    await browser.until("document.querySelector('.row.kin')")
    kin = await browser.js(
        f"return {ROWS}.filter(r => /kin|hover/.test(r.className)).map(r => r.querySelector('.no.out').textContent)"
    )
    assert kin == [str(seq) for seq in range(len(brought))]
    assert len(brought) > 1
    # And from the timeline: what is under the pointer there lights up in the list.
    await browser.hover("#bars [aria-label^=echo]", dx=0, dy=-60)
    await browser.press("\ue010")
    await browser.hover("#marks [aria-label=completed]", dx=-1, dy=-60)
    await browser.until("document.querySelector('.row.hover')")


async def test_every_row_has_the_entry_and_the_frame_that_belong_together(
    browser: Browser, rig, rid, store
):
    await show(browser, rig.gateway, rid)
    held = await recording.read(store.logs, rid)
    seen: dict[int, tuple[str, str, str, str]] = {}
    await browser.press("\ue011")
    while len(seen) < int(
        await browser.js("return Number(document.querySelector('#scrubber').max) + 1")
    ):
        await settled(browser)
        known = len(seen)
        for row, *cells in await browser.js(
            f"return {ROWS}.map(r => [Number(r.dataset.row), ...['.no.in', '.half.in', '.no.out', '.half.out']"
            ".map(c => r.querySelector(c).textContent)])"
        ):
            seen[row] = tuple(cells)
        # PgDn; from the top again where a press overtook the page on a busy machine
        await browser.press("\ue00f" if len(seen) > known else "\ue011")
    rows = [seen[row] for row in sorted(seen)]
    assert [int(n) for n, *_ in rows if n] == [entry.n for entry in held.entries]
    assert [int(s) for _, _, s, _ in rows if s] == [frame.seq for frame in held.frames]
    for _, came, _, went in rows:
        if came.startswith("text.delta") and went.startswith("text.delta"):
            assert came == went


async def test_types_and_text_make_the_list_shorter(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    whole = int(await browser.js("return Number(document.querySelector('#scrubber').max) + 1"))
    await browser.click("#types summary")
    await browser.click("#types-no-deltas")
    await browser.until(
        f"/of {whole} rows/.test(document.querySelector('#ledger-count').textContent)"
    )
    names = await browser.texts(".row:not([hidden]) .name")
    assert names
    assert not [name for name in names if name.endswith(".delta")] or "item.done" in names
    shorter = int((await browser.text("#ledger-count")).split(" ")[0])
    assert shorter < whole
    await browser.click("#types-all")
    await browser.until(f"document.querySelector('#ledger-count').textContent === '{whole} rows'")
    await browser.press("\ue00c", "/")  # Esc closes the sheet, a slash goes to the text
    await browser.press("ls -la")
    await browser.until(
        f"/of {whole} rows/.test(document.querySelector('#ledger-count').textContent)"
    )
    said = await browser.texts(".row:not([hidden]) .half.out")
    assert any("ls -la" in one for one in said)
    await browser.press("\ue00c")
    assert await browser.js("return document.activeElement.id") == "ledger"


async def test_bytes_are_shown_as_they_are(browser: Browser, rig, rid, store):
    await show(browser, rig.gateway, rid)
    held = await recording.read(store.logs, rid)
    await browser.press("\ue011")
    await settled(browser)
    await browser.until("document.querySelector('#bytes-shown').dataset.of === 'frames/0'")
    assert await browser.text("#bytes-shown") == held.frames[0].data.decode()
    await browser.click("#bytes-in")
    await browser.until("document.querySelector('#bytes-shown').dataset.of === 'entries/1'")
    assert await browser.text("#bytes-shown") == held.entries[0].data.decode()
    await browser.click("#as-json")
    assert json.loads(await browser.text("#bytes-shown")) == json.loads(held.entries[0].data)
    await browser.click("#as-hex")
    first = (await browser.text("#bytes-shown")).splitlines()[0]
    assert bytes.fromhex(first[8:57].replace(" ", "")) == held.entries[0].data[:16]


async def test_a_replay_says_identical_and_shows_where_it_differs(
    browser: Browser, rig, rid, store
):
    await show(browser, rig.gateway, rid)
    await browser.press("r")
    await browser.until("document.querySelector('#verdict').dataset.verdict === 'identical'")
    held = await recording.read(store.logs, rid)
    assert f"{len(held.entries)} entries" in await browser.text("#verdict-shown")
    await browser.click("#verdict-close")
    key, seq = store.keys.output(rid), len(held.frames) // 2
    await store.connections.command("DEL", key)
    for frame in held.frames:
        data = (
            frame.data.replace(b'"output_index":', b'"output_indes":')
            if frame.seq >= seq
            else frame.data
        )
        end = ("e", 1) if frame.terminal else ()
        await store.connections.command("XADD", key, f"{frame.seq}-1", "d", data, *end)
    await store.connections.command("PEXPIRE", key, 60_000)
    await browser.click("#replay")
    await browser.until("document.querySelector('#verdict').dataset.verdict === 'different'")
    assert f"Frame {seq} differs" in await browser.text("#verdict-shown")
    assert await browser.texts(".versions mark") == ["s", "x"]
    await browser.click("#verdict-shown button")
    await browser.until(f"document.querySelector('#one').dataset.seq === '{seq}'")


async def test_the_export_is_a_file_of_the_whole_response(
    browser: Browser, rig, rid, store, tmp_path
):
    await browser.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    await show(browser, rig.gateway, rid)
    await browser.press("e")
    saved = tmp_path / f"{rid}.respool"
    await wait_until(saved.exists)
    told = transcript.recording_of(transcript.read(saved.read_bytes()))
    held = await recording.read(store.logs, rid)
    assert (told.entries, told.frames) == (held.entries, held.frames)


async def test_a_moment_can_be_gone_to_by_a_click_on_the_timeline(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    await browser.press("t")  # in order: the middle of the plot is the middle row
    await go_to(browser, 0)
    row = "Number(document.querySelector('#scrubber').value)"
    most = int(await browser.js("return Number(document.querySelector('#scrubber').max)"))
    await browser.click_at("#canvas", dx=0, dy=-60)
    found = await browser.until(row)
    assert abs(found - most / 2) < 3
