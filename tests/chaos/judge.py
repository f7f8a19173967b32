"""The laws, held against every response when its client has left it.

The joined stream is, byte for byte, the fold of the input log by a fresh machine, and so is the output log; numbers run
from 0 without gap or repeat; there is one terminal frame, and one result a tool call. A response completes unless the
ingest process that carried it was lost. One whose log was taken back may end as failed, built from what is left.
"""

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from streams.faults import LogLost
from streams.scripts.refused import Reason, Refused
from streams.scripts.responses import delete
from streams.store import Store
from tests.chaos.audience import NUMBER, TERMINAL, Viewing
from tests.chaos.tally import Tally
from tests.ingest.made import entries
from tests.translator import laws
from tests.wait import wait_until
from translator.machine import Machine
from translator.protocol.entries import Entry, Kind
from workers.translate_end import MESSAGE, ending

END_S = 15.0
"""For a response that nobody reads to reach its end: some leases, and a busy machine."""


@dataclass
class Judge:
    """Holds viewings against the logs, and keeps what it found."""

    store: Store
    broken: list[str] = field(default_factory=list)
    """Laws that were broken, one line each."""
    total: Tally = field(default_factory=Tally)

    async def judge(self, viewing: Viewing) -> Tally:
        """What became of one response; the laws that it broke go to `broken`."""
        tally, broken = Tally(), list[str]()
        if "back" not in viewing.wronged:
            try:
                tally, broken = await self._whole(viewing)
            except (AssertionError, LogLost, Refused) as error:
                broken = [f"its log cannot be read: {error}"]
        if "back" in viewing.wronged:  # before, or meanwhile
            tally, broken = await self._taken_back(viewing)
        self.broken += [f"{viewing.tag} {viewing.rid}: {what}" for what in broken]
        self.total.add(tally)
        if not broken:
            await self._forget(viewing.rid)
        return tally

    async def _forget(self, rid: str) -> None:
        """Delete what is lawful: the store stays small, and its file short."""
        with suppress(Refused):  # it is gone, or a reply was lost
            await self.store.writer.do(delete(self.store.keys, rid))

    async def _whole(self, viewing: Viewing) -> tuple[Tally, list[str]]:
        """A response whose log is what it was."""
        rid, seen = viewing.rid, viewing.frames
        log = await entries(self.store, rid)
        fold = folded(rid, log)
        kept = await output_of(self.store, rid)
        tally = compared(seen, fold)
        broken: list[str] = []

        def hold(law: object, what: str) -> None:
            if not law:
                broken.append(what)

        hold(viewing.whole, f"the stream ended without an end: {viewing.refused}")
        hold(seen == fold, f"{len(seen)} frames were seen, the fold gives {len(fold)}, other ones")
        hold(kept == fold, f"the output log has {len(kept)} frames, the fold {len(fold)}, others")
        hold(numbers(seen) == list(range(len(seen))), "the numbers have a gap or a repeat")
        hold(ends(seen) == 1, f"there are {ends(seen)} terminal frames")
        hold(not (twice := repeated_results(log)), f"calls with two results: {twice}")
        if not fold or ends(fold) != 1:
            return tally, broken
        events = [laws.parse(frame) for frame in fold]
        try:
            laws.check(events)
            laws.gateway(events)
        except AssertionError as error:
            hold(False, f"the events break a law: {error}")
        status = events[-1]["response"]["status"]
        tally.completed, tally.failed = int(status == "completed"), int(status == "failed")
        error = events[-1]["response"]["error"]
        hold(
            status == "completed" or "ingest" in viewing.wronged,
            f"it failed although no process of its round was lost: {error}",
        )
        return tally, broken

    async def _taken_back(self, viewing: Viewing) -> tuple[Tally, list[str]]:
        """A response of which the store forgot a part: no hole, no repeat, and one end, or a word that it is gone."""
        seen = viewing.frames
        broken = await self.left(viewing.rid)
        if numbers(seen) != list(range(len(seen))) or ends(seen) != int(viewing.whole):
            broken.append("it was taken back, and seen with a hole")
        return Tally(responses=1, taken_back=1, frames=len(seen)), broken

    async def left(self, rid: str) -> list[str]:
        """What the store has of a response must reach its end and be lawful, whoever reads it; what is not so."""
        try:
            await wait_until(lambda: done(self.store, rid), END_S)
            kept = await output_of(self.store, rid)
            log = await entries(self.store, rid)
        except AssertionError:
            return ["it does not end"]
        except (Refused, LogLost) as error:
            gone = isinstance(error, Refused) and error.reason is Reason.MISSING
            return [] if gone else [error.message]
        if numbers(kept) != list(range(len(kept))) or ends(kept) != 1:
            return ["its log has a hole, or not one end"]
        if kept != folded(rid, log) and not ended_by_us(rid, kept, log):
            return ["its log is neither the fold nor ended as failed"]
        return []


async def done(store: Store, rid: str) -> bool:
    """Whether a response has ended, or is no more."""
    state = await store.logs.state(rid)
    return state is None or state.done


async def output_of(store: Store, rid: str) -> list[bytes]:
    """The whole output log."""
    frames: list[bytes] = []
    while page := (await store.logs.read_output(rid, len(frames) - 1)).frames:
        frames += [frame.data for frame in page]
    return frames


def folded(rid: str, log: list[Entry]) -> list[bytes]:
    """What the input log alone gives."""
    machine, frames = Machine(rid), []
    for entry in log:
        frames += machine.feed(entry).frames
    return frames


def ended_by_us(rid: str, kept: list[bytes], log: list[Entry]) -> bool:
    """Whether the last frames are those that the gateway makes where a fold cannot go on."""
    response = laws.parse(kept[-1])["response"]
    if response["status"] != "failed" or response["error"]["message"] != MESSAGE:
        return False
    return any(
        ending(rid, kept[:at], at - 1, log[:1], response["created_at"] * 1000).frames == kept[at:]
        for at in range(len(kept))
    )


def numbers(frames: list[bytes]) -> list[int]:
    return [int(NUMBER.search(frame)[1]) for frame in frames]


def ends(frames: list[bytes]) -> int:
    return sum(frame.startswith(TERMINAL) for frame in frames)


def repeated_results(log: list[Entry]) -> list[str]:
    """Calls with more than one result."""
    found = Counter(json.loads(e.data)["key"] for e in log if e.kind == Kind.TOOL_RESULT)
    return [key for key, times in found.items() if times > 1]


def compared(seen: list[bytes], whole: list[bytes]) -> Tally:
    """What a reader lacks, has twice, or has in the wrong place."""
    came = numbers(seen)
    high, disordered = -1, 0
    for number in came:
        disordered += number < high
        high = max(high, number)
    return Tally(
        responses=1,
        frames=len(seen),
        lost=len(set(whole) - set(seen)),
        repeated=len(came) - len(set(came)),
        disordered=disordered,
    )
