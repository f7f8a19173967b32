"""A process's store as a whole."""

import asyncio

import pytest

from streams.faults import StoreAway
from streams.store import Store
from tests.streams.proxy import proxied
from tests.streams.rig import Rig


async def test_what_was_submitted_is_written_before_the_store_closes(store_url, namespace):
    async with Store.open(store_url, namespace) as store:
        rig = await Rig(store).running()
        results = []
        for n in range(1, 400):
            store.writer.submit(rig.appending(n, ("frame", b"x")), results.append)
    assert [result.first for result in results] == list(range(4, 403))


async def test_what_goes_wrong_inside_comes_out_as_it_is(store_url, namespace):
    with pytest.raises(ZeroDivisionError):
        async with Store.open(store_url, namespace):
            raise ZeroDivisionError


async def test_a_store_is_closed_by_cancellation_too(store_url, namespace):
    inside = asyncio.Event()

    async def use() -> None:
        async with Store.open(store_url, namespace):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_server_that_is_not_there_is_told_at_once():
    with pytest.raises(StoreAway):
        async with Store.open("redis://127.0.0.1:1/0"):
            pass


async def test_closing_does_not_wait_for_ever_for_a_server_that_went_away(
    valkey_url, aside, monkeypatch
):
    monkeypatch.setattr("streams.store.DRAIN_S", 0.1)
    results = []
    async with (
        proxied(valkey_url) as (proxy, url),
        Store.open(url, aside) as store,
    ):
        rig = await Rig(store).running()
        proxy.away = True
        proxy.cut()
        store.writer.submit(rig.appending(1, ("frame", b"x")), results.append)
    assert [type(result) for result in results] == [StoreAway]
