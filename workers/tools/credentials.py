"""What of a request to an MCP server is a credential, and texts without them.

In: the URL and the headers of a server. Out: the texts that must stand in nothing that leaves this process; and,
from what that server said, the same with each of them blanked out. Pure; called by `workers.tools.servers` and
`workers.tools.mcp`.

A value is a credential where its name or its look says so. Everything else is a setting (`X-Toolsets: issues`,
`?mode=object`), a word that results and schemas are full of.

    the header authorization              always; of `Basic`, what is encoded as well
    a header or parameter with a NAMING   its value, unless the name says that it only describes one (`auth-type`)
    every other value, a bare parameter   where it looks like a key
    user:password in the URL              both together, and the password
"""

import base64
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

from translator.protocol.json import dumps

SHORTEST_SECRET: Final = 6
"""Shorter values protect nothing, and blanking them out would spoil every text."""

BLANK: Final = "***"

NAMING: Final = re.compile(
    r"authentication|bearer|cookies|jwt|pass|passphrase|passwd|pat|pwd|secrets|sessid|sessionid|sid|sig"
    r"|.*(?:auth|authorization|cookie|credentials?|key|password|secret|session|signature|token)"
)
"""A word of a name that says what its value is: `X-Api-Key`, `accessToken`, `apikey`. Not `keywords` or `author`."""

DESCRIBING: Final = frozenset(
    {
        *("algorithm", "count", "format", "kind", "limit", "method", "mode", "name", "policy"),
        *(
            "provider",
            "scheme",
            "scope",
            "scopes",
            "timeout",
            "ttl",
            "type",
            "url",
            "uri",
            "version",
        ),
    }
)
"""Last words of a name whose value is not the thing itself: `X-Auth-Type: oauth2`."""

WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""Of a name, whether `with-hyphens` or `inCamelCase`; and of a value."""

KEY_PREFIX: Final = re.compile(
    r"(?:sk|pk|rk|gsk|hf|pat|secret|tvly|gh[oprsu]|github_pat|glpat|xox[abeprs]|lin_api|ntn)[-_][!-~]{8,}"
    r"|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[!-~]*"
)
"""How well-known keys begin."""

SHORTEST_RANDOM: Final = 16
"""A shorter text without a telling name may as well be a version or a place."""

SHORTEST_PIECE: Final = 8
"""Of such a text, what has no sign in it: dates and versions are made of shorter pieces."""

LONGEST_WORD: Final = 24
FEWEST_CHARACTERS: Final = 8
"""Different ones."""

FREE_TEXT: Final = frozenset(
    {"description", "title", "$comment", "markdownDescription", "examples"}
)
"""What a schema says to readers only; all else in it is structure, which a call has to fit."""


def credentials_of(url: str, headers: dict[str, str]) -> list[str]:
    """All that is secret, in every form in which it may come back. Headers have lower-case names.

    Longest first, so that a part of one does not keep the rest from being found.
    """
    given = [*_of_url(url), *(text for item in headers.items() for text in _of_header(*item))]
    found = {form for text in given for form in _forms(text)}
    kept = (text for text in found if len(text) >= SHORTEST_SECRET)
    return sorted(kept, key=lambda text: (-len(text), text))


def blanked(value: Any, secrets: list[str]) -> Any:
    """A JSON value in whose texts no secret stands any more, keys included: for what a tool said."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, BLANK)
        return value
    if isinstance(value, list):
        return [blanked(item, secrets) for item in value]
    if isinstance(value, dict):
        return {blanked(key, secrets): blanked(item, secrets) for key, item in value.items()}
    return value


def blanked_tool(tool: dict[str, Any], secrets: list[str]) -> dict[str, Any] | None:
    """A listed tool with its free texts blanked and all else as it is; None where a secret is in the rest.

    Its name and schema have to reach the server as they came, so nothing in them can be replaced. A
    secret that is a mere word (a password `issues`) tells nobody anything there.
    """
    shown: dict[str, Any] = _without_in_free_text(tool, secrets)
    telling = [secret for secret in secrets if not _is_word(secret)]
    if any(secret in text for text in _texts_in(shown) for secret in telling):
        return None
    return shown


def looks_like_key(text: str) -> bool:
    """Whether no person would have chosen this text as a setting."""
    if KEY_PREFIX.fullmatch(text):
        return True
    if len(text) < SHORTEST_RANDOM or not text.isascii() or re.search(r"[\s,;]", text):
        return False
    return len(set(text)) >= FEWEST_CHARACTERS and any(map(_is_odd, re.split(r"[\W_]+", text)))


def _is_odd(piece: str) -> bool:
    """Whether letters and digits change too often for words and numbers."""
    if len(piece) < SHORTEST_PIECE or piece.isdigit():
        return False
    if len(piece) >= LONGEST_WORD:
        return True
    return len(piece) < (3 if piece.isalpha() else 5) * len(WORDS.findall(piece))


def _is_word(text: str) -> bool:
    return len(text) < SHORTEST_RANDOM and re.fullmatch(r"[A-Z]?[a-z]+|[A-Z]+", text) is not None


def _names_one(name: str) -> bool:
    """Whether a header or parameter of this name holds a credential."""
    words = [word.lower() for word in WORDS.findall(name)]
    if not words or words[-1] in DESCRIBING:
        return False
    return any(NAMING.fullmatch(word) for word in words)


def _of_header(name: str, value: str) -> Iterator[str]:
    if name == "cookie":
        for cookie in value.split(";"):
            known, _, content = cookie.strip().partition("=")
            if _names_one(known) or looks_like_key(content):
                yield content
    scheme, _, token = value.partition(" ")
    named = _names_one(name)
    if named or looks_like_key(token.strip() or value):
        yield value
        yield token.strip()
    if named and scheme.lower() == "basic":
        yield from _of_user(_decoded(token))


def _of_url(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    yield from _of_user(parts.netloc.rpartition("@")[0])
    for part in re.split("[&;]", parts.query):
        name, _, value = part.partition("=")
        if not value.strip("="):  # the padding of base64
            if looks_like_key(unquote(part)):
                yield part
        elif _names_one(unquote_plus(name)) or looks_like_key(unquote_plus(value)):
            yield value


def _of_user(text: str) -> Iterator[str]:
    yield text
    yield text.partition(":")[2]


def _decoded(token: str) -> str:
    try:
        return base64.b64decode(token.strip(), validate=True).decode()
    except ValueError:
        return ""


def _forms(text: str) -> Iterator[str]:
    """A text as it was sent, as a server reads it, and as it writes that in a URL or in JSON."""
    for plain in {text.strip(), unquote(text).strip(), unquote_plus(text).strip()}:
        yield plain
        yield quote(plain, safe="")
        yield quote_plus(plain)
        yield dumps(plain).decode()[1:-1]


def _without_in_free_text(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, list):
        return [_without_in_free_text(item, secrets) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: blanked(item, secrets)
        if key in FREE_TEXT and not isinstance(item, dict)
        else _without_in_free_text(item, secrets)
        for key, item in value.items()
    }


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts_in(item)
