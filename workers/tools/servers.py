"""The MCP servers of one response, with their secrets: what `create` was given as `secrets`.

In: the bytes behind `ns:{rid}:sec`, JSON `{"servers": [{"url", "authorization", "headers"}, …]}` in the
order of the request's MCP tools. Out: a `Server` each: where it is, and the headers that go with
every request to it. Nothing else of the client's travels there. Called by `workers.tools.mcp`.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Final

from translator.protocol.json import dumps, loads
from translator.protocol.tools import HEADER_NAME, HEADER_VALUE
from workers.tools.credentials import credentials_of
from workers.tools.job import Failed

OURS: Final = frozenset(
    {
        *("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("proxy-authenticate", "proxy-authorization", "expect"),
        *("content-length", "content-type", "content-encoding", "accept", "accept-encoding"),
        *("mcp-session-id", "mcp-protocol-version", "last-event-id"),
    }
)
"""Headers that belong to the connection or to the protocol; a client's are left out."""

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]* \S")
"""An authorization that names its scheme is sent as it is; a bare token is a bearer's."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server. `secrets` are the texts that must stand in nothing that leaves this process; nor do these."""

    url: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    secrets: list[str] = field(repr=False)

    @property
    def identity(self) -> str:
        """The same for the same server and credentials; tells neither."""
        return hashlib.sha256(dumps([self.url, sorted(self.headers.items())])).hexdigest()


def server_of(secrets: bytes, index: int | None) -> Server:
    """The server that a job names. Raises Failed."""
    try:
        spec = loads(secrets)["servers"][index]
        return _server(spec)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Failed.http(502, "The MCP server of this call is not known any more.") from None


def _server(spec: dict[str, Any]) -> Server:
    url = str(spec["url"])
    headers: dict[str, str] = {}
    for name, value in (spec.get("headers") or {}).items():
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise Failed.http(400, "A header for the MCP server is not valid.")
        if name.lower() not in OURS:
            headers[name.lower()] = value
    if token := spec.get("authorization"):
        if not HEADER_VALUE.fullmatch(token):
            raise Failed.http(400, "The authorization for the MCP server is not valid.")
        headers["authorization"] = token if SCHEME.match(token) else f"Bearer {token}"
    return Server(url, headers, credentials_of(url, headers))
