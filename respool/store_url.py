"""The store's URL: whether it can be one, and what of it may be printed.

In: what RESPOOL_REDIS_URL says. Out: nothing, or a ValueError whose text holds nothing of it; and a
form for logs, made of the scheme, hosts and ports alone. Used by `respool.settings`.

A URL that is not understood to its end is refused here: redis-py ignores half of such faults, and
tells the rest in a traceback with the password in it.
"""

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

SCHEMES: Final = (
    *("redis", "rediss", "unix", "memory"),
    *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
)
ESCAPES: Final = "in a password, write / as %2F, # as %23, ? as %3F, @ as %40"

_TEXT: Final = re.compile(r".+", re.DOTALL)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_OWN: Final = {"username": _TEXT, "password": _TEXT, "client_name": re.compile(r"[!-~]+")}
_COMMON: Final = {"db": _NUMBER, **_OWN}
_TLS: Final = {
    "ssl_cert_reqs": re.compile(r"none|optional|required"),
    "ssl_check_hostname": re.compile(r"true|false", re.IGNORECASE),
    "ssl_ca_certs": _TEXT,
    "ssl_ca_path": _TEXT,
    "ssl_certfile": _TEXT,
    "ssl_keyfile": _TEXT,
}
"""What redis-py reads from a query and does not contradict how we use its connections."""
_SENTINELS: Final = {"sentinel_username": _TEXT, "sentinel_password": _TEXT}
_SENTINELS_TLS: Final = {"sentinel_ssl": re.compile(r"true|false")}
_QUERIES: Final = {
    "redis": _COMMON,
    "unix": _COMMON,
    "rediss": _COMMON | _TLS,
    "redis+sentinel": _OWN | _SENTINELS,
    "rediss+sentinel": _OWN | _SENTINELS | _TLS | _SENTINELS_TLS,
    "redis+cluster": _OWN,
    "rediss+cluster": _OWN | _TLS,
}
_PASSWORDS: Final = ("password", "sentinel_password")

_PLACE: Final = re.compile(r"([A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")


def split(url: str) -> SplitResult:
    """Like `urlsplit`, whose own errors show what they are about."""
    if not url.isprintable() or " " in url:
        raise ValueError("holds a blank, a line end or another character that no URL has")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("cannot be read as a URL") from None
    try:
        _ = parts.port
    except ValueError:
        # Its own text shows what stands there, which may be half a password.
        if "+" not in parts.scheme:  # there the places are looked at one by one
            raise ValueError(f"has a port that is none ({ESCAPES})") from None
    return parts


def check(url: str) -> None:
    """Raise ValueError unless a store can be connected by it."""
    scheme = url.partition("://")[0]
    if scheme not in SCHEMES or "://" not in url:
        raise ValueError(f"must begin with {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
    parts = split(url)
    if parts.fragment or url.endswith("#"):
        raise ValueError(f"has a # ({ESCAPES})")
    if scheme == "memory":
        return
    if "+" in scheme:
        _check_several(parts)
    elif scheme == "unix":
        if not parts.path.strip("/"):
            raise ValueError("must name a socket: unix:///path/to/socket")
    else:
        if "@" in parts.path or (parts.netloc and not parts.hostname):
            raise ValueError(f"must name a host: redis://host:6379/0 ({ESCAPES})")
        _check_database(parts.path.strip("/"))
    _check_query(parts, _QUERIES[scheme])


def shown(url: str) -> str:
    """What may be printed: the scheme, hosts and ports, and nothing else of it."""
    scheme = url.partition("://")[0]
    if scheme not in SCHEMES:
        return "a store"
    try:
        check(url)
        places = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return f"{scheme}://..."
    return f"{scheme}://{places}" if scheme not in ("unix", "memory") else f"{scheme}://"


def secrets(url: str) -> list[str]:
    """The passwords in it, as written and as meant."""
    try:
        parts = urlsplit(url)
        password = parts.netloc.rpartition("@")[0].partition(":")[2]
        asked = [pair.partition("=") for pair in parts.query.split("&")]
    except ValueError:
        return []
    found = [password, *(value for name, _, value in asked if name in _PASSWORDS)]
    said = dict(parse_qsl(parts.query))
    meant = [said.get(name, "") for name in _PASSWORDS]
    return list(dict.fromkeys(filter(None, [*found, *map(unquote, found), *meant])))


def _check_several(parts: SplitResult) -> None:
    """Sentinels or the nodes of a cluster."""
    for place in parts.netloc.rpartition("@")[2].split(","):
        found = _PLACE.fullmatch(place)
        if found is None or int(found[2] or 0) > 65535:
            raise ValueError("must name its hosts as host or host:port, with commas between")
    if parts.scheme.endswith("cluster"):
        if parts.path.strip("/"):
            raise ValueError("must end with its hosts: a cluster has one database")
        return
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("must name the sentinels' service: redis+sentinel://host:26379/service")
    _check_database(database)


def _check_database(text: str) -> None:
    if text and not _NUMBER.fullmatch(text):
        raise ValueError(f"must end in the number of a database, such as /0, or not ({ESCAPES})")


def _check_query(parts: SplitResult, known: dict[str, re.Pattern[str]]) -> None:
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            allowed = f"may hold {', '.join(known)}"
            raise ValueError(f"has a query that is not understood; it {allowed} ({ESCAPES})")
        if not known[name].fullmatch(value):
            raise ValueError(f"has a query with a wrong value of {name}")
