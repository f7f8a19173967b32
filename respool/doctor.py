"""`respool doctor`: is everything that `respool serve` needs there, and as it must be?

In: the settings. Out: one line for each thing looked at on standard output (`ok`, `warn` or
`FAIL`), and exit status 1 if anything fails. Called by `respool.cli`.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from importlib.metadata import version

import aiohttp
import orjson

from ingest.upstream import PATHS
from respool.backing import CLUSTERED, MEMORY, REPLICA, address_of
from respool.facts import SAFE_POLICY, Facts, facts_of
from respool.keyring import tenants_of
from respool.settings import Settings, SettingsError, unknown_variables
from respool.unusable import Unusable
from respool.upstreams import upstreams_of
from streams.client import ANSWER_TIMEOUT_S, Connections, connect
from streams.cluster import Cluster
from streams.scripts import hints, outputs, responses, rounds  # noqa: F401 - each fills SCRIPTS
from streams.scripts.call import SCRIPTS
from translator.protocol.errors import StoreError
from translator.protocol.upstream import Upstream

OK, WARN, FAIL = "ok", "warn", "FAIL"
UPSTREAM_S = 5.0
"""For its list of models; one that is slower will be slow for users too."""
MAX_LIST_BYTES = 16 << 20

Line = tuple[str, str, str]
"""How it is, what was looked at, what was found."""


def run(settings: Settings) -> int:
    """Print every line; 1 if something is wrong."""
    return asyncio.run(_run(settings))


async def _run(settings: Settings) -> int:
    worst = 0
    async for mark, subject, found in examine(settings):
        sys.stdout.write(f"{mark:<5} {subject:<10} {found}\n")
        sys.stdout.flush()
        worst |= mark == FAIL
    return int(worst)


async def examine(settings: Settings) -> AsyncIterator[Line]:
    """Look at one thing after the other."""
    for name in unknown_variables():
        yield WARN, "settings", f"{name} is no setting"
    yield _door(settings)
    for line in await _store(settings):
        yield line
    try:
        upstreams = upstreams_of(settings)
    except SettingsError as error:
        yield FAIL, "upstream", str(error)
        return
    if not upstreams:
        yield FAIL, "upstream", "none: set RESPOOL_UPSTREAM_URL, or [[upstreams]] in respool.toml"
    for upstream in upstreams:
        mark, found = await _upstream(upstream)
        yield mark, "upstream", f"{upstream.id} ({upstream.api}, {upstream.base_url}): {found}"


def _door(settings: Settings) -> Line:
    where = f"{settings.host}, port {settings.port}"
    try:
        keys = tenants_of(settings, settings.api_keys_file).keys
    except SettingsError as error:
        return FAIL, "door", str(error)
    if keys:
        tenants = {tenant for _, tenant in keys}
        return OK, "door", f"{where}: {len(keys)} keys of {len(tenants)} tenants"
    if settings.allow_anonymous:
        mark = OK if settings.loopback else WARN
        return mark, "door", f"{where}: no keys, everybody is served"
    mark = OK if settings.loopback else WARN
    return mark, "door", f"{where}: no keys, only this machine is served"


async def _store(settings: Settings) -> list[Line]:
    """Everything about the store; it is opened only for this."""
    lines: list[Line] = []
    try:
        async with address_of(settings) as url:
            connections = await connect(url)
            try:
                lines += await _server(settings, connections, url)
            finally:
                await connections.close()
    except (StoreError, Unusable) as error:
        lines.append((FAIL, "store", f"{settings.store_shown}: {error}"))
    return lines


async def _server(settings: Settings, connections: Connections, url: str) -> list[Line]:
    began = time.perf_counter()
    await connections.command("PING")
    took = (time.perf_counter() - began) * 1000
    facts = await facts_of(connections)
    name = facts.server or "a server that does not say what it is"
    shown = MEMORY if url.startswith(MEMORY) else settings.store_shown
    return [
        (OK, "store", f"{name}, {shown}, namespace {settings.namespace}, {took:.1f} ms"),
        *([(FAIL, "replica", REPLICA)] if facts.replica else []),
        *_cluster(connections, facts),
        _policy(settings, facts),
        _aof(facts),
        await _scripts(connections),
        _client(connections),
    ]


def _cluster(connections: Connections, facts: Facts) -> list[Line]:
    """How the parts of a cluster are, where it is one."""
    if isinstance(connections, Cluster):
        count, uncovered = len(connections.primaries), connections.uncovered
        if uncovered:
            return [(FAIL, "cluster", f"{count} primaries, {uncovered} slots that nobody serves")]
        return [(OK, "cluster", f"{count} primaries, every slot is served")]
    return [(FAIL, "cluster", CLUSTERED)] if facts.clustered else []


def _policy(settings: Settings, facts: Facts) -> Line:
    if facts.policy is None:
        return WARN, "eviction", f"the server does not say; it must be {SAFE_POLICY}"
    if facts.policy == SAFE_POLICY:
        return OK, "eviction", SAFE_POLICY
    mark = WARN if settings.allow_eviction else FAIL
    return mark, "eviction", f"{facts.policy}: streams may lose their middle; set {SAFE_POLICY}"


def _aof(facts: Facts) -> Line:
    if facts.aof is None:
        return WARN, "aof", "the server does not say"
    if not facts.aof:
        return WARN, "aof", "off: a restart of the store forgets every response"
    return OK, "aof", f"on, fsync {facts.fsync or 'not told'}"


async def _scripts(connections: Connections) -> Line:
    wrong: list[str] = []
    for script in SCRIPTS:
        try:
            sha = await connections.command("SCRIPT", "LOAD", script.source)
        except StoreError:
            sha = b""
        if sha.decode() != script.sha:
            wrong.append(script.name)
    if wrong:
        return FAIL, "scripts", f"do not load: {', '.join(wrong)}"
    return OK, "scripts", f"{len(SCRIPTS)} load"


def _client(connections: Connections) -> Line:
    pool = connections.client.connection_pool
    given = pool.connection_kwargs
    return (
        OK,
        "client",
        f"redis-py {version('redis')}, hiredis {version('hiredis')};"
        f" socket time-out {given.get('socket_timeout') or 'none'},"
        f" connect {given.get('socket_connect_timeout') or 'none'} s,"
        f" answer {ANSWER_TIMEOUT_S:g} s; pool of {pool.max_connections}",
    )


async def _upstream(upstream: Upstream) -> tuple[str, str]:
    headers = {"authorization": f"Bearer {upstream.api_key}"} if upstream.api_key else {}
    timeout = aiohttp.ClientTimeout(total=UPSTREAM_S)
    began = time.perf_counter()
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(
                f"{upstream.base_url}/models", headers=headers, allow_redirects=False
            ) as answer,
        ):
            status = answer.status
            body = await _read(answer) if status == 200 else b""
            lacks = await _lacks(session, upstream, headers) if status == 200 else None
    except TimeoutError:
        return FAIL, f"no answer within {UPSTREAM_S:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:  # the last: no usable host
        return FAIL, f"cannot be reached ({type(error).__name__})"
    took = f"{(time.perf_counter() - began) * 1000:.0f} ms"
    if status in (401, 403):
        return FAIL, f"refuses our key ({status})"
    if status != 200:
        return WARN, f"reachable, but answers {status} to its list of models"
    mark, models = _models(body)
    if mark == OK and lacks:
        mark, models = WARN, f"{models}, but {lacks}; does it speak {upstream.api}?"
    return mark, f"reachable in {took}, {models}"


async def _lacks(
    session: aiohttp.ClientSession, upstream: Upstream, headers: dict[str, str]
) -> str | None:
    """That it does not know the path of its dialect. A request without a model costs it nothing."""
    path = PATHS[upstream.api]
    try:
        async with session.post(
            f"{upstream.base_url}/{path}", json={}, headers=headers, allow_redirects=False
        ) as answer:
            return f"answers {answer.status} to /{path}" if answer.status in (404, 405) else None
    except (TimeoutError, aiohttp.ClientError, OSError):
        return None  # whatever it is, it is no word about the path


async def _read(answer: aiohttp.ClientResponse) -> bytes | None:
    """The whole body, however many pieces it comes in; None if it is too large."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > MAX_LIST_BYTES:
            return None
    return bytes(body)


def _models(body: bytes | None) -> tuple[str, str]:
    """How the list is, and how many models stand in it."""
    if body is None:
        return WARN, f"but its list of models is larger than {MAX_LIST_BYTES >> 20} MiB"
    try:
        found = orjson.loads(body)["data"]
    except (ValueError, TypeError, KeyError):
        found = None
    if not isinstance(found, list):
        return WARN, "but its list of models is none"
    return OK, f"{len(found)} models"
