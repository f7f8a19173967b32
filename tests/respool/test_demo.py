"""The demo, as a user runs it."""

import asyncio
import os
import re
import signal
import sys
from contextlib import asynccontextmanager

import pytest

from tests.respool.processes import COMMAND, environment, get, respool

pytestmark = pytest.mark.timeout(90)


def test_the_halves_of_a_killed_stream_are_the_whole(tmp_path):
    ended = respool(tmp_path, "demo", "--once", within_s=80)
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout
    assert len(set(re.findall(r"pid (\d+), http", said))) == 2
    numbers = [int(n) for n in re.findall(r"^ +[\d.]+ +[AB] +(\d+)  ", said, re.MULTILINE)]
    assert numbers == list(range(len(numbers)))
    assert "killed with -9: status -9" in said
    assert "custom_tool_call_input.delta" in said
    joined, whole = (
        re.search(rf"^{name} .*", said, re.MULTILINE)[0].split() for name in ("both,", "a full")
    )
    assert joined[-3:] == whole[-3:]
    assert "The two halves join byte for byte." in said
    assert not list(tmp_path.iterdir()), "the demo leaves nothing in the folder"


@asynccontextmanager
async def demonstrating(folder):
    """The demo, and what it says until it serves. It does not outlive a test that fails."""
    demo = await asyncio.create_subprocess_exec(
        *(*COMMAND, "demo"),
        cwd=folder,
        env=environment({}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said = ""
        while "until Ctrl-C" not in said:
            line = await demo.stdout.readline()
            assert line, (await demo.stderr.read()).decode()
            said += line.decode()
        yield demo, said
    finally:
        if demo.returncode is None:
            demo.send_signal(signal.SIGINT)
            await demo.communicate()


async def test_it_serves_until_ctrl_c_and_what_it_says_to_try_works(tmp_path):
    async with demonstrating(tmp_path) as (demo, said):
        host, path = re.search(r"curl -N '(http://[^/]+)(/v1/responses/[^']+)'", said).groups()
        status, body = await get(host, path)
        assert status == 200
        assert body.endswith("data: [DONE]\n\n")
        page, shown = re.search(r"(http://\S+)/debug#(resp_\S+)", said).groups()
        assert (await get(page, "/debug"))[0] == 200
        assert (await get(page, f"/debug/api/responses/{shown}"))[0] == 200
        demo.send_signal(signal.SIGINT)
        _, errors = await demo.communicate()
        assert (demo.returncode, errors) == (0, b"")


async def test_a_replica_that_falls_is_not_passed_over_in_silence(tmp_path):
    async with demonstrating(tmp_path) as (demo, said):
        second = int(re.findall(r"pid (\d+), http", said)[1])
        os.kill(second, signal.SIGTERM)
        _, errors = await demo.communicate()
        assert demo.returncode == 2
        assert errors.startswith(b"respool: replica B ended by itself")


async def test_without_the_official_client_it_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['openai'] = None; from respool.cli import main; main()"
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "demo"),
        cwd=tmp_path,
        env=environment({}),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await demo.communicate()
    assert demo.returncode == 2
    assert errors.decode() == (
        "respool: the demo needs the official OpenAI client: pip install 'respool[demo]'\n"
    )
