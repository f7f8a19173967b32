"""With a Redis nothing is written: every role runs where nothing can be."""

import asyncio
import shutil
import subprocess

import pytest

from respool.demo_upstream import serving
from respool.replica import free_port
from tests.respool.processes import COMMAND, environment, get, post
from tests.wait import wait_until

pytestmark = pytest.mark.timeout(90)

READ_ONLY = (
    "mount --make-rprivate / && mount -o remount,bind,ro / && cd / && ! touch /x 2>/dev/null"
)
INSIDE = ("unshare", "--map-root-user", "--mount", "sh", "-c")


def possible():
    """Whether this machine lets us have mounts of our own."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*INSIDE, READ_ONLY], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.skipif(not possible(), reason="no mounts of one's own here")
async def test_all_roles_serve_on_a_file_system_that_cannot_be_written(valkey_url):
    async with serving() as upstream:
        port = free_port()
        settings = {"UPSTREAM_URL": upstream, "REDIS_URL": valkey_url, "PORT": str(port)}
        served = await asyncio.create_subprocess_exec(
            *(*INSIDE, f'{READ_ONLY} && exec "$@"', "sh", *COMMAND, "serve"),
            env=environment({**settings, "NAMESPACE": "read-only"}),
            stderr=asyncio.subprocess.PIPE,
        )
        url = f"http://127.0.0.1:{port}"

        async def ready():
            try:
                return (await get(url, "/readyz"))[0] == 200
            except OSError:
                return False

        try:
            await wait_until(ready, 20)
            assert (await post(url))[1]["status"] == "completed"
        finally:
            served.terminate()
            _, said = await served.communicate()
    assert served.returncode == 0, said
    assert b"Read-only" not in said
