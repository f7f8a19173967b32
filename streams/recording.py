"""All of one response: what its state says, its input log and its output log.

In: a store that holds it, running or ended, its logs packed or not; or a file (`streams.transcript`). Out: a `Recording`,
and the same response in another store. What a response needs to keep secret lies under a key of its own that nothing here
reads. Called by `respool` (replay, export, import) and by the api (debug page).
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from streams.faults import Gone, LogLost
from streams.logs import Logs, State, results_text
from streams.scripts.outputs import Frame
from streams.scripts.restoring import Restored, restore
from streams.sealed import CHAPTER_BYTES, Packer
from streams.store import Store
from translator.protocol.entries import Entry, RequestEntry
from translator.protocol.errors import LimitPassed, StoreError
from translator.protocol.json import loads

PAGE: Final = 1_000
"""Entries and frames a read: nobody else waits for whoever reads a whole response."""

MAX_PACKED_BYTES: Final = 60 * 2**20
"""What goes into a store in one call; the writer's own bound is a little higher. Logs at their default bound come to a
fifth of it, unless they hold what does not pack."""

OnProgress = Callable[[int, int], None]
"""Told how many entries and frames were read, of how many."""


class StillRuns(StoreError):
    """What has not ended cannot be put into a store: nobody there would bring it to an end."""

    status = 409


@dataclass(frozen=True, slots=True)
class Recording:
    """One response, whole, or as far as it was at one moment. Frames and entries are without holes."""

    rid: str
    state: State
    entries: list[Entry]
    frames: list[Frame]

    @property
    def request(self) -> RequestEntry:
        """The first entry, read."""
        return cast("RequestEntry", loads(self.entries[0].data))


def nothing(done: int, total: int) -> None:
    """Whom no progress interests."""
    del done, total


async def read(logs: Logs, rid: str, on_progress: OnProgress = nothing) -> Recording:
    """A response as it is now: up to where its state says that both logs are. Raises Gone, and LogLost at a hole."""
    state = await logs.state(rid)
    if state is None:
        raise Gone(rid)
    total = state.seq + 1 + state.last
    frames: list[Frame] = []
    while len(frames) <= state.seq:
        page = await logs.read_output(rid, len(frames) - 1, PAGE)
        frames += page.frames[: state.seq + 1 - len(frames)]
        on_progress(len(frames), total)
    entries: list[Entry] = []
    while len(entries) < state.last:
        found = await logs.read_input(rid, len(entries), PAGE)
        if not found or found[-1].n != len(entries) + len(found):
            if await logs.state(rid) is None:
                raise Gone(rid)
            raise LogLost(rid, len(entries), what="entry")
        entries += found[: state.last - len(entries)]
        on_progress(len(frames) + len(entries), total)
    return Recording(rid, state, entries, frames)


async def write(
    store: Store,
    recording: Recording,
    *,
    retain_ms: int,
    tenant: str | None = None,
    on_progress: OnProgress = nothing,
) -> Restored:
    """Put an ended response into a store, under its own id, packed, for `retain_ms`; all of it or nothing.

    `tenant` is whose it is to be there, its old one's if None. Raises StillRuns, LimitPassed; Refused EXISTS where the
    store has another response of that id.
    """
    state = recording.state
    if not state.done:
        raise StillRuns("the response had not ended when it was recorded: it can be replayed only")
    packer = Packer()
    total = len(recording.entries) + len(recording.frames)
    for entries, frames in chapters(recording):
        await asyncio.to_thread(packer.add, entries, frames)
        on_progress(packer.entries + packer.frames, total)
        if packer.packed_bytes > MAX_PACKED_BYTES:
            raise LimitPassed("the response is too large for one call to the store")
    digest = hashlib.blake2b(digest_size=16)
    for frame in recording.frames:
        digest.update(frame.data)
    call = restore(
        store.keys,
        recording.rid,
        value=await asyncio.to_thread(packer.value),
        digest=digest.hexdigest(),
        fields=fields_of(recording, state.tenant if tenant is None else tenant),
        retain_ms=retain_ms,
    )
    return await store.bulk.do(call)


def chapters(recording: Recording) -> list[tuple[Sequence[Entry], Sequence[Frame]]]:
    """Both logs cut into parts of about CHAPTER_BYTES, each with the same share of both."""
    entries, frames = recording.entries, recording.frames
    size = sum(len(entry.data) for entry in entries) + sum(len(frame.data) for frame in frames)
    count = min(max(1, -(-size // CHAPTER_BYTES)), max(1, len(frames)))

    def part(items: Sequence[Any], at: int) -> Sequence[Any]:
        return items[len(items) * at // count : len(items) * (at + 1) // count]

    return [(part(entries, at), part(frames, at)) for at in range(count)]


def fields_of(recording: Recording, tenant: str) -> dict[str, str | bytes | int]:
    """The state hash of an ended response, all fields that `streams.logs` and the scripts read; no lease, no job."""
    state = recording.state
    return {
        "tenant": tenant,
        "status": state.status,
        "created": state.created,
        "ended": state.ended,
        "store": int(state.store),
        "background": int(state.background),
        "deadline": state.deadline,
        "round": state.round,
        "rstate": "ended",
        "attempt": state.attempt,
        "opened": int(state.opened),
        "refusal": state.refusal,
        "in": len(recording.entries),
        "in_bytes": sum(len(entry.data) for entry in recording.entries),
        "cur": state.cursor,
        "seq": len(recording.frames) - 1,
        "out_bytes": sum(len(frame.data) for frame in recording.frames),
        "cancel": int(state.cancelled),
        "results": results_text(state.results),
        "epoch": state.epoch,
        **dict.fromkeys(("ifence", "fence"), ""),
        **dict.fromkeys(("ilease", "lease", "fr", "an", "at", "rn", "rt"), 0),
        **dict.fromkeys(("reader", "jobs"), 0),
    }
