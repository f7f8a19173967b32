"""`respool demo`: a stream that survives a cut connection and a process killed with -9.

In: nothing but the package and the official `openai` client. It starts the scripted upstream and
two `respool serve` processes on one embedded store, in a folder of its own, and shows what happens
in order. Out: exit status 0 if the two halves of the stream are byte for byte the whole. Called by
`respool.cli`; `respool.demo_client` reads, `respool.demo_page` prints.

Replica A only answers clients: it owns nothing, so killing it costs nothing but its connections.
Replica B also holds the connection to the upstream. Were *that* process killed, the upstream's
answer would be lost with it, and the response would end as failed: no log can save what was never
received.
"""

import asyncio
import signal
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from respool.demo_upstream import serving
from respool.replica import Replica, reserved
from respool.roles import Role
from respool.settings import Settings
from respool.unusable import Unusable

if TYPE_CHECKING:
    from openai.types.responses import ResponseStreamEvent

    from respool.demo_page import Page

PORT = int(Settings.model_fields["port"].default)
CUT_AFTER = 8
"""Deltas of the tool's input that the client sees before its connection is cut."""
UNWATCHED_S = 0.6
"""How long nobody reads: enough for a dozen frames that only the log has."""
INPUT_DELTA = "response.custom_tool_call_input.delta"
MISSING = "the demo needs the official OpenAI client: pip install 'respool[demo]'"


def run(*, once: bool) -> int:
    """Run it; with `once` it ends by itself, else it serves until Ctrl-C."""
    try:
        import openai  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise Unusable(MISSING) from None
    try:
        return asyncio.run(_run(once=once))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0


async def _run(*, once: bool) -> int:
    main = asyncio.current_task()
    if main is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, main.cancel)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="respool-demo-")))
        upstream = await stack.enter_async_context(serving())
        settings = {
            "RESPOOL_UPSTREAM_URL": upstream,
            "RESPOOL_LOG_LEVEL": "WARNING",
            "RESPOOL_DEBUG_UI": "true",
        }
        second = Replica(folder, settings, port=stack.enter_context(reserved(PORT)))
        first = Replica(folder, settings, roles=[Role.API])
        for replica in (second, first):
            stack.push_async_callback(replica.stop)
            await replica.start()
        from respool.demo_page import Page  # noqa: PLC0415 - takes a second, which they need anyway

        await asyncio.gather(first.ready(), second.ready())
        page = Page()
        page.opening(upstream, first, second)
        return await _show(page, first, second, once=once)


async def _show(page: "Page", first: Replica, second: Replica, *, once: bool) -> int:
    from respool.demo_client import Client  # noqa: PLC0415 - needs the client that `run` looked for

    reading = Reading(page, "A", cut_after=CUT_AFTER)
    async with Client(first.url) as client:
        before = await client.create(reading.saw)
        page.happened(f"✂  The client's connection to A is cut after number {before.last}.")
    await first.kill()
    page.happened(
        f"☠  Replica A (pid {first.pid}) is killed with -9: status {first.status}.", "bold red"
    )
    page.happened("…  Nobody reads. The upstream goes on writing into the log.", "dim")
    await asyncio.sleep(UNWATCHED_S)
    page.happened(
        f"▶  GET …?stream=true&starting_after={before.last} at replica B (pid {second.pid})."
    )
    async with Client(second.url) as client:
        after = await client.resume(reading.response_id, before.last, Reading(page, "B").saw)
        whole = await client.resume(reading.response_id, None, lambda _: False)
    if not page.verdict(before, after, whole):
        return 1
    page.what_next(second, reading.response_id, once=once)
    if not once:
        raise Unusable(f"replica B ended by itself: status {await second.wait()}")
    return 0


class Reading:
    """Shows the events of one connection, and says when it is to be cut."""

    def __init__(self, page: "Page", name: str, *, cut_after: int = 0) -> None:
        self._page = page
        self._name = name
        self._cut_after = cut_after
        self._deltas = 0
        self.response_id = ""

    def saw(self, event: "ResponseStreamEvent") -> bool:
        """Show it; True where the connection is to be cut."""
        self._page.event(self._name, event)
        if event.type == "response.created":
            self.response_id = event.response.id
        self._deltas += event.type == INPUT_DELTA
        return 0 < self._cut_after <= self._deltas
