"""An address that a search has found is a citation where a text names it."""

import pytest

from translator.citations import Citations


@pytest.fixture
def known():
    found = Citations()
    found.add([{"url": "https://a.example/x", "title": "A"}, {"url": "https://a.example/x?y=1"}])
    found.add([{"url": "https://b.example", "title": 7}, {"url": None}, {"url": ""}, {}])
    return found


def cited(known, text):
    return [
        (text[one["start_index"] : one["end_index"]], one["url"], one["title"])
        for one in known.of(text)
    ]


def test_bare_addresses_are_cited_where_they_stand(known):
    assert cited(known, "See https://a.example/x, and (https://b.example).") == [
        ("https://a.example/x", "https://a.example/x", "A"),
        ("https://b.example", "https://b.example", ""),
    ]
    assert known.of("é https://b.example")[0]["type"] == "url_citation"


def test_the_longer_address_wins_and_a_longer_one_still_is_another(known):
    assert cited(known, "https://a.example/x?y=1") == [
        ("https://a.example/x?y=1", "https://a.example/x?y=1", "")
    ]
    for other in ("https://a.example/xy", "https://b.example.org", "https://b.example:8/"):
        assert [url for _, url, _ in cited(known, other) if url != "https://b.example"] == []
    assert cited(known, "https://a.example/xy") == cited(known, "https://b.example.org/") == []


def test_a_markdown_link_is_cited_as_a_whole_and_a_closing_slash_belongs_to_it(known):
    assert cited(known, "[the page](https://b.example/) says") == [
        ("[the page](https://b.example/)", "https://b.example", "")
    ]


def test_without_results_or_addresses_there_is_nothing(known):
    assert Citations().of("https://a.example/x") == []
    assert not Citations()
    assert known
    assert known.of("no address") == []
