"""Web search end to end: what the engine is asked, what the model is told, and what the client is shown."""

import json
from typing import Any

from tests.api.tools.model import Call, Part, Say, search
from tests.api.tools.rig import SEARCH, Rig

ANSWER: list[Part] = [Say("Done.")]
SOURCES = "web_search_call.action.sources"
FOUND = [{"type": "url", "url": f"https://found.test/{n}"} for n in (1, 2)]


def results_of(rig: Rig) -> list[dict[str, Any]]:
    """What the model was told of each search."""
    return [json.loads(text) for text in rig.model.asked().results.values()]


async def test_every_name_of_the_tool_is_the_same_search(rig: Rig, stream: bool):
    for kind in (
        *("web_search", "web_search_2025_08_26"),
        *("web_search_preview", "web_search_preview_2025_03_11"),
    ):
        rig.model.script([search("fact")], ANSWER)
        turn = await rig.turn(stream, tools=[{"type": kind}])
        (told,) = results_of(rig)
        assert [result["url"] for result in told["results"]] == [found["url"] for found in FOUND]
        assert [result["content"] for result in told["results"]] == ["Fact 1.", "Fact 2."]
        (item,) = turn.of("web_search_call")
        assert item["action"] == {"type": "search", "query": "fact", "queries": ["fact"]}
        assert item["status"] == "completed"
        assert turn.response["tools"] == [{"type": kind}]
        assert "web_search" in rig.model.asked().functions
    asked = [request["params"] for request in rig.engine.asked]
    assert asked == [{"q": "fact", "format": "json"}] * 4


async def test_sources_are_shown_to_whoever_asks_for_them(rig: Rig, stream: bool):
    rig.model.script([search("fact")], ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH], include=[SOURCES])
    assert turn.of("web_search_call")[0]["action"]["sources"] == FOUND
    rig.model.script([search("fact")], ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH])
    assert "sources" not in turn.of("web_search_call")[0]["action"]


async def test_filters_and_size_of_the_tool_hold_for_its_calls(rig: Rig, stream: bool):
    rig.engine.hits = [
        {"title": host, "url": f"https://{host}/", "content": "x" * 3_000}
        for host in ("a.test", "b.test", "sub.a.test", "c.test")
    ]
    tool = {
        "type": "web_search",
        "filters": {"allowed_domains": ["a.test", "c.test"]},
        "search_context_size": "low",
    }
    rig.model.script([search("fact")], ANSWER)
    turn = await rig.turn(stream, tools=[tool], include=[SOURCES])
    (told,) = results_of(rig)
    urls = ["https://a.test/", "https://sub.a.test/", "https://c.test/"]
    assert [result["url"] for result in told["results"]] == urls
    assert {len(result["content"]) for result in told["results"]} == {400}
    sources = turn.of("web_search_call")[0]["action"]["sources"]
    assert [source["url"] for source in sources] == urls
    assert "site:a.test" in rig.engine.asked[0]["params"]["q"]


async def test_a_search_that_fails_is_told_to_both(rig: Rig, stream: bool):
    """There is no event for it: the item says so (`turn` checks its life)."""
    rig.engine.broken.add("bad")
    rig.model.script([search("bad")], ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH], include=[SOURCES])
    (item,) = turn.of("web_search_call")
    assert (item["status"], item["action"]["query"]) == ("failed", "bad")
    assert results_of(rig) == [{"error": "The search provider answered with status 500."}]
    assert turn.text == "Done."


async def test_searches_for_nothing_fail_and_the_engine_is_not_asked(rig: Rig, stream: bool):
    empty = ["", "{}", '{"query": 5}', "[]", "nonsense"]
    rig.model.script([Call("web_search", given) for given in empty], ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH], parallel_tool_calls=True)
    assert [item["status"] for item in turn.of("web_search_call")] == ["failed"] * len(empty)
    assert rig.engine.asked == []
    assert [set(told) for told in results_of(rig)] == [{"error"}] * len(empty)
    assert turn.text == "Done."


async def test_several_queries_of_one_call_are_one_item(rig: Rig, stream: bool):
    rig.model.script([Call("web_search", '{"queries": ["a", "b"]}')], ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH])
    (item,) = turn.of("web_search_call")
    assert item["action"]["queries"] == ["a", "b"]
    assert sorted(asked["params"]["q"] for asked in rig.engine.asked) == ["a", "b"]


async def test_a_text_that_names_a_result_cites_it(rig: Rig, stream: bool):
    text = "As https://found.test/2 says, so it is."
    rig.model.script([search("fact")], [Say(text)])
    turn = await rig.turn(stream, tools=[SEARCH])
    ((part,),) = [item["content"] for item in turn.of("message")]
    (cited,) = part["annotations"]
    assert (cited["type"], cited["url"]) == ("url_citation", "https://found.test/2")
    assert cited["title"] == "Page 2"
    assert "https://found.test/2" in text[cited["start_index"] : cited["end_index"]]
    if stream:
        told = [e for e in turn.events if e["type"] == "response.output_text.annotation.added"]
        assert [e["annotation"] for e in told] == [cited]
        assert [e["annotation_index"] for e in told] == [0]


async def test_a_client_function_named_like_the_search_is_refused(rig: Rig, stream: bool):
    rig.model.script(ANSWER)
    function = {"type": "function", "name": "web_search", "parameters": {"type": "object"}}
    reply = await rig.gateway.create(stream=stream, tools=[SEARCH, function])
    assert (reply.status, reply.error["param"]) == (400, "tools")
    assert rig.gateway.upstream.requests == []
