"""The three providers against a scripted engine, and what the model gets to see of them."""

import asyncio
import json

import pytest

from workers.tools import web_search
from workers.tools.job import Failed
from workers.tools.providers import MAX_SITES, PROVIDERS, Query
from workers.tools.registry import ToolSettings, provider_of
from workers.tools.web_search import WebSearch

KEY = "sk-search-secret"
HITS = [
    {"title": "One", "url": "https://one.test/a", "content": "c1", "description": "c1"},
    {"title": "Two", "url": "https://www.two.test/b", "content": "c2", "description": "c2"},
    {"title": "Evil", "url": "javascript:alert(1)", "content": "no"},
    {"title": "None", "url": None},
    {"title": "Bad", "url": "https://[bad"},
    {"title": None, "url": "https://one.test/a", "content": "again"},
    {"title": "Three", "url": "http://three.test", "content": 5, "publishedDate": "2026-01-01"},
]


async def search(engine, arguments=None, options=None, *, provider="searxng"):
    settings = ToolSettings(5, provider=provider, url=f"{engine.url}/", api_key=KEY)
    async with web_search.session() as session:
        tool = WebSearch(provider_of(settings), session)
        return await tool.search(arguments or {"query": "what"}, options or {})


async def failing(work) -> str:
    with pytest.raises(Failed) as failed:
        await work
    assert KEY not in str(failed.value)
    assert failed.value.error is None
    return failed.value.message


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
async def test_every_provider_gives_the_same_shape(engine, provider):
    engine.hits = HITS
    outcome = await search(engine, provider=provider)
    assert outcome.ok
    assert outcome.sources == ["https://one.test/a", "https://www.two.test/b", "http://three.test"]
    assert outcome.results[0] == {"title": "One", "url": "https://one.test/a"}
    shown = json.loads(outcome.content)
    assert shown["query"] == "what"
    assert shown["results"][0] == {"title": "One", "url": "https://one.test/a", "content": "c1"}
    assert ": " not in outcome.content.partition("results")[0]


async def test_searxng_is_asked_for_json(engine):
    engine.hits = HITS
    outcome = await search(engine)
    (asked,) = engine.asked
    assert asked["path"] == "/search"
    assert asked["params"] == {"q": "what", "format": "json"}
    assert json.loads(outcome.content)["results"][-1]["date"] == "2026-01-01"


async def test_brave_gets_its_key_and_the_place(engine):
    place = {"type": "approximate", "country": "de", "city": "Berlin", "timezone": "Europe/Berlin"}
    engine.hits = [{"title": "a", "url": "https://a.test", "extra_snippets": ["more"]}]
    outcome = await search(engine, options={"user_location": place}, provider="brave")
    (asked,) = engine.asked
    assert asked["path"] == "/res/v1/web/search"
    assert asked["headers"]["x-subscription-token"] == KEY
    assert asked["params"]["country"] == "DE"
    assert asked["headers"]["x-loc-city"] == "Berlin"
    assert "x-loc-state-name" not in asked["headers"]
    assert json.loads(outcome.content)["results"][0]["content"] == "more"


async def test_tavily_gets_domains_and_the_country_by_name(engine):
    options = {
        "filters": {"allowed_domains": ["A.test"], "blocked_domains": ["b.test"]},
        "user_location": {"country": "GB"},
        "search_context_size": "high",
    }
    await search(engine, options=options, provider="tavily")
    (asked,) = engine.asked
    assert asked["headers"]["authorization"] == f"Bearer {KEY}"
    assert asked["json"] == {
        "query": "what",
        "max_results": 10,
        "include_domains": ["a.test"],
        "exclude_domains": ["b.test"],
        "country": "united kingdom",
    }


async def test_a_place_that_is_none_is_left_out(engine):
    place = {"country": "Germany", "city": "Ber\nlin", "region": "Ö", "timezone": 5}
    await search(engine, options={"user_location": place}, provider="brave")
    assert not [name for name in engine.asked[0]["headers"] if name.startswith("x-loc")]
    await search(engine, options={"user_location": "here", "filters": 5}, provider="tavily")
    assert engine.asked[1]["json"] == {"query": "what", "max_results": 6}


async def test_domains_are_asked_for_and_held_to(engine):
    engine.hits = [
        {"title": str(i), "url": url}
        for i, url in enumerate(
            [
                "https://ok.test/1",
                "https://sub.ok.test/2",
                "https://notok.test",
                "https://bad.ok.test",
            ]
        )
    ]
    filters = {
        "allowed_domains": ["https://www.OK.test/path", "ok.test", "", 5],
        "blocked_domains": ["bad.ok.test"],
    }
    outcome = await search(engine, options={"filters": filters})
    assert engine.asked[0]["params"]["q"] == "what site:ok.test -site:bad.ok.test"
    assert outcome.sources == ["https://ok.test/1", "https://sub.ok.test/2"]
    many = [f"d{i}.test" for i in range(100)]
    await search(engine, options={"filters": {"allowed_domains": many}})
    assert engine.asked[1]["params"]["q"].count("site:") == MAX_SITES


HOSTS = [
    "https://bücher.de/1",
    "https://xn--bcher-kva.de/2",
    "https://www.B%C3%9CCHER.de/3",
    "https://evil.test/4",
    "https://bucher.de/5",
    "https://[::1]/6",
]


@pytest.mark.parametrize(
    "named", ["bücher.de", "BÜCHER.de.", "xn--bcher-kva.de", "bu\u0308cher.de"]
)
async def test_an_internationalised_domain_is_the_same_however_it_is_written(engine, named):
    engine.hits = [{"title": "t", "url": url} for url in HOSTS]
    outcome = await search(engine, options={"filters": {"allowed_domains": [named]}})
    assert engine.asked[0]["params"]["q"] == "what site:xn--bcher-kva.de"
    assert outcome.sources == HOSTS[:3]
    outcome = await search(engine, options={"filters": {"blocked_domains": [named]}})
    assert outcome.sources == HOSTS[3:5]


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@pytest.mark.parametrize(
    "allowed", [["no domain"], ["-", 5, None, ""], ["☃.test"], "a.test", {"a": 1}]
)
async def test_an_allowed_list_without_a_domain_lets_nothing_through(engine, provider, allowed):
    engine.hits = HITS
    options = {"filters": {"allowed_domains": allowed}}
    outcome = await search(engine, {"queries": ["a", "b"]}, options, provider=provider)
    assert json.loads(outcome.content) == {"queries": ["a", "b"], "results": []}
    assert (outcome.sources, engine.asked) == ([], [])


@pytest.mark.parametrize("filters", [None, {}, {"allowed_domains": []}, {"allowed_domains": None}])
async def test_no_allowed_list_at_all_is_no_filter(engine, filters):
    engine.hits = HITS[:1]
    assert (await search(engine, options={"filters": filters})).sources == ["https://one.test/a"]


async def test_a_blocked_entry_that_cannot_be_read_blocks_nothing(engine):
    engine.hits = HITS[:2]
    blocked = ["no domain", "☃", 5, "one.test"]
    outcome = await search(engine, options={"filters": {"blocked_domains": blocked}})
    assert engine.asked[0]["params"]["q"] == "what -site:one.test"
    assert outcome.sources == ["https://www.two.test/b"]


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
async def test_one_result_that_is_none_does_not_lose_the_others(engine, provider):
    odd = [5, None, "x", [], {"title": "no address"}, {"url": 5}]
    engine.hits = [
        *odd,
        {**HITS[0], "extra_snippets": ["more", 5]},
        {**HITS[1], "extra_snippets": 5},
    ]
    outcome = await search(engine, provider=provider)
    assert outcome.sources == ["https://one.test/a", "https://www.two.test/b"]
    engine.hits = odd
    assert json.loads((await search(engine, provider=provider)).content)["results"] == []


def test_a_request_shows_no_key_in_a_log():
    for provider in PROVIDERS:
        settings = ToolSettings(5, provider=provider, url="http://a.test", api_key=KEY)
        assert KEY not in repr(provider_of(settings).ask(Query("what", 3)))


@pytest.mark.parametrize(
    ("size", "count", "chars"),
    [("low", 3, 400), (None, 6, 1000), ("x", 6, 1000), ([], 6, 1000), ("high", 10, 2500)],
)
async def test_the_context_size_bounds_results_and_texts(engine, size, count, chars):
    engine.hits = [
        {"title": "t" * 999, "url": f"https://a.test/{i}", "content": "c" * 9999} for i in range(30)
    ]
    shown = json.loads((await search(engine, options={"search_context_size": size})).content)
    assert len(shown["results"]) == count
    assert {len(result["content"]) for result in shown["results"]} == {chars}


async def test_several_queries_are_asked_at_once_and_merged_by_rank(engine):
    engine.hits, engine.delay_s = HITS[:2], 0.1
    outcome = await search(engine, {"queries": ["a", "b", "a", " ", 5]})
    assert sorted(asked["params"]["q"] for asked in engine.asked) == ["a", "b"]
    assert engine.most == 2
    assert len(outcome.sources) == 2
    assert json.loads(outcome.content)["queries"] == ["a", "b"]


async def test_a_query_beside_several_is_asked_too(engine):
    outcome = await search(engine, {"query": "x", "queries": ["y", "x"]})
    assert json.loads(outcome.content)["queries"] == ["x", "y"]


async def test_queries_past_the_bound_are_named_as_not_run(engine):
    engine.hits = HITS[:1]
    queries = [f"q{n}" for n in range(10)]
    told = json.loads((await search(engine, {"queries": queries[:8]})).content)
    assert (told["queries"], set(told)) == (queries[:8], {"queries", "results"})
    assert len(engine.asked) == 8
    told = json.loads((await search(engine, {"queries": queries})).content)
    assert (told["queries"], told["queries_not_run"]) == (queries[:8], queries[8:])
    assert len(engine.asked) == 16


async def test_a_query_that_failed_beside_others_is_named(engine):
    engine.hits = HITS[:1]
    engine.broken.add("b")
    told = json.loads((await search(engine, {"queries": ["a", "b"]})).content)
    assert (told["queries"], told["failed_queries"]) == (["a", "b"], ["b"])
    assert len(told["results"]) == 1


@pytest.mark.parametrize("arguments", [{"query": ""}, {"query": 5}, {"q": "x"}, {"queries": [5]}])
async def test_a_search_for_nothing_is_not_sent(engine, arguments):
    assert await failing(search(engine, arguments)) == "The search needs a query."
    assert engine.asked == []


async def test_no_results_are_a_result(engine):
    outcome = await search(engine)
    assert json.loads(outcome.content) == {"query": "what", "results": []}
    assert (outcome.sources, outcome.results) == ([], [])


@pytest.mark.parametrize("status", [302, 401, 429, 500])
async def test_a_status_is_told_without_the_body(engine, status):
    engine.status, engine.body = status, f"key {KEY} is bad".encode()
    assert await failing(search(engine, provider="brave")) == (
        f"The search provider answered with status {status}."
    )


async def test_a_redirect_takes_the_key_nowhere(engine):
    engine.location = f"http://localhost:{engine.port}/elsewhere"
    assert "302" in await failing(search(engine, provider="tavily"))
    assert len(engine.asked) == 1


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'"x"', b'{"results":{"a":5},"web":{"results":{"a":5}}}']
)
async def test_an_answer_that_is_none_is_told_as_such(engine, provider, body):
    engine.body = body
    assert await failing(search(engine, provider=provider)) == web_search.UNREADABLE_TEXT


async def test_an_answer_without_an_end_is_cut_off(engine):
    engine.body = b"x" * (web_search.MAX_ANSWER_BYTES + 1)
    assert "too large" in await failing(search(engine))


async def test_nobody_there(engine):
    engine.port = 9
    assert await failing(search(engine)) == "The search provider could not be reached."


async def test_one_of_several_queries_may_fail(engine, monkeypatch):
    engine.hits = HITS[:1]
    ask = PROVIDERS["searxng"].read
    calls = []

    def read(self, answer):
        calls.append(answer)
        return ask(self, answer) if len(calls) > 1 else answer["no such thing"]

    monkeypatch.setattr(PROVIDERS["searxng"], "read", read)
    outcome = await search(engine, {"queries": ["a", "b"]})
    assert outcome.sources == ["https://one.test/a"]


async def test_a_connection_that_is_slow_to_come_is_given_up(engine, monkeypatch):
    engine.delay_s = 5

    def impatient():
        return web_search.aiohttp.ClientSession(
            timeout=web_search.aiohttp.ClientTimeout(total=0.05)
        )

    monkeypatch.setattr(web_search, "session", impatient)
    assert await failing(search(engine)) == "The search provider did not answer in time."
    await asyncio.sleep(0)
