"""Work that is done for a client only while that client is there.

In: the work and its watchers (the ear on the connection, the heartbeat), and the lease of an unstored response. Out:
the work's result, or ClientDisconnect when a watcher says that nobody is there any more. Nothing polls: a disconnect
comes through ASGI's `receive`. Called by `api.create` and `api.stream`.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from api.unstored import ReaderLease

T = TypeVar("T")


async def attend(
    work: Callable[[], Awaitable[T]],
    *watchers: Callable[[], Awaitable[None]],
    lease: ReaderLease | None = None,
) -> T:
    """Run the work until it ends or the first watcher returns. A watcher must not raise.

    Raises what the work raises, as it is (a task group would wrap it), and ClientDisconnect for a watcher's return. The
    lease is held meanwhile; a client that left abandons it.
    """
    results: list[T] = []
    failures: list[Exception] = []

    async def working(scope: anyio.CancelScope) -> None:
        try:
            results.append(await work())
        except Exception as failure:  # noqa: BLE001 - raised again below, outside of the task group
            failures.append(failure)
        scope.cancel()

    async def watching(watcher: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        await watcher()
        scope.cancel()

    async with anyio.create_task_group() as group:
        for watcher in watchers if lease is None else (*watchers, lease.hold):
            group.start_soon(watching, watcher, group.cancel_scope)
        await working(group.cancel_scope)
    if failures:
        raise failures[0]
    if not results:
        if lease is not None:
            await lease.abandon()
        raise ClientDisconnect
    return results[0]


def leaving(receive: Receive) -> Callable[[], Awaitable[None]]:
    """A watcher that returns when the client closes the connection (or the answer is complete)."""

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return listen
