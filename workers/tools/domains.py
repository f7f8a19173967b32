"""Domains as filters name them and as results have them, in one form.

In: what a client wrote (`Bücher.de`, `https://www.example.com/path`), or the host of a result. Out:
lower case, internationalised labels as `xn--…`, or nothing where it is no domain. Pure; called by
`workers.tools.web_search`.
"""

import re
import unicodedata
from typing import Any, Final
from urllib.parse import unquote

MAX_CHARS: Final = 253
"""Of a name in the DNS."""

LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
DOTS: Final = re.compile(r"[.\u3002\uff0e\uff61]")
"""All that IDNA takes for a dot."""


def domain_of(host: str) -> str:
    """A host in the form in which hosts are compared; empty where it is none.

    Labels are written as IDNA2008 does and browsers do: `straße` is not `strasse`.
    """
    if len(host) > MAX_CHARS:
        return ""
    labels = [_label(label) for label in DOTS.split(unquote(host).strip().removesuffix("."))]
    name = ".".join(labels)
    return name if all(labels) and len(name) <= MAX_CHARS else ""


def domains_of(value: Any) -> tuple[str, ...]:
    """The domains that a filter names, whatever stands around them; what is none is left out."""
    given = value if isinstance(value, list) else []
    found = [_named(entry) for entry in given if isinstance(entry, str)]
    return tuple(dict.fromkeys(name for name in found if name))


def under(host: str, domain: str) -> bool:
    """Whether a host is a domain or lies in it."""
    return host == domain or host.endswith(f".{domain}")


def _named(entry: str) -> str:
    """Without scheme, user, port, path, wildcard or leading `www.`."""
    _, scheme, rest = entry.strip().partition("://")
    host = re.split(r"[/?#\\]", rest if scheme else entry.strip())[0].rpartition("@")[2]
    host = re.sub(r":[0-9]*$", "", host)
    name = domain_of(host.removeprefix("*."))
    rest = name.removeprefix("www.")
    return rest if "." in rest else name  # `www.de` is not all of `de`


def _label(label: str) -> str:
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", label).lower())
    if not plain.isascii():
        if not all(_is_of_a_word(character) for character in plain):
            return ""
        plain = f"xn--{plain.encode('punycode').decode()}"
    return plain if LABEL.fullmatch(plain) else ""


def _is_of_a_word(character: str) -> bool:
    """Letters, marks, digits and hyphens: what IDNA2008 takes, but for its exceptions."""
    return character == "-" or unicodedata.category(character)[0] in "LMN"
