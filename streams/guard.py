"""The parent of an embedded server: starts it, restarts it, and stops it when nobody uses it any more.

A program of its own, run as `python -I -S guard.py FOLDER SOCKET SERVER ARGUMENTS…` by `streams.embedded`, which tells
what the lock files mean. It imports nothing but the standard library and stays small (some 10 MB). It exits with 0 when
the server was stopped or another guard is there, with 1 when the server does not stay up.
"""

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

TAKE_S = 2.0
"""For taking `guard.lock`: a predecessor that is exiting, or somebody who looks whether it is held."""
CRASH_S = 1.0
"""A server that lived shorter than this did not come up."""
CRASHES = 3
"""Times in a row that it may fail to come up."""
STOP_S = 8.0
"""For the server to write its file out; then it is killed (what it acknowledged a second ago is on disk)."""
POLL_S = 0.05
"""Between two tries for the lock: flock can wait, but not with a bound."""


class Guard:
    """One server and who watches over it."""

    def __init__(self, folder: Path, address: str, command: list[str]) -> None:
        self._folder = folder
        self._address = address
        self._command = command
        self._server: subprocess.Popen[bytes] | None = None
        """The server where this guard started it; None for one that an earlier guard left behind."""
        self._stopping = False
        """Set when nobody uses the server any more; under `_lock`, so that none is started after it."""
        self._lock = threading.Lock()

    def run(self) -> int:
        """Keep a server alive until nobody uses it."""
        if not self._take():
            return 0
        threading.Thread(target=self._watch, daemon=True).start()
        crashes = 0
        while crashes < CRASHES:
            server = self._start()
            if server is None:
                return 0
            started = time.monotonic()
            server.wait()
            crashes = crashes + 1 if time.monotonic() - started < CRASH_S else 0
        return 1

    def _take(self) -> bool:
        descriptor = self._open("guard")
        deadline = time.monotonic() + TAKE_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(POLL_S)
            else:
                return True
        return False

    def _start(self) -> "subprocess.Popen[bytes] | None":
        """Start a server once none lives, unless it is time to stop."""
        descriptor = self._open("data")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits until no server lives
            with self._lock:
                if self._stopping:
                    return None
                server = self._server = subprocess.Popen(  # noqa: S603 - what our caller says
                    self._command, pass_fds=(descriptor,), stdin=subprocess.DEVNULL
                )
        finally:
            os.close(descriptor)  # the server's copy goes on holding the lock
        return server

    def _open(self, name: str) -> int:
        return os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)

    def _watch(self) -> None:
        """Wait until nobody uses the server, then stop it. The lock is kept till the end, so newcomers wait for it."""
        descriptor = self._open("users")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with self._lock:
            self._stopping = True
            server = self._server
        if server is None:
            shut_down(self._address)
            return
        server.terminate()
        try:
            server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()


def shut_down(address: str) -> None:
    """Ask a server that is not our child to go; one that does not answer stays, for its file's sake."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(STOP_S)
        try:
            connection.connect(address)
            connection.sendall(b"SHUTDOWN\r\n")
            connection.recv(64)
        except OSError:
            return


if __name__ == "__main__":
    sys.exit(Guard(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]).run())
