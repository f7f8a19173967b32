"""The stories of docs/debugging.md: what their commands print is what they say that these print."""

import re
import secrets
import shlex
from pathlib import Path

import anyio
import pytest

from respool import cli
from respool.inspection import transfer
from respool.inspection.screen import Screen
from respool.settings import Settings

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "debugging.md"
STORIES = ("cut-by-a-proxy", "name-comes-last", "tool-times-out")
LEFT_OUT = "⋮"
"""A line that stands for any number of them."""

VARIES = re.compile(r"folded in [0-9.]+ s")


@pytest.fixture
def store_url(valkey_url):
    """A real server, as those who read the page have."""
    return valkey_url


@pytest.fixture
def told(store_url, monkeypatch, capsys):
    """Runs a command in the checkout, on a store that holds the stories' responses; what it prints."""
    namespace = f"stories-{secrets.token_hex(4)}"
    settings = Settings(redis_url=store_url, namespace=namespace, retention_s=60)
    files = [str(ROOT / "tests" / "cases" / f"{name}.respool") for name in STORIES]

    async def fill():
        await transfer.import_(Screen(), settings, files, tenant=None)

    anyio.run(fill)
    capsys.readouterr()
    monkeypatch.setenv("RESPOOL_REDIS_URL", store_url)
    monkeypatch.setenv("RESPOOL_NAMESPACE", namespace)
    monkeypatch.chdir(ROOT)

    def run(command: str) -> list[str]:
        monkeypatch.setattr("sys.argv", shlex.split(command))
        with pytest.raises(SystemExit):
            cli.main()
        printed = capsys.readouterr()
        return (printed.out + printed.err).splitlines()

    return run


def blocks() -> list[tuple[str, list[str]]]:
    """Commands of the page, each with the lines that follow it."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for part in block.split("$ ")[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            found.append((command, lines))
    return found


def test_the_stories_print_what_the_page_says(told):
    assert len(blocks()) >= 7
    for command, expected in blocks():
        assert same(told(command), expected), f"{command}\n" + "\n".join(told(command))


def same(printed: list[str], expected: list[str]) -> bool:
    """Whether the lines are the expected ones; LEFT_OUT stands for what is left out."""
    pattern = "".join(
        "(?:.*\n)*" if line.strip() == LEFT_OUT else re.escape(steady(line)) + "\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(steady(line) + "\n" for line in printed)) is not None


def steady(line: str) -> str:
    """A line without what differs from run to run."""
    return VARIES.sub("folded in … s", line).rstrip()
