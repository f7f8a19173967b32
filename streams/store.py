"""Everything that a process needs of Redis, put together.

`async with Store.open(url, ns) as store:` runs the loops that belong to it (writer, reads, doorbell, hub) until the
block ends; whatever was submitted is written before the connections close. Called by `respool.serve` and by tests.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

import anyio

from streams.client import Connections, connect
from streams.cluster import Cluster
from streams.cluster_writer import ClusterWriter
from streams.doorbell import Doorbell
from streams.due import Due
from streams.handover import Handover
from streams.hub import Hub
from streams.keys import Keys
from streams.logs import Logs
from streams.work import Work
from streams.writer import RETRY_FOR_S, Sender, Writer

DRAIN_S = 5.0
"""How long closing waits for writes that are under way; what is not through by then fails at its caller."""


@dataclass(frozen=True, slots=True)
class Store:
    """The parts. Writes go through `writer`, reads through `logs` and `hub`.

    `bulk` is for writes so large that no other should wait behind them on its connection.
    """

    keys: Keys
    connections: Connections
    writer: Sender
    reads: Sender
    bulk: Sender
    logs: Logs
    work: Work
    due: Due
    handover: Handover
    doorbell: Doorbell
    hub: Hub

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, ns: str = "respool", *, retry_for_s: float = RETRY_FOR_S
    ) -> AsyncIterator[Self]:
        """Connect, run the loops, and close. Raises StoreError where the server does not answer."""
        keys = Keys(ns)
        connections = await connect(url)
        writer, reads, bulk = (sender(connections, retry_for_s) for _ in range(3))
        logs = Logs(keys, reads)
        handover = Handover()
        doorbell = Doorbell(connections)
        work = Work(keys, writer, connections)
        store = cls(
            keys=keys,
            connections=connections,
            writer=writer,
            reads=reads,
            bulk=bulk,
            logs=logs,
            work=work,
            due=Due(keys, writer),
            handover=handover,
            doorbell=doorbell,
            hub=Hub(keys, logs, handover, doorbell, work),
        )
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as group:
                for loop in (writer.run, reads.run, bulk.run, doorbell.run, store.hub.run):
                    group.start_soon(loop)
                group.start_soon(connections.watch)
                try:
                    yield store
                except Exception as error:  # noqa: BLE001 - raised again below, without the group's wrapping
                    failure = error
                finally:
                    with anyio.move_on_after(DRAIN_S, shield=True):
                        await writer.drained()
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await connections.close()
        if failure is not None:
            raise failure


def sender(connections: Connections, retry_for_s: float) -> Sender:
    """What writes to one server, or to the nodes of a cluster."""
    if isinstance(connections, Cluster):
        return ClusterWriter(connections, retry_for_s=retry_for_s)
    return Writer(connections, retry_for_s=retry_for_s)
