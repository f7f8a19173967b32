"""The scrubber: the response as the client saw it at a moment, beside what the gateway knew then."""

import json

import pytest

from respool.demo_upstream import serving as demo_serving
from streams import recording
from streams.store import Store
from tests.api.tools.model import Api, Say, call
from tests.api.tools.rig import CUSTOM
from tests.browser.chromium import Browser
from tests.browser.debug import go_to, settled, show
from tests.browser.marks import BROWSER
from tests.browser.stage import stage

pytestmark = BROWSER

LETTERS = "one two three four"


@pytest.fixture
async def rid(rig) -> str:
    rig.model.script(
        [*(Say(word) for word in LETTERS.split()), call("shell", input="echo " + "x" * 40)]
    )
    return (await rig.turn(True, tools=[CUSTOM])).response["id"]


def shown_at(frames: list[dict], seq: int) -> list[str]:
    """The texts of all items as a client has them after a frame, told by deltas and dones alone."""
    texts: dict[int, str] = {}
    for frame in frames[: seq + 1]:
        index = frame.get("output_index")
        if frame["type"] == "response.output_item.added":
            texts[index] = ""
        elif isinstance(frame.get("delta"), str):
            texts[index] += frame["delta"]
    return [text for text in texts.values() if text]


async def test_each_moment_shows_what_a_client_had_by_then(browser: Browser, rig, rid, store):
    await show(browser, rig.gateway, rid)
    frames = [
        json.loads(f.data.partition(b"data: ")[2])
        for f in (await recording.read(store.logs, rid)).frames
    ]
    last = int(await browser.js("return Number(document.querySelector('#scrubber').max)"))
    compared = 0
    for row in range(last, -1, -3):
        await go_to(browser, row)
        seq = int(await browser.data("seq"))
        texts = await browser.texts("#client .item pre.text")
        assert [text for text in texts if text] == shown_at(frames, seq)
        compared += 1
    assert compared > 10


async def test_beside_it_stands_what_the_gateway_knew(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    base = f"/debug/api/responses/{rid}/state?after="
    for row in (3, 12, 25, 12):
        await go_to(browser, row)
        n = int(await browser.data("after"))
        state = (await rig.gateway.ask("GET", f"{base}{n}")).json["state"]
        assert f"next frame{state['next_seq']}" in await browser.text("#machine dl.facts")
        items = (state["round"] or {"items": []})["items"]
        texts = [
            part["text"] for item in items for part in item.get("parts", [item]) if part["text"]
        ]
        assert await browser.texts("#machine .item pre.text") == texts
    await browser.click("#machine-json")
    assert json.loads(await browser.text("#machine pre.text")) == state


async def test_the_newest_piece_is_marked(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    await browser.press("\ue011")
    for _ in range(200):
        await browser.press("]")
        await settled(browser)
        if marked := await browser.texts("#client mark"):
            break
    assert marked == [LETTERS.split(maxsplit=1)[0]]


async def test_keys_step_jump_and_stop_at_both_ends(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    row = "return Number(document.querySelector('#scrubber').value)"
    last = int(await browser.js("return Number(document.querySelector('#scrubber').max)"))
    expected = (
        ("\ue011", 0), ("k", 0), ("j", 1), ("\ue014", 2), ("\ue015", 3), ("\ue012", 2), ("\ue013", 1),
        ("\ue00f", 21), ("\ue00e", 1), ("\ue010", last), ("\ue014", last),
    )  # fmt: skip
    for key, where in expected:
        await browser.press(key)
        assert await browser.js(row) == where, key
    await browser.press("\ue011", ".", ".")
    await browser.until("document.querySelector('.row.at .name').textContent === 'attempt'")
    await browser.press(",")
    await browser.until("document.querySelector('.row.at .name').textContent === 'round'")


async def test_it_plays_with_the_original_timing(browser: Browser, rig, rid):
    await show(browser, rig.gateway, rid)
    last = int(await browser.js("return Number(document.querySelector('#scrubber').max)"))
    await browser.press("\ue011", " ")
    await browser.until(
        "document.querySelector('#play').textContent === '▶' && "
        f"document.querySelector('#scrubber').value === '{last}'"
    )
    await settled(browser)


FOLDED = """
return Promise.all([import("/debug/client.js"), import("/debug/run.js"),
  fetch(`/debug/api/responses/${arguments[0]}/frames`).then((answer) => answer.json())])
  .then(([{ Seen }, { Run }, { frames }]) => {
    const run = new Run(arguments[0]);
    frames.forEach((frame, seq) => {
      const [head, data] = frame.trimEnd().split("\\ndata: ");
      run.frame(seq, head.slice("event: ".length), data);
    });
    const seen = new Seen(run);
    while (seen.prepare(100));
    const forward = frames.map((_, seq) => JSON.stringify(seen.at(seq)));
    const backward = frames.map((_, k) => JSON.stringify(seen.at(frames.length - 1 - k))).reverse();
    const last = seen.at(frames.length - 1);
    return [last.response.output, last.items, forward.every((one, seq) => one === backward[seq])];
  });
"""


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_all_frames_folded_are_the_response_and_the_way_there_does_not_matter(
    browser: Browser, store: Store, api: Api
):
    function = {"type": "function", "name": "apply", "parameters": {"type": "object"}}
    async with demo_serving() as url, stage(store, api=api, upstream_url=url) as rig:
        made = await rig.gateway.made(model="kitchen-sink-fast", tools=[function])
        assert {item["type"] for item in made["output"]} >= {"message", "function_call"}
        await browser.open(f"{rig.gateway.url}/debug")
        output, items, same = await browser.js(FOLDED, made["id"])
        await browser.leave()
    assert same
    assert output == made["output"] == [held["item"] for held in items]
    for item, held in zip(output, items, strict=True):
        assert held["done"]
        texts = [part.get("text") or part.get("refusal") for part in item.get("content") or []]
        assert [part["text"] for part in held["parts"]] == texts
        assert held["text"] == (item.get("arguments") or "")
        assert [part["text"] for part in held["summary"]] == [
            part["text"] for part in item.get("summary") or []
        ]
