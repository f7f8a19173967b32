"""The faults. Each is done to a running stage, says what it cost, and returns when all parts stand again."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count

from streams.scripts.outputs import COMMIT
from streams.scripts.responses import CREATE
from streams.scripts.rounds import APPEND
from streams.scripts.tools import RESULT
from tests.chaos.fleet import LEASE_S, ROLES, Member
from tests.chaos.stage import Stage
from tests.respool.processes import all_of
from tests.wait import wait_until

STOPPED_S = 2.5 * LEASE_S
"""Past the lease, and past the sweeper's turn."""
REPLIES = 3
"""Lost in a trial, of the script by which a role writes."""
WRITES = {"translate": COMMIT, "ingest": APPEND, "api": CREATE, "tools": RESULT}
LOSE_S = 20.0
"""For so many writes to come by: creates and results of tools are few."""
LATE_FRAMES = 20
"""What the clients have seen that a failover takes back."""

Fault = Callable[[Stage, Member], Awaitable[None]]


@dataclass(frozen=True)
class Trial:
    """One fault, and to whom."""

    name: str
    fault: Fault
    member: str


async def kill(stage: Stage, member: Member) -> None:
    """-9: no goodbye, no leases released."""
    await member.look()
    stage.lose(member)
    twin = stage.control.workers[member.number - 1]
    await all_of(member.replica.kill(), twin.end())
    await stage.watch()
    await all_of(member.start(), twin.start())


async def stop(stage: Stage, member: Member) -> None:
    """Stopped past the lease: it wakes up, believes that it still holds what it held, and writes."""
    stage.lose(member)
    both = (member.replica, stage.control.workers[member.number - 1])
    for one in both:
        one.signal(signal.SIGSTOP)
    await asyncio.sleep(STOPPED_S)
    for one in both:
        one.signal(signal.SIGCONT)
    await stage.watch()


async def end(stage: Stage, member: Member) -> None:
    """SIGTERM, as in a rolling restart."""
    await member.look()
    twin = stage.control.workers[member.number - 1]
    member.replica.signal(signal.SIGTERM)
    await twin.end(signal.SIGTERM)
    await stage.watch()
    status = await member.replica.wait()
    if status != 0:
        stage.judge.broken.append(f"{member.name} ended with {status} after SIGTERM")
    await all_of(member.start(), twin.start())


async def lose_replies(stage: Stage, member: Member) -> None:
    """The store carries commands out, and their sender never hears of it."""
    proxy = member.proxy
    assert proxy is not None
    proxy.losing_of = WRITES[member.role].sha.encode()
    proxy.losing = REPLIES
    stage.control.workers[member.number - 1].proxy.losing = REPLIES
    await wait_until(lambda: proxy.losing == 0, LOSE_S)
    await stage.watch()


async def kill_store(stage: Stage, _: Member) -> None:
    """The store is killed and started again on its file."""
    await stage.valkey.kill()
    await stage.valkey.start()
    await stage.watch()
    await stage.valkey.compact()


async def take_back(stage: Stage, _: Member) -> None:
    """A failover to a replica that lagged: what was acknowledged meanwhile is gone."""
    stage.valkey.remember()
    seen = stage.frames_seen
    await wait_until(lambda: stage.frames_seen >= seen + LATE_FRAMES)
    await stage.valkey.kill()
    stage.take_back()
    stage.valkey.go_back()
    await stage.valkey.start()
    stage.take_back()  # what was begun in the last moments, too
    await stage.watch()
    await stage.valkey.compact()


OF_PROCESSES: dict[str, Fault] = {
    "kill -9": kill,
    "stopped past the lease": stop,
    "SIGTERM": end,
    "lost replies": lose_replies,
}
OF_THE_STORE: dict[str, Fault] = {
    "store killed": kill_store,
    "older file put back": take_back,
}


def trials() -> Iterator[Trial]:
    """All faults in turn, to all roles and both members in turn; the first six are of all kinds."""
    for turn in count():
        role = ROLES[turn % len(ROLES)]
        for place, (name, fault) in enumerate(OF_PROCESSES.items()):
            # The other one each time: who was just started has no streams yet.
            number = 1 + (turn // len(ROLES) + place) % 2
            # Only the first member of a role has a proxy before it.
            member = f"{role}-{1 if fault is lose_replies else number}"
            yield Trial(f"{name}, {role}", fault, member)
        for name, fault in OF_THE_STORE.items():
            yield Trial(name, fault, f"{role}-1")
