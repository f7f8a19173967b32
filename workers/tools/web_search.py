"""The web search: what the model asks, sent to the provider, cut to size for the model.

In: the arguments of a call and the tool's options (`search_context_size`, `filters`,
`user_location`). Out: an `Outcome`: the results as compact JSON for the model, their URLs as
sources. Raises `Failed` with texts that name neither the provider's host nor its key. Called by
`workers.tools.registry`.
"""

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from translator.gateway_items import queries_in
from translator.protocol.json import dumps, loads
from workers.tools.domains import domain_of, domains_of, under
from workers.tools.job import Failed, Outcome
from workers.tools.providers import Ask, Hit, Provider, Query

SIZES: Final = {"low": (3, 400), "medium": (6, 1_000), "high": (10, 2_500)}
"""Results and characters of each, by search_context_size: about 400, 2,000 and 8,000 tokens at most."""

MAX_QUERIES: Final = 8
"""Queries of one call that are run, at once; each is a request to the provider. Models ask for two to four."""

MAX_QUERY_CHARS: Final = 400
"""What the providers take."""

MAX_ANSWER_BYTES: Final = 2 * 2**20
"""A provider's answer: many times what ten results need."""

CONNECT_S: Final = 10.0

UNREADABLE_TEXT: Final = "The search provider's answer could not be read."


class WebSearch:
    """Searches with one provider; sends through a session that its owner closes."""

    def __init__(self, provider: Provider, session: aiohttp.ClientSession) -> None:
        self._provider = provider
        self._session = session

    async def search(self, arguments: dict[str, Any], options: dict[str, Any]) -> Outcome:
        """Run one call."""
        asked = queries_of(arguments)
        texts, left_out = asked[:MAX_QUERIES], asked[MAX_QUERIES:]
        size = options.get("search_context_size")
        count, chars = SIZES.get(size if isinstance(size, str) else "", SIZES["medium"])
        queries = [query_of(text, count, options) for text in texts]
        found = await self._found(queries)
        batches = [hits for hits in found if not isinstance(hits, BaseException)]
        if not batches:
            raise next(error for error in found if isinstance(error, BaseException))
        hits = chosen(batches, queries[0])[:count]
        results = [_shown(hit, chars) for hit in hits]
        told: dict[str, Any] = {"query": texts[0]} if len(asked) == 1 else {"queries": texts}
        failed = [
            text for text, hits in zip(texts, found, strict=True) if not isinstance(hits, list)
        ]
        unanswered = {"failed_queries": failed, "queries_not_run": left_out}
        told |= {name: texts for name, texts in unanswered.items() if texts}
        return Outcome(
            True,
            dumps({**told, "results": results}).decode(),
            sources=[hit.url for hit in hits],
            results=[{"title": hit.title, "url": hit.url} for hit in hits],
        )

    async def _found(self, queries: list[Query]) -> list[list[Hit] | BaseException]:
        """What each query finds, or why it does not. Where nothing may be found, nobody is asked."""
        if queries[0].allowed == ():
            return [[] for _ in queries]
        return await asyncio.gather(*map(self._hits, queries), return_exceptions=True)

    async def _hits(self, query: Query) -> list[Hit]:
        answer = await self._answer(self._provider.ask(query))
        try:
            return self._provider.read(answer)
        except (LookupError, TypeError, AttributeError):
            raise Failed(UNREADABLE_TEXT) from None

    async def _answer(self, ask: Ask) -> Any:
        try:
            async with self._session.request(
                ask.method,
                ask.url,
                params=ask.params,
                headers=ask.headers,
                json=ask.json,
                # A redirect could carry the key to somebody else.
                allow_redirects=False,
            ) as response:
                status = response.status
                body = await _body(response)
        except TimeoutError:
            raise Failed("The search provider did not answer in time.") from None
        except (aiohttp.ClientError, OSError, ValueError):
            raise Failed("The search provider could not be reached.") from None
        if status != 200:
            raise Failed(f"The search provider answered with status {status}.")
        try:
            return loads(body)
        except ValueError:
            raise Failed(UNREADABLE_TEXT) from None


def session() -> aiohttp.ClientSession:
    """A session fit for `WebSearch`; its time-out is the call's."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"user-agent": "respool"},
    )


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The answer, up to its bound (counted after decompression)."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise Failed("The search provider's answer is too large.")
    return b"".join(parts)


def queries_of(arguments: dict[str, Any]) -> list[str]:
    """What the model looks for, each once."""
    texts = [text.strip() for text in queries_in(arguments) if text.strip()]
    if not texts:
        raise Failed("The search needs a query.")
    return list(dict.fromkeys(text[:MAX_QUERY_CHARS] for text in texts))


def query_of(text: str, count: int, options: dict[str, Any]) -> Query:
    """A query with the tool's options.

    What has the wrong type is as if it were not there. Not so `allowed_domains`: a list that names
    no domain that can be read allows none, rather than all.
    """
    filters, place = _table(options.get("filters")), _table(options.get("user_location"))
    return Query(
        text,
        count,
        allowed=domains_of(filters["allowed_domains"]) if filters.get("allowed_domains") else None,
        blocked=domains_of(filters.get("blocked_domains")),
        country=_word(place.get("country"), 2).upper(),
        region=_word(place.get("region")),
        city=_word(place.get("city")),
        timezone=_word(place.get("timezone")),
    )


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: Any, most: int = 100) -> str:
    """Text of a client that goes into a header or parameter: one line of ASCII."""
    if not isinstance(value, str) or len(value) > most or not value.isascii():
        return ""
    return value.strip() if value.isprintable() else ""


def chosen(batches: list[list[Hit]], query: Query) -> list[Hit]:
    """Hits of all queries in turn, best first; once each; only of domains that the filters let through."""
    kept: dict[str, Hit] = {}
    for rank in range(max(map(len, batches))):
        for hits in batches:
            if rank < len(hits) and _passes(hits[rank], query):
                kept.setdefault(hits[rank].url, hits[rank])
    return list(kept.values())


def _passes(hit: Hit, query: Query) -> bool:
    """Whether a result may be shown: a web address, of a domain that the filters let through."""
    if not isinstance(hit.url, str):
        return False
    try:
        parts = urlsplit(hit.url)
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return False
    host = domain_of(parts.hostname)
    if not host:  # an IPv6 address, or nothing that a filter could name
        return query.allowed is None and not query.blocked
    if query.allowed is not None and not any(under(host, domain) for domain in query.allowed):
        return False
    return not any(under(host, domain) for domain in query.blocked)


def _shown(hit: Hit, chars: int) -> dict[str, str]:
    shown = {"title": hit.title[:300], "url": hit.url, "content": hit.text.strip()[:chars]}
    return {**shown, "date": hit.date} if hit.date else shown
