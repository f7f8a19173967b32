"""The guard of an embedded server, with small programs in the server's place."""

import fcntl
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams import guard
from streams.guard import Guard, shut_down
from tests.wait import wait_for

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time, pathlib; signal.signal(15, signal.SIG_IGN);"
    " pathlib.Path('up').touch(); time.sleep(60)",
]


@contextmanager
def lock(folder: Path, name: str, how: int = fcntl.LOCK_EX):
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, how)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def free(folder: Path, name: str) -> bool:
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


class Running:
    """A guard in a thread."""

    def __init__(self, folder: Path, command: list[str], address: str = "none") -> None:
        self.results: list[int] = []
        self.thread = threading.Thread(
            target=lambda: self.results.append(Guard(folder, address, command).run())
        )
        self.thread.start()

    def result(self) -> int:
        self.thread.join(10)
        return self.results[0]


def test_a_server_runs_until_nobody_uses_it(tmp_path):
    with lock(tmp_path, "users", fcntl.LOCK_SH):
        running = Running(tmp_path, SLEEP)
        wait_for(lambda: not free(tmp_path, "data"), 5)
        assert not free(tmp_path, "guard")
        assert running.results == []
    assert running.result() == 0
    assert free(tmp_path, "data")


def test_a_server_that_crashes_is_started_again_but_not_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "CRASH_S", 0.6)
    program = tmp_path / "program.py"
    program.write_text(
        "import pathlib, time\n"
        "log = pathlib.Path(__file__).with_name('starts'); log.open('a').write('x')\n"
        "time.sleep(1.2 if len(log.read_text()) < 3 else 0)\n"
    )
    with lock(tmp_path, "users", fcntl.LOCK_SH):
        assert Running(tmp_path, [sys.executable, "-S", str(program)]).result() == 1
    assert (tmp_path / "starts").read_text() == "x" * (2 + guard.CRASHES)


def test_there_is_one_guard_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "TAKE_S", 0.1)
    with lock(tmp_path, "guard"):
        assert Running(tmp_path, SLEEP).result() == 0
    assert free(tmp_path, "data")


def test_a_server_that_does_not_go_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "STOP_S", 0.1)
    monkeypatch.chdir(tmp_path)
    with lock(tmp_path, "users", fcntl.LOCK_SH):
        running = Running(tmp_path, STUBBORN)
        wait_for((tmp_path / "up").exists, 5)
    assert running.result() == 0
    assert free(tmp_path, "data")


def test_a_server_that_an_earlier_guard_left_is_adopted_and_asked_to_go(tmp_path):
    path = str(tmp_path / "socket")
    asked = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        data = os.open(tmp_path / "data.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(data, fcntl.LOCK_EX)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                asked.append(connection.recv(64))
            os.close(data)

        server = threading.Thread(target=serve)
        server.start()
        with lock(tmp_path, "users", fcntl.LOCK_SH):
            running = Running(tmp_path, SLEEP, path)
            wait_for(lambda: not free(tmp_path, "guard"), 5)
        assert running.result() == 0
        server.join()
    assert asked == [b"SHUTDOWN\r\n"]


def test_a_server_that_is_not_there_need_not_be_asked(tmp_path):
    shut_down(str(tmp_path / "nothing"))


@pytest.mark.slow
def test_the_guard_is_a_program_that_needs_nothing_of_ours(tmp_path):
    with lock(tmp_path, "users", fcntl.LOCK_SH):
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(tmp_path), "none", *SLEEP], cwd="/"
        )
        wait_for(lambda: not free(tmp_path, "data"), 5)
    assert process.wait(10) == 0
