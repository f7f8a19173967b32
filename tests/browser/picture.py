"""The picture of the debug page in the README, taken from `respool serve` at work: `make picture`.

In: where to put it. A scripted model writes at the pace of a real one, searches, calls two tools of an MCP server at
once, and then edits a file with a custom tool; other responses before it have ended well and badly, and one still runs.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp

from respool.demo_upstream import pieces
from tests.api.tools.model import Asked
from tests.browser.chromium import Browser, chromium
from tests.browser.debug import SETTLED
from tests.ingest.server import End, Seen, Step, event, text_stream
from tests.ingest.server import serving as upstream_serving
from tests.respool.errands import answer, call, message
from tests.respool.processes import replica
from tests.workers.tools.mcp_server import serving as mcp_serving
from tests.workers.tools.search_server import searching

PACE_S = 0.022
"""Between two events of the model."""
SEARCH_S = 0.42
THOUGHT = "The user wants a greeting that waves. First see what the project's notes and the manual say about it."
SAID = "I will look at the notes and the manual first."
FOUND = (
    "The notes ask for an f-string and for a wave at the end. Here is the change to greeting.py:"
)
PATCH = """\
*** Begin Patch
*** Update File: greeting.py
@@ def greet(name):
-    print("Hello " + name)
+    wave = "o/"
+    print(f"{wave} hello, {name}!")
*** End Patch
"""
AT = "input.delta hello"
"""The moment of the picture: the piece of the patch that the client has just seen."""
PROMPT = "Make the greeting wave."


def thought(index: int, text: str) -> tuple[dict[str, Any], list[bytes]]:
    at = {"item_id": f"rs_up{index}", "output_index": index, "content_index": 0}
    item = {"id": at["item_id"], "type": "reasoning", "summary": [], "status": "completed"}
    whole = {**item, "content": [{"type": "reasoning_text", "text": text}]}
    return whole, [
        event("response.output_item.added", output_index=index, item={**item, "content": []}),
        *(event("response.reasoning_text.delta", delta=one, **at) for one in pieces(text)),
        event("response.reasoning_text.done", text=text, **at),
        event("response.output_item.done", output_index=index, item=whole),
    ]


def typed(index: int, name: str, arguments: str) -> tuple[dict[str, Any], list[bytes]]:
    """A call whose arguments come a few letters at a time."""
    item, (added, _, done) = call(index, name, arguments)
    place = {"item_id": item["id"], "output_index": index}
    kind = "response.function_call_arguments.delta"
    return item, [
        added,
        *(event(kind, delta=one, **place) for one in pieces(arguments)),
        done,
    ]


def paced(events: list[bytes]) -> Iterator[Step]:
    loop = asyncio.get_running_loop()
    for one in events:
        gate = asyncio.Event()
        loop.call_later(PACE_S, gate.set)
        yield gate
        yield one


def rounds(seen: Seen) -> Iterator[Step]:
    """What the model says to a request."""
    asked = Asked(json.loads(seen.body), "responses")
    if asked.results:
        patch = json.dumps({"input": PATCH}, ensure_ascii=False)
        return paced(
            answer([message(0, *pieces(FOUND)), typed(1, asked.name_of("apply_patch"), patch)])
        )
    calls = [
        call(2, "web_search", json.dumps({"query": "python waving hand sign"})),
        call(3, asked.name_of("look"), json.dumps({"text": "notes"})),
        call(4, asked.name_of("echo"), json.dumps({"text": "greeting.py"})),
    ]
    return paced(answer([thought(0, THOUGHT), message(1, *pieces(SAID)), *calls]))


async def main(target: Path) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = await stack.enter_async_context(upstream_serving())
        mcp = await stack.enter_async_context(mcp_serving())
        engine = await stack.enter_async_context(searching())
        mcp.names = ["echo", "look"]
        engine.hits = [
            {"title": "U+1F44B", "url": "https://found.test/wave", "content": "WAVING HAND SIGN"}
        ]
        engine.delay_s = SEARCH_S
        served = await stack.enter_async_context(
            replica(
                folder,
                UPSTREAM_URL=upstream.url,
                DEBUG_UI="true",
                MAX_ROUNDS="4",
                WEB_SEARCH_PROVIDER="searxng",
                WEB_SEARCH_URL=engine.url,
                MCP_ALLOWED_HOSTS="127.0.0.1",
            )
        )
        http = await stack.enter_async_context(aiohttp.ClientSession())

        async def create(**fields: Any) -> dict[str, Any]:
            async with http.post(
                f"{served.url}/v1/responses", json={"input": PROMPT, **fields}
            ) as got:
                found: dict[str, Any] = await got.json()
                return found

        server = {"server_label": "notes", "server_url": mcp.url, "require_approval": "never"}
        tools = [
            {"type": "web_search"},
            {"type": "mcp", **server},
            {"type": "custom", "name": "apply_patch", "description": "Edits files."},
        ]
        upstream.play(*text_stream("Hello! How can I help?"))
        # With tools, so that the first list of tools, which loads the SDK, is not in the picture.
        await create(model="qwen3-coder-30b", tools=tools)
        upstream.plays = []
        upstream.play(*text_stream("The first half of ")[:-4], End.RESET)
        await create(model="gpt-oss-120b")
        upstream.plays = []
        upstream.play(rounds)
        shown = await create(model="qwen3-coder-30b", tools=tools, parallel_tool_calls=True)
        assert shown["status"] == "completed", shown
        upstream.plays = []
        upstream.play(*text_stream("And ", "so ", "on")[:-4], asyncio.Event())
        await create(model="qwen3-coder-30b", background=True)
        driver = stack.enter_context(chromium(folder / "profile"))
        browser = Browser(driver)
        await browser.tidy()
        await browser.scheme("light")
        await browser.open(f"{served.url}/debug#{shown['id']}")
        await browser.until(SETTLED)
        await browser.until("document.querySelectorAll('#recent li').length === 4")
        row = "document.querySelector('.row.at .half.out')?.textContent.replace(/ +/, ' ')"
        for _ in range(200):
            await browser.press("[")
            await browser.until(SETTLED)
            if await browser.js(f"return {row}") == AT:
                break
        await browser.until(
            "document.querySelector('#bytes-shown').dataset.of.startsWith('frames')"
        )
        await browser.picture(target)
        assert not await browser.console()
        await browser.leave()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
