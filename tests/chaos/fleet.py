"""The role processes: two of each, the first behind a proxy that can lose replies of the store.

The first ingest process translates as well: what one process carries and translates goes another way
(`streams.handover.Seer`), which is to be hurt too.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import aiohttp

from respool.replica import Replica
from tests.respool.processes import all_of, get, replica
from tests.streams.proxy import Proxy, proxied

ROLES = ("translate", "ingest", "api", "tools")
NUMBERS = (1, 2)
ALSO = {"ingest-1": ("ingest", "translate")}
"""Roles of members that have more than their name says."""
LEASE_S = 0.5
SAMPLE = re.compile(r"^respool_(\w+?)(\{.*\})? ([\d.e+]+)$", re.MULTILINE)


class Member:
    """A place in the fleet, which process after process takes."""

    def __init__(self, role: str, number: int, folder: Path, settings: dict[str, str]) -> None:
        self.name = f"{role}-{number}"
        self.role = role
        self.number = number
        self.proxy: Proxy | None = None
        self.replica: Replica
        self._folder = folder
        self._settings = settings
        self.past: Counter[str] = Counter()
        """What the processes counted that are no more."""
        self.now: Counter[str] = Counter()
        """What this one had counted when it was last looked at."""

    async def start(self) -> None:
        """The next process, ready."""
        self.past += self.now
        self.now = Counter()
        roles = ALSO.get(self.name, (self.role,))
        self.replica = replica(self._folder, *roles, **self._settings)
        await self.replica.start()
        await self.replica.ready()

    async def look(self) -> None:
        """Read what it has counted; a process that is no more keeps what was read last."""
        try:
            _, text = await get(self.replica.url, "/metrics")
        except (aiohttp.ClientError, OSError):
            return
        self.now = Counter({f"{name}{of}": int(float(n)) for name, of, n in SAMPLE.findall(text)})


class Fleet:
    """All members. As a context manager they run inside."""

    def __init__(
        self, folder: Path, url: str, settings: dict[str, str], base_of: Callable[[str], str]
    ) -> None:
        self._folder = folder
        self._url = url
        self._settings = settings
        self._base_of = base_of
        self._stack = AsyncExitStack()
        self.members: list[Member] = []

    async def __aenter__(self) -> Self:
        for role in ROLES:
            for number in NUMBERS:
                self.members.append(await self._member(role, number))
        for member in self.members:
            self._stack.push_async_callback(self._stop, member)
        await all_of(*(member.start() for member in self.members))
        return self

    async def __aexit__(self, *_: object) -> None:
        await all_of(*(self._stop(member) for member in self.members))
        await self._stack.aclose()

    async def _member(self, role: str, number: int) -> Member:
        base = self._base_of(f"{role}-{number}")
        settings = {**self._settings, "UPSTREAM_URL": base, "REDIS_URL": self._url}
        if number != 1:
            return Member(role, number, self._folder, settings)
        proxy, url = await self._stack.enter_async_context(proxied(self._url))
        proxy.looks = False
        member = Member(role, number, self._folder, {**settings, "REDIS_URL": url})
        member.proxy = proxy
        return member

    @staticmethod
    async def _stop(member: Member) -> None:
        await member.replica.stop()

    def of(self, role: str) -> list[Member]:
        return [member for member in self.members if member.role == role]

    def named(self, name: str) -> Member:
        (found,) = [member for member in self.members if member.name == name]
        return found

    async def counts(self) -> Counter[str]:
        """What all processes have counted, those that are no more included."""
        await all_of(*(member.look() for member in self.members))
        return sum((member.past + member.now for member in self.members), Counter())


FENCED = ("translations_dropped", "rounds_stopped", "tool_calls_dropped")


def fenced(counts: Counter[str]) -> int:
    """Writes of former holders that were refused."""
    return total(counts, FENCED, '="fenced"')


def takeovers(counts: Counter[str]) -> int:
    return total(counts, ("translations_acquired",), '"taken over"')


def foreseen(counts: Counter[str]) -> int:
    """Commits that went with the append of what led to them."""
    return total(counts, ("commits_foreseen",), "")


def repeats(counts: Counter[str]) -> int:
    """Calls that had been carried out before, which the log recognised (DUP)."""
    return total(counts, ("repeats",), "")


def total(counts: Counter[str], names: Iterable[str], label: str) -> int:
    return sum(
        amount
        for sample, amount in counts.items()
        if sample.startswith(tuple(names)) and label in sample.lower()
    )
