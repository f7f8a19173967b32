import asyncio

import pytest
from starlette.requests import ClientDisconnect

from api.attendance import attend, leaving
from tests.api.exchange import Exchange


async def forever() -> None:
    await asyncio.Event().wait()


async def test_the_works_result_comes_out():
    async def work() -> int:
        return 5

    assert await attend(work, forever) == 5


async def test_the_works_error_comes_out_as_it_is():
    async def work() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        await attend(work, forever)


async def test_a_watcher_that_returns_ends_the_work():
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await forever()
        finally:
            ended.set()

    async def watcher() -> None:
        await asyncio.sleep(0)

    with pytest.raises(ClientDisconnect):
        await attend(work, watcher, forever)
    assert ended.is_set()


async def test_a_client_leaves_when_the_server_says_so_and_not_before():
    exchange = Exchange()
    exchange.incoming.append({"type": "http.request", "body": b"", "more_body": False})
    listening = asyncio.create_task(leaving(exchange.receive)())
    await asyncio.sleep(0.01)
    assert not listening.done()
    exchange.left.set()
    await listening


async def test_an_end_from_outside_is_not_taken_for_a_client_that_left():
    task = asyncio.create_task(attend(forever, forever))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
