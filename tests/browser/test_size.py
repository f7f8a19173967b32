"""A response of 20,000 frames stays smooth: nothing holds the page up for longer than a person notices."""

from collections.abc import Awaitable, Callable

import pytest

from tests.api.tools.model import Say
from tests.browser.chromium import Browser
from tests.browser.debug import SETTLED, settled, show
from tests.browser.marks import BROWSER
from tests.ingest.server import text_stream

pytestmark = [*BROWSER, pytest.mark.alone]

FRAMES = 20_000
LONGEST_TASK_MS = 150
"""An eye takes 100 ms for at once; a browser that draws in software is given half as much again. A page that worked in
proportion to all frames where it should not would need a multiple."""
MEDIAN_FRAME_MS = 50
"""Between two pictures while something moves: 20 a second at worst."""
ROUNDS = 3
"""Times that one thing is measured, at most, until it is below. Both are times of the page's own thread: those in which it
had to wait for other programs of the machine are taken off in proportion, which is right on average only."""
LOADED_S = 30.0

WATCH = """
window.longest = 0; window.gaps = []; let last = 0;
new PerformanceObserver((list) => {
  for (const e of list.getEntries()) window.longest = Math.max(window.longest, e.duration);
}).observe({ type: "longtask", buffered: true });
const tick = (now) => { if (last) window.gaps.push(now - last); last = now; requestAnimationFrame(tick); };
requestAnimationFrame(tick);
"""

MOVE = """
return new Promise((done) => {
  let n = 0;
  window.gaps.length = 0;
  const step = () => {
    (%s)(n);
    if (++n < 60) requestAnimationFrame(step);
    else done(window.median = window.gaps.toSorted((a, b) => a - b)[window.gaps.length >> 1]);
  };
  requestAnimationFrame(step);
});
"""

SCRUB = """(n) => { const s = document.querySelector("#scrubber");
  s.value = Math.round(s.max * ((n * 37) % 60) / 60); s.dispatchEvent(new Event("input")); }"""
SCROLL = """(n) => { const l = document.querySelector("#ledger");
  l.scrollTop = (l.scrollHeight - l.clientHeight) * ((n * 23) % 60) / 60; }"""
ZOOM = """(n) => document.querySelector(n % 7 ? "#zoom-in" : "#zoom-fit").click()"""
FILTER = """(n) => { const f = document.querySelector("#find");
  if (n % 15 === 0) { f.value = n % 30 ? "" : "word 1999"; f.dispatchEvent(new Event("input")); } }"""


@pytest.fixture
async def rid(rig) -> str:
    upstream = rig.gateway.upstream
    upstream.plays.clear()
    upstream.play(*text_stream(*(f"word {n} " for n in range(FRAMES))))
    return (await rig.gateway.made())["id"]


async def test_20_000_frames_stay_smooth(browser: Browser, rig, rid):
    await browser.open(f"{rig.gateway.url}/debug")
    await browser.js(WATCH)

    async def load() -> None:
        await browser.js("location.hash = ''")
        await browser.until("document.querySelector('#one').hidden")
        await browser.js(f"window.longest = window.median = 0; location.hash = '{rid}'")
        await browser.until(SETTLED, LOADED_S)

    def moving(script: str) -> Callable[[], Awaitable[None]]:
        async def move() -> None:
            await browser.js("window.longest = 0")
            await browser.js(MOVE % script)

        return move

    todo = {"load": load, "scrub": moving(SCRUB), "scroll": moving(SCROLL), "zoom": moving(ZOOM)}
    for name, work in {**todo, "filter": moving(FILTER)}.items():
        seen = []
        for _ in range(ROUNDS):
            share = await browser.share(work())
            task, median = await browser.js("return [window.longest, window.median]")
            seen.append((round(task * share), round(median * share), round(share, 2)))
            if seen[-1][0] < LONGEST_TASK_MS and seen[-1][1] < MEDIAN_FRAME_MS:
                break
        print(name, seen)  # noqa: T201 - shown with -s, and where it fails
        assert seen[-1][0] < LONGEST_TASK_MS, (name, seen)
        assert seen[-1][1] < MEDIAN_FRAME_MS, (name, seen)
    assert int(await browser.data("frames")) > FRAMES
    # Few elements, however many rows.
    assert await browser.js("return document.querySelectorAll('*').length") < 2_000
    await browser.press("\ue010")
    await browser.js(
        "document.querySelector('#find').value = ''; document.querySelector('#find').dispatchEvent(new Event('input'))"
    )
    await settled(browser)
    assert f"word {FRAMES - 1} " in await browser.text("#client")


async def test_a_text_of_a_hundred_thousand_characters_has_its_middle_left_out(
    browser: Browser, rig
):
    rig.model.script([Say("begin " + "x" * 100_000 + " end")])
    rid = (await rig.gateway.made())["id"]
    await show(browser, rig.gateway, rid)
    for pane in ("#client", "#machine"):
        shown = await browser.text(f"{pane} pre.text")
        assert len(shown) < 10_000
        assert shown.startswith("begin ")
        assert shown.endswith(" end")
    await browser.js("document.querySelector('#client').scrollTop = 0")
    await browser.click("#client pre.text button")
    assert len(await browser.text("#client pre.text")) == 100_010
