"""How long a test may take, and what is said of one that fails, while it still matters.

pytest-timeout strikes once, and stops its watch when a test has failed. An alarm that strikes while another
task than the test's runs becomes that task's result, and nobody hears of it; a test that fails and hangs while
it is torn down has no alarm at all. Either holds up a whole run, which then ends with dots and no name.
"""

import signal
from collections.abc import Generator
from typing import Any

import pytest

# An alarm that was not heard is struck again after a tenth of the time that the test had.
AGAIN = 0.1
SETTINGS = pytest.StashKey[Any]()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    """Let the alarm strike until it ends the test."""
    answer = yield
    item.stash[SETTINGS] = settings
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, left, AGAIN * settings.timeout)
    return answer


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """It was heard, or the test failed of itself, or all is over: what is written about that is not to be interrupted."""
    if call.excinfo is not None or call.when == "teardown":
        item.ihook.pytest_timeout_cancel_timer(item=item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Give a test that failed its time once more, to be torn down in."""
    if SETTINGS in item.stash and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0):
        item.ihook.pytest_timeout_set_timer(item=item, settings=item.stash[SETTINGS])
    return (yield)


class Names:
    """Says which test failed as soon as it did: a run that is stopped from outside prints no summary."""

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            lines = report.longreprtext.splitlines()
            said = next((line for line in lines if line.startswith("E ")), "")
            name = f"{report.nodeid} ({report.when})"
            self._terminal.write(f"\nFAILED {name} {said[1:].strip()}\n")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """The processes that run tests side by side have no terminal: the one that gathers their reports has."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Whoever starts the tests in the background of a script does not want Ctrl-C; what they start has to know it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if (terminal := config.pluginmanager.get_plugin("terminalreporter")) is not None:
        config.pluginmanager.register(Names(terminal))
