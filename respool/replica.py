"""One `respool serve` as a process of its own, to be watched, killed and stopped.

In: a folder (processes in one folder share the embedded store), settings, roles. Out: a running
process, ready when `/readyz` says so. Used by `respool.demo`, the benchmarks and the tests, which
all want the real thing: another process, another pid.
"""

import asyncio
import fcntl
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import gettempdir
from types import TracebackType
from typing import Self

import aiohttp

from respool.unusable import Unusable

READY_S = 20.0
"""A cold disk and a busy machine included; usually it takes one to two seconds."""
LOOK_EVERY_S = 0.02
STOP_S = 15.0
"""The default RESPOOL_DRAIN_S and what comes after it; past this it is killed."""
LOG_TAIL = 600


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def reserved(port: int) -> Iterator[int | None]:
    """The port, unless somebody has it or has reserved it here; then None.

    A process takes a second to start, and whoever starts another one meanwhile must not take its port for free.
    """
    with ExitStack() as stack:
        try:
            held = stack.enter_context(Path(gettempdir(), f"respool-{port}.lock").open("a"))
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            yield None
        else:
            yield port


class Replica:
    """A process. As a context manager it is started and ready inside, and stopped at the end."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        *,
        roles: Sequence[str] = (),
        port: int | None = None,
        module: Sequence[str] = ("respool",),
    ) -> None:
        """`module` is what Python is told to run, with its first words: something that becomes the `respool` command."""
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._settings = {**settings, "RESPOOL_PORT": str(self.port)}
        self._roles = roles
        self._module = module
        self._log = folder / f"respool-{self.port}.log"
        self._process: Process | None = None  # set by `start`

    @property
    def pid(self) -> int:
        """The process id; it stays known after the end."""
        return self._running().pid

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._running().returncode

    def log(self) -> str:
        """What it wrote so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    async def start(self) -> None:
        """Start it, without anything of our own settings; `ready` waits for the rest."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("RESPOOL_")}
        roles = [word for role in self._roles for word in ("--role", role)]
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *self._module, "serve", *roles),
                env={**inherited, **self._settings},
                cwd=self._folder,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for whoever watches, and not for us at the same time.
                start_new_session=True,
            )

    async def ready(self) -> None:
        """Wait until it serves. Raises Unusable with the end of its log if it does not."""
        timeout = aiohttp.ClientTimeout(total=2)
        try:
            async with asyncio.timeout(READY_S), aiohttp.ClientSession(timeout=timeout) as session:
                while self.status is None:
                    if await self._answers(session):
                        return
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            pass
        raise Unusable(f"`respool serve` did not become ready: ...{self.log()[-LOG_TAIL:]}")

    async def _answers(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{self.url}/readyz") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def kill(self) -> None:
        """End it at once (-9): no goodbye, no leases released."""
        if self.status is None:
            self._running().kill()
            await self._running().wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._running().send_signal(number)

    async def wait(self) -> int:
        """Wait for its end; the exit status."""
        return await self._running().wait()

    async def stop(self) -> int:
        """Ask it to end (SIGTERM) and wait; the exit status. One that never started has none: 0."""
        if self._process is None:
            return 0
        if self.status is None:
            self._running().terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    return await self._running().wait()
            except TimeoutError:
                await self.kill()
        return await self._running().wait()

    async def __aenter__(self) -> Self:
        await self.start()
        try:
            await self.ready()
        except BaseException:
            await self.kill()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def _running(self) -> Process:
        if self._process is None:
            raise RuntimeError("the replica was not started")
        return self._process
