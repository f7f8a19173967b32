"""What is measured: each is one or more processes of ours with an address, started for a run and ended after it.

In: the scripted upstream (`benchmarks.upstream.Running`). Out: a `Subject`. Respool has its store as a server of its own,
the one that `respool serve` would start (append-only file, fsync every second).
"""

import json
import math
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from redis.asyncio import Redis

from benchmarks.figures import Figures, Run
from benchmarks.litellm import litellm
from benchmarks.load import Load, Way, made, run
from benchmarks.rows import ROWS, Row
from benchmarks.spending import Meter, Spending, memory_mb, processor_s
from benchmarks.upstream import Running
from benchmarks.without import TECHNIQUES
from respool.replica import Replica
from streams import embedded

FLOOR, OURS, PEERS = "upstream", ("one", "split"), ("litellm",)
KEPT_S = 60
"""Of finished responses: the store does not grow from row to row, and what a row still reads is there."""
NO_SEAL_S = 3600
"""Packing begins later than any run ends, so that it is not measured with what happens to run then."""
PUBLIC_CALL = b"event: response.custom_tool_call_input.delta\n"
WARM = tuple(Load(5, 20, 5, api) for api in ("responses", "chat", "custom"))
"""Imports, connections, scripts."""
HERE = {"PYTHONPATH": str(Path(__file__).parents[1])}
"""Where this package is found from another folder: it is part of no wheel."""
SPLIT = ((("api",), 2), (("ingest",), 1), (("translate",), 2))


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that answers `POST /responses` below each of its addresses."""

    name: str
    bases: tuple[str, ...]
    pids: tuple[int, ...]
    meter: Meter | None = None
    """Of its store, where it has one: its responses are kept, so they can be followed and resumed."""

    async def spent(self) -> Spending:
        """What its processes and its store have spent so far."""
        if self.meter is None:
            return Spending(sum(map(processor_s, self.pids)))
        return await self.meter.spent(self.pids)

    def memory_mb(self) -> float:
        """Resident memory of its processes together, in MB."""
        return sum(map(memory_mb, self.pids))

    def does(self, row: Row) -> bool:
        """Whether it can do a row at all: only who keeps responses can have them followed.

        A custom tool is asked of a gateway that makes one of a function, and of the upstream for the floor; whoever
        passes the function on as it is does something else.
        """
        if row.load.way is Way.FOLLOW:
            return self.meter is not None
        if row.load.way is Way.RESUME or row.load.api == "custom":
            return self.meter is not None or self.name == FLOOR
        return True

    async def measured(self, load: Load) -> Run:
        """One run of a load, what it cost, and the memory that it left behind."""
        if self.meter is not None and load.api == "custom":
            load = replace(load, expects=PUBLIC_CALL)
        resumes = load.way is Way.RESUME and self.meter is not None
        rid = await made(self.bases[0], load) if resumes else ""
        marks: list[Spending] = []

        async def mark() -> None:
            marks.append(await self.spent())

        before = await self.spent()
        figures = await run(self.bases, load, rid=rid, marked=mark)
        spent = await self.spent() - before
        return Run(figures, spent, self.memory_mb(), reads(figures, marks, load))


def reads(figures: Figures, marks: list[Spending], load: Load) -> float:
    """Reads of logs for each frame of a followed response, between the two marks; NaN where there are no two."""
    if len(marks) < 2 or not figures.frames:
        return math.nan
    # Of one client: what all of them are served is read for each of them where the reading is not shared.
    return (marks[1] - marks[0]).reads / load.frames


Start = Callable[[Running], AbstractAsyncContextManager[Subject]]


@asynccontextmanager
async def alone(upstream: Running) -> AsyncIterator[Subject]:
    """The floor: clients at the upstream itself."""
    yield Subject("upstream", (upstream.base,), (upstream.pid,))


@asynccontextmanager
async def gateway(
    name: str,
    upstream: Running,
    *,
    split: bool = False,
    settings: Mapping[str, str] | None = None,
    module: Sequence[str] = ("respool",),
) -> AsyncIterator[Subject]:
    """`respool serve` in one process, or with its roles split over several on one store."""
    given = {
        "RESPOOL_LOG_LEVEL": "WARNING",
        "RESPOOL_RETENTION_S": str(KEPT_S),
        "RESPOOL_SEAL_AFTER_S": str(NO_SEAL_S),
        "RESPOOL_UPSTREAMS": upstreams(upstream.base),
        **(settings or {}),
    }
    roles = [role for role, count in SPLIT for _ in range(count)] if split else [()]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="respool-bench-")))
        url = await stack.enter_async_context(embedded.serve(folder / ".respool"))
        client: Redis = Redis.from_url(url)
        stack.push_async_callback(client.aclose)
        meter = Meter(client)
        await meter.steady()
        served = [Replica(folder, given, roles=role, module=module) for role in roles]
        for one in served:
            await stack.enter_async_context(one)
        bases = [
            f"{one.url}/v1"
            for one, role in zip(served, roles, strict=True)
            if role in ((), ("api",))
        ]
        yield Subject(name, tuple(bases), tuple(one.pid for one in served), meter)


def upstreams(base: str) -> str:
    """The scripted upstream as the gateway's three: by dialect, and for custom tools."""
    tables = [
        {"id": "responses", "api": "responses", "models": ["responses:*", "custom:*"]},
        {"id": "chat", "api": "chat", "models": ["chat:*"]},
    ]
    return json.dumps([{**table, "base_url": base} for table in tables])


@asynccontextmanager
async def peer(upstream: Running) -> AsyncIterator[Subject]:
    """LiteLLM's proxy: one worker, nothing stored."""
    models = (load.model for load in (*WARM, *(row.load for row in ROWS)))
    async with litellm(upstream.base, models) as (base, pid):
        yield Subject("litellm", (base,), (pid,))


SUBJECTS: dict[str, Start] = {
    "upstream": alone,
    "one": partial(gateway, "one"),
    "split": partial(gateway, "split", split=True),
    "litellm": peer,
    **{
        f"without-{name}": partial(
            gateway, f"without-{name}", settings=HERE, module=("benchmarks.without", name)
        )
        for name in TECHNIQUES
    },
}


async def warm(subject: Subject) -> None:
    """Have it do a little of everything. Raises RuntimeError where it cannot do even that."""
    for load in WARM:
        figures = await run(subject.bases, load)
        if figures.faults():
            raise RuntimeError(f"{subject.name}, {load.model}: {'; '.join(figures.faults())}")
