"""What a store says about itself.

In: connections. Out: `Facts`, with None wherever the server does not tell (managed services hide
`CONFIG`, fakeredis has neither it nor `INFO`). Used by `respool.serve` before it starts and by
`respool.doctor`.
"""

from dataclasses import dataclass

from streams.client import Connections
from translator.protocol.errors import StoreError

SAFE_POLICY = "noeviction"


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one server."""

    server: str | None = None
    """`Valkey 9.1.2`, `Redis 7.0.15`."""
    policy: str | None = None
    """`maxmemory-policy`; all but `noeviction` may throw away the middle of a stream."""
    aof: bool | None = None
    fsync: str | None = None


async def facts_of(connections: Connections) -> Facts:
    """Ask the server."""
    info = await _info(connections)
    if not info:
        return Facts(server="fakeredis" if connections.memory else None)
    valkey = info.get("valkey_version")
    server = f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', '?')}"
    policy = info.get("maxmemory_policy") or await _setting(connections, "maxmemory-policy")
    aof = info.get("aof_enabled")
    return Facts(
        server=server,
        policy=policy,
        aof=None if aof is None else aof == "1",
        fsync=await _setting(connections, "appendfsync"),
    )


async def _info(connections: Connections) -> dict[str, str]:
    try:
        reply = await connections.command("INFO")
    except StoreError:
        return {}
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


async def _setting(connections: Connections, name: str) -> str | None:
    try:
        reply = await connections.command("CONFIG", "GET", name)
    except StoreError:
        return None
    return reply[1].decode() if isinstance(reply, list) and len(reply) == 2 else None
