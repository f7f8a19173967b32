"""A process gets the sockets that its settings ask for, as far as the machine allows."""

import asyncio
import json
import resource
import sys

import pytest

from respool import descriptors

RUN = """
import json, logging, resource, sys
logging.basicConfig(format="%(message)s", stream=sys.stderr)
from respool.descriptors import provide
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
provide(int(sys.argv[2]))
print(json.dumps(resource.getrlimit(resource.RLIMIT_NOFILE)))
"""


async def provided(hard: int, sockets: int) -> tuple[int, str]:
    """The limit of a process of its own afterwards, and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN, str(hard), str(sockets)), stdout=-1, stderr=-1
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err
    return json.loads(out)[0], err.decode()


async def test_more_is_asked_for_where_more_may_be_had():
    assert await provided(1_000, 500) == (500 + descriptors.SPARE, "")


async def test_what_the_machine_does_not_allow_is_said():
    limit, said = await provided(600, 500)
    assert limit == 600
    assert "may have 600 files open, and its settings ask for 700" in said


async def test_enough_is_left_alone():
    assert await provided(1_000, 10) == (256, "")


async def test_a_limit_that_cannot_be_raised_is_said_too(monkeypatch, caplog):
    def refuse(*_):
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    descriptors.provide(1_000)
    assert "may have 256 files open" in caplog.text


@pytest.mark.parametrize(("soft", "hard"), [(-1, -1), (5_000, 5_000)])
def test_no_bound_is_enough(soft, hard, monkeypatch, caplog):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    descriptors.provide(1_000)
    assert caplog.text == ""
