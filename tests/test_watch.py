"""A test that hangs is a failed test with a name, wherever it hangs."""

import re
import subprocess
import sys
from pathlib import Path

HANGING = """
import asyncio, time
import pytest

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

async def busy():
    while True:
        try:
            time.sleep(0.01)  # so that it is here, and not in the loop, that the alarm strikes
            await asyncio.sleep(0)
        except BaseException:
            return

async def test_an_alarm_that_another_task_takes_for_its_own():
    task = asyncio.create_task(busy())
    await asyncio.Event().wait()

@pytest.fixture
async def thing():
    yield
    await asyncio.Event().wait()

async def test_a_failure_that_is_torn_down_for_ever(thing):
    assert False

async def test_a_last_step_without_an_end():
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.Event().wait()
"""


def test_a_test_that_hangs_ends_and_is_named_at_once(tmp_path):
    (tmp_path / "test_hanging.py").write_text(HANGING)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 0.5\nanyio_mode = auto\n")
    plugins = ("-p", "tests.watch", "-p", "no:asyncio", "-p", "no:cacheprovider")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "--numprocesses", "1", str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    said, _, _ = ended.stdout.partition("= FAILURES =")
    named = re.findall(r"^FAILED \S+::test_(\w+) ", said, re.MULTILINE)
    assert set(named) == set(re.findall(r"def test_(\w+)", HANGING)), ended.stdout
