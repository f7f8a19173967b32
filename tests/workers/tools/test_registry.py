import pytest

from tests.workers.tools.test_job import a_job
from workers.tools import registry
from workers.tools.job import Failed
from workers.tools.registry import Offer, Registry, ToolSettings


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({}, "RESPOOL_WEB_SEARCH_PROVIDER is not set"),
        ({"provider": "ask"}, "RESPOOL_WEB_SEARCH_PROVIDER must be one of searxng, brave, tavily"),
        ({"provider": "searxng"}, "searxng needs RESPOOL_WEB_SEARCH_URL"),
        (
            {"provider": "searxng", "url": "ftp://x"},
            "RESPOOL_WEB_SEARCH_URL is no http or https address",
        ),
        ({"provider": "brave"}, "brave needs RESPOOL_WEB_SEARCH_API_KEY"),
    ],
)
def test_a_search_that_is_off_says_why(given, note):
    assert Registry(ToolSettings(5, **given)).offers()[0] == Offer("web_search", False, note)


def test_what_is_on_says_how_and_shows_no_key():
    settings = ToolSettings(5, provider="brave", api_key="sk-secret", mcp_allowed_hosts="a:1")
    search, mcp = Registry(settings).offers()
    assert search == Offer("web_search", True, "with brave")
    assert mcp == Offer("mcp", True, "public https servers, and a:1")
    assert "sk-secret" not in repr(settings)
    assert Registry(ToolSettings(5)).offers()[1].note == "public https servers"


async def test_without_the_sdk_there_is_no_mcp(monkeypatch):
    monkeypatch.setattr(registry, "SDK", "no_such_package")
    tools = Registry(ToolSettings(5))
    assert tools.offers()[1] == Offer("mcp", False, "the package mcp is not installed")
    with pytest.raises(Failed, match="cannot be used here"):
        await tools.run(a_job(tool="mcp", server=0), b"")


async def test_what_is_not_set_up_fails_its_call_only():
    async with Registry(ToolSettings(5)) as tools:
        with pytest.raises(Failed, match="not set up"):
            await tools.run(a_job(tool="web_search", arguments='{"query":"x"}'), b"")
        with pytest.raises(Failed, match="cannot be run"):
            await tools.run(a_job(tool="shell"), b"")
