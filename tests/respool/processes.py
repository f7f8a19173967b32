"""Real processes for the tests: a scripted upstream, `respool serve`, and the command run to its end."""

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager

import aiohttp

from respool.replica import Replica

COMMAND = (sys.executable, "-m", "respool")


def environment(settings):
    """Ours, without any setting of whoever runs the tests, and with the given ones."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("RESPOOL_")}
    return {**inherited, **{f"RESPOOL_{name}": value for name, value in settings.items()}}


def respool(folder, *words, within_s=20, **settings):
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


def replica(folder, *roles, port=None, **settings):
    """A `respool serve` to be started."""
    named = {f"RESPOOL_{name}": value for name, value in settings.items()}
    return Replica(folder, named, roles=roles, port=port)


@asynccontextmanager
async def streaming(url, *, headers=None, **body):
    """An open event stream of a new response."""
    request = {"model": "demo", "input": "Say hello.", "stream": True, **body}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/responses", json=request, headers=headers) as answer,
    ):
        yield answer


async def get(url, path, **headers):
    """Status and body of a GET."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}{path}", headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def post(url, **body):
    """Status and JSON of a blocking create."""
    request = {"model": "demo-fast", "input": "Say hello.", **body}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/responses", json=request) as answer,
    ):
        return answer.status, await answer.json()


async def all_of(*works):
    """Await all of them at once."""
    return await asyncio.gather(*works)
