"""Where a text cites what a web search has found: results in, `url_citation` annotations out.

Called by `translator.round` once a text is whole. A citation is an address of a result as it stands in the text; of a
Markdown link it is the whole link. Indexes count characters, as OpenAI's do.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

BEHIND: Final = r"(?![\w/?#&=%~+-]|\.\w)"
"""What may not follow: there the address would be another, longer one. A closing slash belongs to it."""


class Citations:
    """The results of all searches of one response."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}  # by address
        self._pattern: re.Pattern[str] | None = None  # made anew when results have come

    def __bool__(self) -> bool:
        return bool(self._titles)

    def add(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Remember the results of a search: `url` and `title` each."""
        for one in results:
            url, title = one.get("url"), one.get("title")
            if isinstance(url, str) and url:
                self._titles.setdefault(url, title if isinstance(title, str) else "")
        self._pattern = None

    def of(self, text: str) -> list[dict[str, Any]]:
        """The annotations of a text, in order."""
        if not self._titles or "://" not in text:
            return []
        if self._pattern is None:
            longest_first = sorted(self._titles, key=len, reverse=True)
            urls = "|".join(re.escape(url) for url in longest_first)
            address = rf"(?:{urls})/?{BEHIND}"
            self._pattern = re.compile(
                rf"\[[^\[\]\n]*\]\((?P<link>{address})\)|(?P<bare>{address})"
            )
        return [self._annotation(found) for found in self._pattern.finditer(text)]

    def _annotation(self, found: re.Match[str]) -> dict[str, Any]:
        cited = found["link"] or found["bare"]
        url = cited if cited in self._titles else cited.removesuffix("/")
        return {
            "type": "url_citation",
            "start_index": found.start(),
            "end_index": found.end(),
            "url": url,
            "title": self._titles[url],
        }
