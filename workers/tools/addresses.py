"""Where a tool server may live, and the addresses under which it is really reached.

In: a server's URL, as a client wrote it; the hosts that this installation allows besides (the
setting MCP_ALLOWED_HOSTS). Out: the `Origin` of the URL, and, when a connection is made, the checked
addresses of its host. A name is checked after it was resolved and the connection goes to the checked
address, so that an answer that changes in between changes nothing. Called by `workers.tools.wire`.

Every refusal has the same text: who asks must not learn what stands on our network, nor which names
it knows.
"""

import asyncio
import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from workers.tools.job import Failed

REFUSED_TEXT: Final = (
    "The MCP server cannot be used: its URL must be https and lead to a public host."
)
REFUSED_CODE: Final = 403

MAX_URL_CHARS: Final = 2_048
"""What browsers and proxies take."""

Address = IPv4Address | IPv6Address

AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
"""All that a host may be written with. No user, no percent sign, nothing that two parsers read in two ways."""

NUMBER = re.compile(r"0[xX][0-9A-Fa-f]*|[0-9]+")
"""A last label that makes a host a number to some resolvers: 2130706433, 0177.0.0.1, 0x7f.1."""

NOT_PUBLIC: Final = (
    ip_network("168.63.129.16/32"),  # the metadata and DNS service of one cloud, in public space
    ip_network("2001::/23"),  # Teredo and other tunnels
    ip_network("64:ff9b:1::/48"),
    ip_network("fec0::/10"),
)
NAT64: Final = ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of a server. `trusted`: the installation allows it, wherever it is."""

    scheme: str
    host: str
    port: int
    trusted: bool


class AddressRefused(Failed):
    """No such server is used."""

    def __init__(self) -> None:
        super().__init__(
            REFUSED_TEXT,
            {"type": "http_error", "code": REFUSED_CODE, "message": REFUSED_TEXT},
        )


class AllowedHosts:
    """The entries of MCP_ALLOWED_HOSTS: `host` (any port) or `host:port`, comma separated."""

    def __init__(self, setting: str | None = None) -> None:
        self._entries: set[tuple[str, int | None]] = set()
        for entry in filter(None, (part.strip() for part in (setting or "").split(","))):
            found = AUTHORITY.fullmatch(entry if entry.count(":") < 2 else _bracketed(entry))
            if found is None:
                raise ValueError("an entry is not of the form host or host:port")
            port = found["port"]
            self._entries.add((canonical(found["host"]), int(port) if port else None))

    def __contains__(self, place: tuple[str, int]) -> bool:
        host, port = place
        return (host, port) in self._entries or (host, None) in self._entries


def _bracketed(entry: str) -> str:
    """An IPv6 address may stand without brackets where no port follows it."""
    return entry if entry.startswith("[") else f"[{entry}]"


def canonical(host: str) -> str:
    """One way to write a host: lower case, no brackets, no final dot, addresses as `ipaddress` writes them."""
    host = host.strip("[]").rstrip(".").lower()
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def origin_of(url: str, allowed: AllowedHosts) -> Origin:
    """The origin of a server's URL, if it may be used at all. Raises AddressRefused."""
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or "\\" in url:
        raise AddressRefused
    try:
        parts = urlsplit(url)
    except ValueError:
        raise AddressRefused from None
    found = AUTHORITY.fullmatch(parts.netloc)
    if parts.scheme not in ("http", "https") or found is None or " " in url:
        raise AddressRefused
    host = canonical(found["host"])
    port = int(found["port"]) if found["port"] else (443 if parts.scheme == "https" else 80)
    trusted = (host, port) in allowed
    if not (host and 0 < port < 65536) or (parts.scheme == "http" and not trusted):
        raise AddressRefused
    literal = _literal(host)
    if literal is None and NUMBER.fullmatch(host.rpartition(".")[2]):
        raise AddressRefused
    if literal is not None and not trusted and not is_public(literal):
        raise AddressRefused
    return Origin(parts.scheme, host, port, trusted)


async def addresses_of(origin: Origin) -> list[str]:
    """The addresses to connect to. One that is not public makes the whole host refused. Raises AddressRefused."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            origin.host, origin.port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        raise AddressRefused from None
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    if not addresses:
        raise AddressRefused
    if not origin.trusted and not all(map(_is_public_text, addresses)):
        raise AddressRefused
    return addresses


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, and holds none inside that is not."""
    if isinstance(address, IPv6Address):
        inner = _inside(address)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in net for net in NOT_PUBLIC if net.version == address.version)
    )


def _inside(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for."""
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if int(address) >> 32 == 0 and int(address) > 1:
        return IPv4Address(int(address))  # the old "compatible" form
    return address.ipv4_mapped or address.sixtofour


def _is_public_text(text: str) -> bool:
    address = _literal(text)
    return address is not None and is_public(address)


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
