"""A planned failover behind one name: the old primary lives on as a replica, and the name leads to the new one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from streams.client import Link
from streams.store import Store
from tests.servers import QUIET, START_S, Served, serving
from tests.streams.proxy import Proxy, proxied
from tests.streams.rig import Rig
from tests.wait import wait_for, wait_until

NS = "demotion"
NOBODY = 1
"""A port where no primary is: a replica of it stays as it was."""
SOON_S = 2.0
"""A look, a connection, and an answer."""


@dataclass
class Pair:
    """Two servers, and the name that leads to one of them."""

    one: Served
    two: Served
    name: Proxy
    url: str

    def fail_over(self) -> None:
        """The second is the primary; the first keeps its connections and hears nothing more."""
        self.one.followed_by(self.two)
        self.two.ask("REPLICAOF", "NO", "ONE")
        self.name.target = ("127.0.0.1", self.two.port)
        self.one.ask("REPLICAOF", "127.0.0.1", NOBODY)


@asynccontextmanager
async def pair(folder: Path) -> AsyncIterator[Pair]:
    prompt = (*QUIET, "--repl-diskless-sync-delay", "0")
    with (
        serving(folder / "one", *prompt) as one,
        serving(folder / "two", *prompt, "--replicaof", "127.0.0.1", str(one.port)) as two,
    ):
        wait_for(lambda: two.info("replication")["master_link_status"] == "up", START_S)
        async with proxied(one.url) as (name, url):
            yield Pair(one, two, name, url)


async def test_whoever_only_reads_sees_what_the_new_primary_has(tmp_path):
    async with pair(tmp_path) as servers, Store.open(servers.url, NS) as store:
        made = Rig(store)
        await made.create()
        assert await store.logs.state(made.rid) is not None
        await wait_until(lambda: looking(store).connected)
        servers.fail_over()
        async with Store.open(servers.two.url, NS) as new:
            await Rig(new, made.rid).delete()
            await wait_until(lambda: is_gone(store, made.rid), SOON_S)


async def is_gone(store: Store, rid: str) -> bool:
    return await store.logs.state(rid) is None


async def test_what_a_process_wrote_at_the_new_primary_it_reads_there(tmp_path, monkeypatch):
    """Without a look at the role: the write itself is told."""
    monkeypatch.setattr("streams.client.WATCH_S", 3600)
    async with pair(tmp_path) as servers, Store.open(servers.url, NS) as store:
        await Rig(store).create()
        await store.logs.now()
        servers.fail_over()
        made = Rig(store)
        await made.create()
        assert await store.logs.state(made.rid) is not None
        await made.delete()
        assert await store.logs.state(made.rid) is None


async def test_rings_are_those_of_the_new_primary(tmp_path):
    rings: list[bool] = []
    async with pair(tmp_path) as servers, Store.open(servers.url, NS) as store:
        store.doorbell.subscribe(f"{NS}:bell", lambda: rings.append(True))
        await wait_until(lambda: rings and looking(store).connected)
        servers.fail_over()
        await wait_until(lambda: servers.two.ask("PUBLISH", f"{NS}:bell", "x"), SOON_S)


async def test_others_are_left_where_the_look_at_the_role_is_one_by_a_new_connection(tmp_path):
    """It sees the new primary, whatever the rest are connected to."""
    async with pair(tmp_path) as servers, Store.open(servers.url, NS) as store:
        made = Rig(store)
        await made.create()
        await store.logs.now()
        await wait_until(lambda: looking(store).connected)
        looks = await looking(store).open()
        servers.fail_over()
        await looks.disconnect(nowait=True)
        async with Store.open(servers.two.url, NS) as new:
            await Rig(new, made.rid).delete()
            await wait_until(lambda: is_gone(store, made.rid), SOON_S)


def looking(store: Store) -> Link:
    """The connection that looks at the role: the last that was made for a store."""
    return store.connections._links[-1]


@pytest.mark.parametrize("rule", ["-info", "-@dangerous"])
async def test_a_user_who_may_not_look_at_the_role_is_served(tmp_path, rule):
    with serving(tmp_path / "one") as one:
        assert one.ask("ACL", "SETUSER", "few", "on", ">word", "~*", "&*", "+@all", rule)
        url = one.url.replace("://", "://few:word@")
        async with Store.open(url, NS) as store:
            await Rig(store).create()
            await wait_until(lambda: not looks_on(one), SOON_S)
            await store.logs.now()


def looks_on(one: Served) -> bool:
    """Whether anybody has asked for the role and may do so again; on servers that tell so."""
    return not one.info("stats").get("acl_access_denied_cmd", 1)


async def test_a_replica_that_takes_writes_by_its_owners_will_is_not_left(tmp_path, monkeypatch):
    monkeypatch.setattr("streams.client.WATCH_S", 0.02)
    with serving(tmp_path / "one", "--replica-read-only", "no") as one:
        one.ask("REPLICAOF", "127.0.0.1", NOBODY)
        async with Store.open(one.url, NS) as store:
            await Rig(store).create()
            looks = looking(store)
            await wait_until(lambda: looks.connected)
            before, held = calls_of_info(one), await looks.open()
            await wait_until(lambda: calls_of_info(one) > before + 20)
            assert await looks.open() is held


def calls_of_info(one: Served) -> int:
    """How often the role was asked for, the questions of this count among them."""
    calls: int = one.info("commandstats")["cmdstat_info"]["calls"]
    return calls
