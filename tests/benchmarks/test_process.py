import subprocess
import sys

import pytest

from benchmarks.process import until

ENDED = """
import asyncio, sys
from benchmarks.process import carried_out

async def main():
    try:
        print("begun", flush=True)
        await asyncio.Event().wait()
    finally:
        print("ending", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("ended in order", flush=True)

sys.exit(carried_out(main()))
"""


def test_a_benchmark_that_is_told_to_end_ends_what_it_began():
    process = subprocess.Popen(
        [sys.executable, "-c", ENDED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "begun\n"
        process.terminate()
        assert process.stdout.readline() == "ending\n"
        process.terminate()  # said twice
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.read() == "ended in order\n"
    assert process.returncode == 143


@pytest.mark.anyio
async def test_what_does_not_come_true_is_given_up():
    async def never():
        return False

    with pytest.raises(TimeoutError):
        await until(never, 0.05)
