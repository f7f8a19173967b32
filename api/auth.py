"""Who asks: the tenant that a request belongs to.

In: a request. Out: the tenant's name, or the refusal (401 for a missing or wrong key, 403 where no keys are configured
and the request is not local). Called by every handler under `/v1` before it does anything else.
"""

import hmac
import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from api.tenants import Look
from translator.protocol.errors import AuthenticationError

ANONYMOUS: Final = "anonymous"
"""The one tenant of a gateway without keys. Never empty: an empty owner has passed for everybody elsewhere."""

BEARER: Final = re.compile(r"bearer +(?P<key>[^ ].*)", re.IGNORECASE)

KNOWN_HOSTS: Final = 256
"""Names and addresses whose kind is remembered: reading one costs more than everything else that is asked of a local
request."""

MISSING_KEY: Final = "No API key was given: send it as 'Authorization: Bearer KEY'."
WRONG_KEY: Final = "The API key is not one of this gateway's."
NOT_LOCAL: Final = (
    "Without configured API keys this gateway serves its own machine only, under a local name: "
    "set RESPOOL_API_KEYS or RESPOOL_API_KEYS_FILE."
)


class Auth:
    """Knows the keys."""

    def __init__(self, look: Look, *, allow_anonymous: bool, origins: Collection[str] = ()) -> None:
        """`look` gives the tenants of this moment; without any key, `allow_anonymous` says whether strangers are served.

        Pages of `origins` count as local then: whoever set up the gateway has named them. `*` names none.
        """
        self._look = look
        self._origins = origins
        self._allow_anonymous = allow_anonymous

    def tenant(self, request: HTTPConnection) -> str:
        """The tenant of a request. Raises AuthenticationError."""
        keys = self._look().keys
        if not keys:
            if self._allow_anonymous or is_local(request, self._origins):
                return ANONYMOUS
            raise AuthenticationError(NOT_LOCAL, status=403, code="local_only")
        match = BEARER.fullmatch(request.headers.get("authorization", "").strip())
        if match is None:
            raise AuthenticationError(MISSING_KEY)
        given = match["key"].encode(
            "latin-1"
        )  # the bytes as they came: headers are read as Latin-1
        found: str | None = None
        # Every key is compared, each in constant time: how long it takes tells nothing about any of them.
        for key, tenant in keys:
            if hmac.compare_digest(key, given):
                found = tenant
        if found is None:
            raise AuthenticationError(WRONG_KEY)
        return found


def is_local(request: HTTPConnection, origins: Collection[str] = ()) -> bool:
    """Whether a request comes from this machine and means it.

    The peer's address alone is not enough: a web page in a browser on this machine can make requests too. Its Origin,
    or after DNS rebinding its Host, is not a local name.
    """
    if request.client is None or not is_loopback(request.client.host):
        return False
    if not is_local_name(request.headers.get("host", "localhost")):
        return False
    origin = request.headers.get("origin")
    return origin is None or origin in origins or is_local_name(urlsplit(origin).netloc)


@lru_cache(maxsize=KNOWN_HOSTS)
def is_local_name(netloc: str) -> bool:
    """Whether `host` or `host:port` names this machine: localhost, or a loopback address."""
    try:
        host = urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return False
    return host == "localhost" or host.endswith(".localhost") or is_loopback(host)


@lru_cache(maxsize=KNOWN_HOSTS)
def is_loopback(host: str) -> bool:
    """Whether a text is a loopback address (also IPv4 written inside IPv6)."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
