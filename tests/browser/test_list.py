"""The list of recent responses."""

import asyncio

from tests.api.tools.model import Say
from tests.browser.chromium import Browser
from tests.browser.marks import BROWSER

pytestmark = BROWSER

ITEMS = "[...document.querySelectorAll('#recent li a')]"


async def test_it_keeps_itself_up_to_date(browser: Browser, rig):
    await browser.open(f"{rig.gateway.url}/debug")
    await browser.until("!document.querySelector('#recent-none').hidden")
    go = asyncio.Event()
    rig.model.script([Say("a"), go, Say("b")])
    async with rig.gateway.creating(stream=True, model="first") as live:
        await live.until(b'"delta":"a"')
        await browser.until(f"{ITEMS}.map(a => a.dataset.status).join() === 'in_progress'")
        go.set()
        await live.rest()
    await browser.until(f"{ITEMS}.map(a => a.dataset.status).join() === 'completed'")
    await rig.gateway.made(model="second")
    await browser.until(f"{ITEMS}.length === 2")
    assert await browser.texts("#recent b") == ["second", "first"]
    gone = (await browser.js(f"return {ITEMS}[0].hash"))[1:]
    await rig.gateway.ask("DELETE", f"/v1/responses/{gone}")
    await browser.until(f"{ITEMS}.length === 1")


async def test_up_and_down_and_enter_choose_one(browser: Browser, rig):
    rig.model.script([Say("a")])
    made = [(await rig.gateway.made(model=f"m{n}"))["id"] for n in range(3)]
    await browser.open(f"{rig.gateway.url}/debug")
    await browser.until(f"{ITEMS}.length === 3")
    await browser.js("document.querySelector('#recent a').focus()")
    await browser.press("\ue015", "\ue015", "\ue013", "\ue007")  # down, down, up, Enter
    await browser.until("document.querySelector('#one').dataset.live === 'ended'")
    assert await browser.text("#rid") == made[1]
    assert (
        await browser.js("return document.querySelector('#recent [aria-current]').hash")
        == f"#{made[1]}"
    )


async def test_a_response_that_is_not_there_is_said_to_be_not_there(browser: Browser, rig):
    unknown = "resp_" + "0" * 32
    await browser.open(f"{rig.gateway.url}/debug#{unknown}")
    await browser.until("document.querySelector('#one').dataset.live === 'gone'")
    assert unknown in await browser.text("#warning")
    assert all("404" in said for said in await browser.console())
    browser.errors.clear()
