"""Runners: none should end by itself, and one that does is noticed."""

import asyncio

import pytest

from respool.crew import Crew, Runners, milliseconds, translate_limits
from respool.roles import Role
from respool.settings import load
from respool.upstreams import Upstreams


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


async def test_a_runner_that_ends_by_itself_is_told_to_whoever_waits(caplog):
    async def fall():
        raise OSError("no more")

    runners = Runners()
    runners.start("ingest", asyncio.Event().wait())
    runners.start("translate", fall())
    assert runners.problems() == []
    await runners.fell.wait()
    assert runners.problems() == ["translate does not run"]
    assert "translate ended by itself" in caplog.text
    await runners.stop()


async def test_stopping_is_not_falling():
    runners = Runners()
    runners.start("ingest", asyncio.Event().wait())
    await runners.stop()
    await asyncio.sleep(0)
    assert not runners.fell.is_set()


@pytest.mark.parametrize(
    ("roles", "kinds"),
    [
        ({Role.API}, set()),
        ({Role.INGEST}, {"rounds"}),
        ({Role.TRANSLATE}, {"translate"}),
        ({Role.TOOLS}, {"tools"}),
        (set(Role), {"rounds", "translate", "tools"}),
    ],
)
async def test_a_role_takes_the_work_that_is_its_own_until_it_retires(store, roles, kinds):
    settings = load(drain_s=0.1)
    crew = Crew(store, settings, frozenset(roles), Upstreams(settings))
    async with crew:
        assert {k for k in ("rounds", "translate", "tools") if store.work.registered(k)} == kinds
        assert crew.runners.problems() == []
        await crew.retire()
        assert not any(store.work.registered(k) for k in kinds)


def test_a_time_of_next_to_nothing_is_not_none():
    assert milliseconds(0.0001) == 1
    assert milliseconds(1.5) == 1500


@pytest.mark.parametrize(("seconds", "ms"), [(None, 300_000), (0, 0), (0.0001, 1), (2.5, 2_500)])
@pytest.mark.parametrize("role", [Role.TRANSLATE, Role.TOOLS])
async def test_whoever_sweeps_seals_after_the_time_that_is_set_or_never(store, role, seconds, ms):
    settings = load(seal_after_s=seconds)
    crew = Crew(store, settings, frozenset({role}), Upstreams(settings))
    sweeper = crew._translate._sweeper if crew._translate else crew._sweeper
    assert sweeper._seal_after_ms == translate_limits(settings).seal_after_ms == ms
