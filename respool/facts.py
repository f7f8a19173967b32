"""What a store says about itself.

In: connections. Out: `Facts` (of a cluster: of all its primaries), with None wherever the server does
not tell (managed services hide `CONFIG`, fakeredis has neither it nor `INFO`). Used by
`respool.serve` before it starts and by `respool.doctor`.
"""

from dataclasses import dataclass, replace

from streams.client import Connections, Link, bounded
from streams.faults import StoreAway
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
    clustered: bool = False
    """It is a node of a cluster."""
    replica: bool = False
    """It takes no writes."""


async def facts_of(connections: Connections) -> Facts:
    """Ask the server; of several, what is worst of any is said of all."""
    found = [await _facts_of(server) for server in connections.servers()]
    unsafe = [one.policy for one in found if one.policy not in (None, SAFE_POLICY)]
    hidden = any(one.policy is None for one in found)
    return replace(
        found[0],
        policy=unsafe[0] if unsafe else None if hidden else SAFE_POLICY,
        aof=None if any(one.aof is None for one in found) else all(one.aof for one in found),
    )


async def _facts_of(connections: Connections) -> Facts:
    link = connections.link()
    try:
        info = _pairs(await _answer(link, "INFO"))
        if not info:
            return Facts(server="fakeredis" if connections.memory else None)
        valkey = info.get("valkey_version")
        aof = info.get("aof_enabled")
        return Facts(
            server=f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', '?')}",
            policy=info.get("maxmemory_policy") or await _setting(link, "maxmemory-policy"),
            aof=None if aof is None else aof == "1",
            fsync=await _setting(link, "appendfsync"),
            clustered=info.get("cluster_enabled") == "1",
            replica=info.get("role") == "slave",
        )
    finally:
        await link.drop()


async def _answer(link: Link, *command: str) -> object:
    """The raw reply, or None where the server does not know or allow the command."""
    try:
        return await bounded(link.call(*command))
    except StoreAway:
        raise
    except StoreError:
        return None


async def _setting(link: Link, name: str) -> str | None:
    reply = await _answer(link, "CONFIG", "GET", name)
    return reply[1].decode() if isinstance(reply, list) and len(reply) == 2 else None


def _pairs(reply: object) -> dict[str, str]:
    """The `name:value` lines of INFO."""
    lines = reply.decode(errors="replace").splitlines() if isinstance(reply, bytes) else []
    return dict(line.split(":", 1) for line in lines if ":" in line)
