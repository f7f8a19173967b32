"""Hostile texts stay texts; keys, tenants, and a page that says no more than it should."""

import asyncio

from tests.api.tools.model import Say, call
from tests.api.tools.rig import CUSTOM
from tests.browser.chromium import Browser
from tests.browser.debug import SETTLED, go_to, settled, show
from tests.browser.marks import BROWSER
from tests.browser.stage import stage

pytestmark = BROWSER

HOSTILE = (
    "<script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    "</pre><iframe srcdoc='<script>parent.owned = 1</script>'></iframe>",
    "javascript:window.owned=1//\u202e{{constructor.constructor('window.owned=1')()}}",
    "\x00\x1b[31m \u2028 ]]> <!-- <svg onload=window.owned=1>",
)
KEYS = {"key-of-a": "a", "key-of-b": "b"}
A = {"authorization": "Bearer key-of-a"}


async def test_what_a_model_writes_is_never_markup(browser: Browser, rig):
    rig.model.script([*map(Say, HOSTILE), call("shell", input="".join(HOSTILE))])
    model = "<b onclick=window.owned=1>m</b>"
    made = await rig.gateway.made(model=model, tools=[CUSTOM])
    await browser.open(f"{rig.gateway.url}/debug")
    before = await browser.js(
        "return document.querySelectorAll('script, iframe, svg, b[onclick], img').length"
    )
    await browser.until("document.querySelectorAll('#recent li').length === 1")
    assert await browser.text("#recent b") == model
    await show(browser, rig.gateway, made["id"])
    await browser.press("\ue011")
    rows = int(await browser.js("return Number(document.querySelector('#scrubber').max)"))
    for button in ("#as-json", "#as-hex", "#as-text"):
        await browser.click(button)
        for row in range(0, rows, 5):
            await go_to(browser, row)
    await browser.press("\ue010")
    await settled(browser)
    await browser.click("#types summary")
    assert [text for text in HOSTILE if text not in (await browser.text("#client"))] == []
    after = await browser.js(
        "return document.querySelectorAll('script, iframe, svg, b[onclick], img').length"
    )
    assert after == before
    assert await browser.js("return window.owned ?? null") is None


async def test_raw_bytes_show_what_would_hide_or_turn_by_its_name(browser: Browser, rig):
    rig.model.script([Say(HOSTILE[3])])
    await show(browser, rig.gateway, (await rig.gateway.made())["id"])
    await browser.press("/")
    await browser.press("owned=1")
    await browser.until("/of/.test(document.querySelector('#ledger-count').textContent)")
    await browser.click(".row:not([hidden]) .half.out")
    await browser.until("document.querySelector('#bytes-shown').textContent.includes('owned')")
    shown = await browser.text("#bytes-shown")
    assert "\u202e" not in shown
    assert "⟨U+202E⟩" in shown


async def test_the_policy_of_the_page_stops_even_its_own_mistakes(browser: Browser, rig):
    await browser.open(f"{rig.gateway.url}/debug")
    refused = await browser.js(
        "try { document.body.innerHTML = '<b>x</b>'; return 'set' } catch (e) { return e.name }"
    )
    assert refused == "TypeError"
    for mistake in (
        "document.createElement('div').setAttribute('onclick', 'window.owned = 1')",
        "document.createElement('script').textContent = 'window.owned = 1'",
    ):
        refused = await browser.js(
            f"try {{ {mistake}; return 'done' }} catch (e) {{ return e.name }}"
        )
        assert refused == "TypeError", mistake
    assert await browser.js("return window.owned ?? null") is None
    said = await browser.console()
    assert said
    assert all("Trusted" in one or "Content Security Policy" in one for one in said), said
    browser.errors.clear()


async def test_with_keys_a_box_asks_for_one_and_everything_goes_with_it(browser: Browser, store):
    async with stage(store, api_keys=KEYS) as rig:
        rig.model.script([Say("for a only")])
        rig.gateway.headers = A
        rid = (await rig.gateway.made())["id"]
        await browser.open(f"{rig.gateway.url}/debug#{rid}")
        await browser.until("document.querySelector('#sign-in').open")
        assert "for a only" not in await browser.js("return document.body.innerText")
        await browser.press("wrong", "\ue007")
        await browser.until("!document.querySelector('#sign-in-wrong').hidden")
        await browser.press("key-of-a", "\ue007")
        await browser.until(SETTLED)
        assert "for a only" in await browser.text("#client")
        assert "key-of-a" not in await browser.js(
            "return document.documentElement.outerHTML + location.href"
        )
        # A reload keeps it, another tenant's key sees nothing, signing out forgets it.
        await browser.reload()
        await browser.until(SETTLED)
        await browser.click("#sign-out")
        await browser.until("document.querySelector('#sign-in').open")
        await browser.press("key-of-b", "\ue007")
        await browser.until("document.querySelector('#one').dataset.live === 'gone'")
        assert "not found" in await browser.text("#warning")
        assert await browser.texts("#recent li") == []
        await browser.leave()
        assert {said.split("status of ")[1][:3] for said in browser.errors} == {"401", "404"}
        browser.errors.clear()


async def test_with_a_key_a_running_response_is_followed_too(browser: Browser, store):
    async with stage(store, api_keys=KEYS) as rig:
        go = asyncio.Event()
        rig.model.script([Say("one"), go, Say("two")])
        rig.gateway.headers = A
        async with rig.gateway.creating(stream=True) as live:
            await live.until(b'"delta":"one"')
            await browser.open(f"{rig.gateway.url}/debug#{live.rid}")
            await browser.until("document.querySelector('#sign-in').open")
            await browser.press("key-of-a", "\ue007")
            await browser.until("document.querySelector('#client').textContent.includes('one')")
            assert await browser.data("live") == "live"
            go.set()
            await live.rest()
        await browser.until(SETTLED)
        assert "two" in await browser.text("#client")
        await browser.leave()
    assert all("401" in said for said in browser.errors)
    browser.errors.clear()
