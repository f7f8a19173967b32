"""Work that is done for a client only while that client is there.

In: the work and its watchers (the ear on the connection, the heartbeat), and the lease of an unstored response. Out:
the work's result, or ClientDisconnect when a watcher says that nobody is there any more. Nothing polls: a disconnect
comes through ASGI's `receive`. Called by `api.create` and `api.stream`.

Plain tasks, not a task group, and none for the work itself: they are made for every stream, and the group's bookkeeping
cost as much as the request's validation. Nothing is left behind: whichever way it ends, all watchers are cancelled and
awaited.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from api.unstored import ReaderLease

T = TypeVar("T")


async def attend(
    work: Callable[[], Coroutine[Any, Any, T]],
    *watchers: Callable[[], Coroutine[Any, Any, None]],
    lease: ReaderLease | None = None,
) -> T:
    """Run the work until it ends or the first watcher returns. A watcher must not raise.

    Raises what the work raises, and ClientDisconnect for a watcher's return. The lease is held meanwhile; a client that
    left abandons it.
    """
    watching = [asyncio.ensure_future(watch()) for watch in watchers]
    if lease is not None:
        watching.append(asyncio.ensure_future(lease.hold()))
    try:
        return await _until_one_ends(watching, work)
    except ClientDisconnect:
        if lease is not None:
            await lease.abandon()
        raise


async def _until_one_ends(
    watching: list[asyncio.Task[None]], work: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """The work runs in the caller's own task: one task less a stream. It is cut as a time-out would cut it."""
    loop, presence, working = asyncio.get_running_loop(), asyncio.timeout(None), True

    def gone(_: object) -> None:
        if working:
            presence.reschedule(loop.time())

    try:
        async with presence:
            for watcher in watching:
                watcher.add_done_callback(gone)
            return await work()
    except TimeoutError:
        if presence.expired():
            raise ClientDisconnect from None
        raise
    finally:
        working = False
        await _end(watching)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel what still runs and wait until it has ended."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


def leaving(receive: Receive) -> Callable[[], Coroutine[Any, Any, None]]:
    """A watcher that returns when the client closes the connection (or the answer is complete)."""

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return listen
