"""Light and dark, wide and narrow, with the keyboard alone."""

import pytest

from tests.api.tools.model import Say, call
from tests.api.tools.rig import CUSTOM
from tests.browser.chromium import Browser
from tests.browser.debug import settled, show
from tests.browser.marks import BROWSER

pytestmark = BROWSER

READABLE = 4.5
"""Contrast of text with what is behind it, as the Web Content Accessibility Guidelines (level AA) want it."""

CONTRASTS = """
const parse = (color) => {
  const c = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  c.fillStyle = color;
  c.fillRect(0, 0, 1, 1);
  return [...c.getImageData(0, 0, 1, 1).data];
};
const linear = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const color = parse(getComputedStyle(node).backgroundColor);
    if (color[3] > 250) return color;
  }
  return [255, 255, 255, 255];
};
const found = [];
for (const node of document.body.querySelectorAll("*")) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  const seen = node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  if (!own || !seen || node.closest(".later, .stale, :disabled, .skip")) continue;
  const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), node.className || node.tagName, node.textContent.slice(0, 30)]);
}
return found.sort((x, y) => x[0] - y[0]);
"""


@pytest.fixture
async def rid(rig) -> str:
    rig.model.script([Say("Some words."), call("shell", input="ls")])
    return (await rig.turn(True, tools=[CUSTOM])).response["id"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_all_words_are_readable(browser: Browser, rig, rid, scheme):
    await browser.scheme(scheme)
    await show(browser, rig.gateway, rid)
    await browser.click("#types summary")
    paper = await browser.js("return getComputedStyle(document.body).backgroundColor")
    assert (int(paper.split("(")[1].split(",")[0]) > 128) is (scheme == "light")
    contrasts = await browser.js(CONTRASTS)
    assert len(contrasts) > 50
    assert [one for one in contrasts if one[0] < READABLE] == []
    # The timeline is drawn in the colours of the scheme, also after it changes under an open page.
    drawn = "document.querySelector('#canvas').toDataURL()"
    before = await browser.js(f"return {drawn}")
    await browser.scheme("dark" if scheme == "light" else "light")
    await browser.until(f"{drawn} !== '{before}'")


@pytest.mark.parametrize("width", [1440, 1000, 600])
async def test_nothing_is_cut_off_at_the_side(browser: Browser, rig, rid, width):
    await browser.size(width, 900)
    await show(browser, rig.gateway, rid)
    assert await browser.js("return document.documentElement.scrollWidth") <= width
    boxes = await browser.js(
        "return ['#scrubber', '#ledger', '#client', '#machine', '#replay', '#plot'].map(css => {"
        " const r = document.querySelector(css).getBoundingClientRect(); return [css, r.left, r.right, r.height] })"
    )
    for css, left, right, height in boxes:
        assert left >= 0, css
        assert right <= width, css
        assert height > 10, css


async def test_tab_reaches_every_control_and_shows_where_it_is(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    await browser.js("document.activeElement.blur()")
    reached = []
    for _ in range(80):
        await browser.press("\ue004")
        found = await browser.js(
            "const a = document.activeElement, s = getComputedStyle(a);"
            " return [a.id || a.className || a.tagName, a.matches(':focus-visible') && s.outlineStyle !== 'none']"
        )
        if found[0] == "BODY" or (reached[1:] and found[0] == reached[0][0]):
            break
        reached.append(found)
    names = {name for name, _ in reached}
    controls = {
        *("skip", "help-open", "copy", "follow", "replay", "export", "by-time", "by-order"),
        *("zoom-in", "zoom-out", "zoom-fit", "play", "scrubber", "find", "ledger", "bytes-in"),
        *(
            "as-text",
            "as-json",
            "as-hex",
            "bytes-shown",
            "client",
            "client-json",
            "machine",
            "machine-json",
        ),
        *("call client", "mark good"),
    }
    assert controls - names == set()
    assert [name for name, seen in reached if not seen] == []


async def test_every_control_says_what_it_is(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    nameless = await browser.js(
        "return [...document.querySelectorAll('button, input, [role=listbox], canvas, dialog, section')]"
        ".filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim()))"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []
    assert await browser.js(
        "return document.querySelector('#scrubber').getAttribute('aria-valuetext')"
    )
    await browser.press("k")
    active = await browser.js(
        "return document.getElementById(document.querySelector('#ledger').getAttribute('aria-activedescendant')).className"
    )
    assert " at" in active
    await browser.press("?")
    keys = await browser.texts("#help kbd")
    assert len(keys) == 20
    await browser.press("\ue00c")
    await settled(browser)
