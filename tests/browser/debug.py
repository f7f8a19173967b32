"""The debug page in a browser: where it is opened, and how it says that it is done."""

from tests.api.gateway import Gateway
from tests.browser.chromium import Browser

SETTLED = (
    "(() => { const one = document.querySelector('#one').dataset;"
    " return one.live === 'ended' && one.drawn === 'true' && one.frames > 0 && one.linked === one.frames"
    " && !document.querySelector('.stale') && document.querySelector('#machine').dataset.after"
    " === one.after })()"
)
"""Everything that a finished response has is there, and every part shows the same moment."""


async def show(browser: Browser, gateway: Gateway, rid: str) -> None:
    """The page with a finished response, all of it there."""
    await browser.open(f"{gateway.url}/debug#{rid}")
    await browser.until(SETTLED)


async def settled(browser: Browser) -> None:
    await browser.until(SETTLED)


async def go_to(browser: Browser, row: int) -> None:
    """Move the scrubber, as a hand does."""
    await browser.js(
        "const s = document.querySelector('#scrubber'); s.value = arguments[0];"
        " s.dispatchEvent(new Event('input'))",
        row,
    )
    await settled(browser)
