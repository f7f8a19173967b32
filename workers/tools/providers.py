"""Who searches the web: SearXNG, Brave or Tavily, behind one small interface.

In: a `Query` (text, filters, place, how many). Out: `Hit`s. A provider builds one HTTP request and
reads one JSON answer; `workers.tools.web_search` sends it. Nothing here knows a key but the request
that carries it.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

MAX_SITES: Final = 20
"""Domains that a query to an engine can name; the others are filtered out of what comes back."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for. Domains as `workers.tools.domains` writes them; `country` is two letters of the client's."""

    text: str
    count: int
    allowed: tuple[str, ...] | None = None
    """None: all are. Nobody is asked where none is."""
    blocked: tuple[str, ...] = ()
    country: str = ""
    region: str = ""
    city: str = ""
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One result."""

    title: str
    url: str
    text: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """One HTTP request."""

    method: str
    url: str
    params: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    json: dict[str, Any] | None = None


class Provider(Protocol):
    """One way to search."""

    def ask(self, query: Query) -> Ask:
        """The request."""

    def read(self, answer: Any) -> list[Hit]:
        """The results; raises LookupError, TypeError or AttributeError where the answer is none of its own."""


class SearXNG:
    """A metasearch engine that somebody runs; it knows no place, and domains only as words of the query."""

    def __init__(self, url: str, key: str = "") -> None:
        self._url = url
        self._key = key

    def ask(self, query: Query) -> Ask:
        params = {"q": with_sites(query), "format": "json"}
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        return Ask("GET", f"{self._url}/search", params, headers)

    def read(self, answer: Any) -> list[Hit]:
        return [
            Hit(_text(r, "title"), r["url"], _text(r, "content"), _text(r, "publishedDate"))
            for r in _rows(answer["results"])
        ]


class Brave:
    """The Brave Search API."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key

    def ask(self, query: Query) -> Ask:
        params = {
            "q": with_sites(query),
            "count": str(min(20, query.count)),
            "text_decorations": "0",
        }
        if query.country:
            params["country"] = query.country
        headers = {"accept": "application/json", "x-subscription-token": self._key}
        place = {
            "x-loc-country": query.country,
            "x-loc-state-name": query.region,
            "x-loc-city": query.city,
            "x-loc-timezone": query.timezone,
        }
        headers |= {name: value for name, value in place.items() if value}
        return Ask("GET", f"{self._url}/res/v1/web/search", params, headers)

    def read(self, answer: Any) -> list[Hit]:
        return [
            Hit(
                _text(r, "title"),
                r["url"],
                "\n".join([_text(r, "description"), *_snippets(r)]),
                _text(r, "page_age"),
            )
            for r in _rows((answer.get("web") or {}).get("results") or [])
        ]


class Tavily:
    """The Tavily search API; it takes a country by its English name."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key

    def ask(self, query: Query) -> Ask:
        body: dict[str, Any] = {"query": query.text, "max_results": min(20, query.count)}
        if query.allowed:
            body["include_domains"] = list(query.allowed)
        if query.blocked:
            body["exclude_domains"] = list(query.blocked)
        if country := COUNTRIES.get(query.country):
            body["country"] = country
        return Ask(
            "POST",
            f"{self._url}/search",
            headers={"authorization": f"Bearer {self._key}"},
            json=body,
        )

    def read(self, answer: Any) -> list[Hit]:
        return [
            Hit(_text(r, "title"), r["url"], _text(r, "content"), _text(r, "published_date"))
            for r in _rows(answer["results"])
        ]


def with_sites(query: Query) -> str:
    """The query's text with its domains as the operators that engines know."""
    words = [query.text]
    if query.allowed:
        words.append(" OR ".join(f"site:{domain}" for domain in query.allowed[:MAX_SITES]))
    words += [f"-site:{domain}" for domain in query.blocked[:MAX_SITES]]
    return " ".join(words)


def _rows(results: Any) -> list[dict[str, Any]]:
    """The results that are some: objects with an address. One that is none says nothing of the others."""
    if not isinstance(results, list):
        raise TypeError("no list")
    return [row for row in results if isinstance(row, dict) and isinstance(row.get("url"), str)]


def _snippets(result: dict[str, Any]) -> list[str]:
    given = result.get("extra_snippets")
    return [text for text in given if isinstance(text, str)] if isinstance(given, list) else []


def _text(result: dict[str, Any], name: str) -> str:
    value = result.get(name)
    return value if isinstance(value, str) else ""


COUNTRIES: Final = {
    "AR": "argentina",
    "AT": "austria",
    "AU": "australia",
    "BE": "belgium",
    "BR": "brazil",
    "CA": "canada",
    "CH": "switzerland",
    "CL": "chile",
    "CN": "china",
    "CZ": "czech republic",
    "DE": "germany",
    "DK": "denmark",
    "ES": "spain",
    "FI": "finland",
    "FR": "france",
    "GB": "united kingdom",
    "GR": "greece",
    "IE": "ireland",
    "IL": "israel",
    "IN": "india",
    "IT": "italy",
    "JP": "japan",
    "KR": "south korea",
    "MX": "mexico",
    "NL": "netherlands",
    "NO": "norway",
    "NZ": "new zealand",
    "PL": "poland",
    "PT": "portugal",
    "SE": "sweden",
    "SG": "singapore",
    "TR": "turkey",
    "UA": "ukraine",
    "US": "united states",
    "ZA": "south africa",
}
"""Those that are asked for; without its country a search is only less local."""

PROVIDERS: Final[dict[str, type[SearXNG] | type[Brave] | type[Tavily]]] = {
    "searxng": SearXNG,
    "brave": Brave,
    "tavily": Tavily,
}
BASES: Final = {
    "brave": "https://api.search.brave.com",
    "tavily": "https://api.tavily.com",
}
"""Where the services are; WEB_SEARCH_URL comes before. SearXNG has no place of its own, and needs no key."""
