"""A headless Chromium, driven through Selenium, as the tests use it: asked from the event loop, in threads of its own.

The gateway under test runs in the test's event loop, so nothing here may block it. Pages are looked at by script, not
by Selenium's own waits: every wait is one for a condition of ours.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.wait import wait_until

if TYPE_CHECKING:  # an extra: without it the tests are left out, but they are still read
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains

BY_CSS = "css selector"
"""WebDriver's name for it."""
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # A small /dev/shm, as containers have it, would end the renderer.
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1"),
)
WINDOW = (1440, 900)
SOON_S = 10.0
"""What a page may take on a machine that does other things as well; most takes some hundredths."""


def missing() -> str:
    """What this machine lacks to run a browser, or nothing."""
    wanted = {"chromium": "Debian's chromium", "chromedriver": "Debian's chromium-driver"}
    lacks = [name for command, name in wanted.items() if shutil.which(command) is None]
    if find_spec("selenium") is None:
        lacks.append("the Python package selenium")
    return ", ".join(lacks)


@contextmanager
def chromium(folder: Path) -> "Iterator[webdriver.Chrome]":
    """A browser with a profile of its own, gone at the end with every process of it."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={folder}", "--window-size={},{}".format(*WINDOW)):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    pid = driver.capabilities["goog:processID"]
    try:
        yield driver
    finally:
        driver.quit()
        with suppress(ProcessLookupError):  # it has gone by itself, as it should
            os.kill(pid, signal.SIGKILL)


def page_threads(pid: int) -> dict[int, tuple[int, int]]:
    """The main thread of each process below one: ns in which it ran, and in which it could have run and had to wait."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {}
    for one in parents:
        above = one
        while above in parents and above != pid:
            above = parents[above]
        if above == pid:
            with suppress(OSError):
                ran, waited, _ = Path(f"/proc/{one}/schedstat").read_text().split()
                found[one] = (int(ran), int(waited))
    return found


class Browser:
    """One page after another in one browser."""

    def __init__(self, driver: "webdriver.Chrome") -> None:
        self._driver = driver
        self.errors: list[str] = []
        """What the console said that was an error or a warning, so far."""

    async def open(self, url: str) -> None:
        await asyncio.to_thread(self._driver.get, url)

    async def leave(self) -> None:
        """Close the page, before what it asks goes away."""
        await self.console()
        await self.open("about:blank")

    async def reload(self) -> None:
        await asyncio.to_thread(self._driver.refresh)

    async def js(self, script: str, *given: Any) -> Any:
        """What a script returns; one that gives a promise is awaited."""
        return await asyncio.to_thread(self._driver.execute_script, script, *given)

    async def until(self, expression: str, within_s: float = SOON_S) -> Any:
        """What an expression gives once it is true."""
        last = None

        async def true() -> Any:
            nonlocal last
            last = await self.js(f"return {expression}")
            return last

        try:
            return await wait_until(true, within_s)
        except AssertionError:
            raise AssertionError(
                f"{expression}: {last!r} after {within_s} s; {await self.shown()}"
            ) from None

    async def shown(self) -> str:
        """What a person would read, short, for a failure's message."""
        text = await self.js("return document.body.innerText")
        return f"{text[:1500]!r}; console: {await self.console()}"

    async def text(self, css: str) -> str:
        """The text of the first element."""
        found = await self.js(
            "return document.querySelector(arguments[0])?.textContent ?? null", css
        )
        assert found is not None, css
        return str(found)

    async def texts(self, css: str) -> list[str]:
        """The texts of all elements."""
        return list(
            await self.js(
                "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css
            )
        )

    async def data(self, name: str, css: str = "#one") -> str:
        """A `data-…` attribute."""
        return str(
            await self.js(
                "return document.querySelector(arguments[0]).dataset[arguments[1]]", css, name
            )
        )

    def _chain(self) -> "ActionChains":
        from selenium.webdriver.common.action_chains import ActionChains

        return ActionChains(self._driver, duration=0)

    async def click(self, css: str) -> None:
        """A real click in the middle of an element: one that something else covers is not clicked."""
        await asyncio.to_thread(lambda: self._driver.find_element(BY_CSS, css).click())

    async def press(self, *keys: str) -> None:
        """Real keys, to whatever has the focus."""
        chain = self._chain()
        for key in keys:
            chain.send_keys(key)
        await asyncio.to_thread(chain.perform)

    async def hover(self, css: str, dx: int = 0, dy: int = 0) -> None:
        """The pointer over an element, from its middle."""
        chain = self._chain()
        place = self._driver.find_element(BY_CSS, css)
        await asyncio.to_thread(chain.move_to_element_with_offset(place, dx, dy).perform)

    async def click_at(self, css: str, dx: int = 0, dy: int = 0) -> None:
        """A click beside the middle of an element."""
        chain = self._chain()
        place = self._driver.find_element(BY_CSS, css)
        await asyncio.to_thread(chain.move_to_element_with_offset(place, dx, dy).click().perform)

    async def share(self, work: Awaitable[object]) -> float:
        """What part of the time that a page's thread needed it got, while something was done.

        Other programs of the machine take the rest: times that were measured meanwhile are longer by that much.
        """
        pid = self._driver.capabilities["goog:processID"]
        before = page_threads(pid)
        await work
        spent = {
            one: (ran - before[one][0], waited - before[one][1])
            for one, (ran, waited) in page_threads(pid).items()
            if one in before and one != pid
        }
        ran, waited = max(spent.values())  # whoever draws the page has worked most
        return ran / max(1, ran + waited)

    async def cdp(self, command: str, **fields: Any) -> Any:
        """A command of the DevTools protocol."""
        return await asyncio.to_thread(self._driver.execute_cdp_cmd, command, fields)

    async def scheme(self, name: str) -> None:
        """`light` or `dark`, as the system would say it."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        await self.cdp("Emulation.setEmulatedMedia", features=features)

    async def size(self, width: int, height: int) -> None:
        await self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    async def console(self) -> list[str]:
        """Errors and warnings of the console so far."""
        for line in await asyncio.to_thread(self._driver.get_log, "browser"):
            if line["level"] in ("SEVERE", "WARNING"):
                self.errors.append(line["message"])
        return self.errors

    async def picture(self, path: Path) -> None:
        """A picture of what is to be seen."""
        await asyncio.to_thread(self._driver.save_screenshot, str(path))

    async def tidy(self) -> None:
        """For the next test: nothing open, nothing emulated, nothing said."""
        await self.open("about:blank")
        await self.cdp("Emulation.setEmulatedMedia", features=[])
        await self.size(*WINDOW)
        await self.console()
        self.errors = []
