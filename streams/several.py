"""URLs that name several servers: sentinels, or the seeds of a cluster.

In: `redis+sentinel://[user:password@]host[:port][,host…]/service[/db][?options]` or
`redis+cluster://[user:password@]host[:port][,host…][?options]`, with `rediss+` for TLS. Out: a `Several`, its options
as redis-py's connections take them. Called by `streams.client`; `respool.store_url` has checked what a user wrote.
"""

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from translator.protocol.errors import StoreError

SENTINEL_OPTIONS: Final = "sentinel_"
"""Options that begin so are meant for the sentinels, not for the server that they name."""


@dataclass(frozen=True, slots=True)
class Several:
    """What such a URL says. `repr` holds no secret."""

    places: list[tuple[str, int]]
    path: list[str]
    tls: bool
    options: dict[str, Any] = field(repr=False)
    """`username`, `password`, `client_name`, `ssl_…`: for each connection to a server."""
    watchers: dict[str, Any] = field(repr=False)
    """The same for each connection to a sentinel."""


def several(url: str, default_port: int) -> Several:
    """Read such a URL; a place without a port listens on `default_port`."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    places = [host.partition(":") for host in hosts.split(",")]
    said = {"username": unquote(user), "password": unquote(password)} | dict(parse_qsl(parts.query))
    tls = {name: _value(value) for name, value in said.items() if name.startswith("ssl_")}
    own = {name: said[name] for name in ("username", "password", "client_name") if said.get(name)}
    asked = {
        name.removeprefix(SENTINEL_OPTIONS): value
        for name, value in said.items()
        if name.startswith(SENTINEL_OPTIONS)
    }
    encrypted = parts.scheme.startswith("rediss")
    if tls and not encrypted:
        raise StoreError("options of TLS need a URL that begins with rediss")
    plain_watchers = asked.pop("ssl", "true") == "false"
    return Several(
        places=[(host, int(port or default_port)) for host, _, port in places],
        path=[part for part in parts.path.split("/") if part],
        tls=encrypted,
        options=own | tls,
        watchers=asked if plain_watchers or not encrypted else asked | tls | {"ssl": True},
    )


def _value(text: str) -> str | bool:
    return {"true": True, "false": False}.get(text.lower(), text)
