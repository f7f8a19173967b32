import os
from collections.abc import AsyncIterator, Iterator

import pytest

from streams.store import Store
from tests.api.tools.rig import Rig
from tests.browser.chromium import Browser, chromium, missing
from tests.browser.stage import stage

REQUIRED = "RESPOOL_TEST_BROWSER"
"""Set where a missing browser is a failure and not a reason to leave the tests out (CI)."""


@pytest.fixture(scope="session")
def driver(tmp_path_factory) -> Iterator[object]:
    """The browser of this session. Skips where there is none."""
    if lacks := missing():
        (pytest.fail if os.environ.get(REQUIRED) else pytest.skip)(f"make test-browser: no {lacks}")
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
async def browser(driver) -> AsyncIterator[object]:
    """The browser with nothing open. A test whose page said an error in the console fails, unless it took it out."""
    page = Browser(driver)
    await page.tidy()
    yield page
    await page.leave()
    assert not page.errors, page.errors


@pytest.fixture
async def rig(store: Store, browser) -> AsyncIterator[Rig]:
    """A gateway with the debug page, which the browser has left when it ends."""
    async with stage(store) as made:
        yield made
        await browser.leave()
