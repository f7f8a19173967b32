"""Delivery inside one process of what Redis has acknowledged: no channel, no second round trip.

Ingest gives the entries that it appended, the translate worker the frames that it committed; who follows a log in the
same process gets them at once, in order of acknowledgement. A hand-over is a hint like a doorbell: the receiver uses
what continues its own cursor and reads the log for the rest.

`ingesting(rid)` and `translating(rid)` say that this process holds the round or the translate lease: while it does,
followers of that log need no channel, for all that is written comes by here. They are told when that changes.

Where one process holds both leases, ingest asks what frames lead to before it appends them (`Seer`), and one script
writes both: a frame costs one exchange with Redis, not two.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from streams.scripts.rounds import AppendResult, Outcome
from translator.protocol.entries import Entry
from translator.protocol.errors import RespoolError

F = TypeVar("F")


class InputFollower(Protocol):
    """Follows an input log: the translate worker, and `Hub.opened`. Methods must not raise and must not block."""

    def entries_appended(self, entries: Sequence[Entry]) -> None:
        """Entries that are in the log now, with contiguous numbers."""

    def upstream_opened(self) -> None:
        """The upstream has accepted the round that this process runs; the entry that says so is on its way into the log."""

    def ingesting_changed(self) -> None:
        """`ingesting(rid)` is another than before."""


class OutputFollower(Protocol):
    """Follows an output log: the hub's feeds. Methods must not raise and must not block."""

    def frames_committed(self, first_seq: int, frames: Sequence[bytes], terminal: bool) -> None:
        """Frames that are in the log now; with `terminal` the last of them is the last of all."""

    def translating_changed(self) -> None:
        """`translating(rid)` is another than before."""


class Seer(Protocol):
    """Knows what entries lead to: the translate worker. Methods must not raise and must not block."""

    def settles(self, then: Callable[[], None]) -> bool:
        """Whether it is to be asked later: a commit is under way, at whose return, whatever it says, `then` is called."""
        ...

    def foresee(self, frames: Sequence[tuple[str, bytes]]) -> Outcome | None:
        """What these frames bring as the log's next entries; None: nothing that could go with them."""
        ...

    def foreseen(self, reply: AppendResult | RespoolError) -> bool:
        """How the append went; it follows every `foresee`.

        Whether the seer has these entries: if not, they are to be handed over like any others.
        """


class Handover:
    """One per process."""

    def __init__(self) -> None:
        self._inputs: dict[str, tuple[InputFollower, ...]] = {}
        self._outputs: dict[str, tuple[OutputFollower, ...]] = {}
        self._ingesting: set[str] = set()
        self._translating: dict[str, Seer | None] = {}

    def publish_input(self, rid: str, entries: Sequence[Entry]) -> None:
        """Ingest (or api, for a cancel) hands over entries that Redis has acknowledged."""
        for follower in self._inputs.get(rid, ()):
            follower.entries_appended(entries)

    def publish_opened(self, rid: str) -> None:
        """Ingest tells that the upstream has accepted, as soon as it knows.

        Nothing rests upon it but the HTTP status of a client that waits in this process: whatever happens to the entry,
        the stream says how the response goes on.
        """
        for follower in self._inputs.get(rid, ()):
            follower.upstream_opened()

    def publish_output(
        self, rid: str, first_seq: int, frames: Sequence[bytes], terminal: bool
    ) -> None:
        """The translate worker hands over frames that Redis has acknowledged."""
        for follower in self._outputs.get(rid, ()):
            follower.frames_committed(first_seq, frames, terminal)

    def subscribe_input(self, rid: str, follower: InputFollower) -> None:
        """Follow an input log, until `unsubscribe_input`."""
        self._inputs[rid] = (*self._inputs.get(rid, ()), follower)

    def unsubscribe_input(self, rid: str, follower: InputFollower) -> None:
        """Follow it no longer; harmless where one does not."""
        _remove(self._inputs, rid, follower)

    def subscribe_output(self, rid: str, follower: OutputFollower) -> None:
        """Follow an output log, until `unsubscribe_output`."""
        self._outputs[rid] = (*self._outputs.get(rid, ()), follower)

    def unsubscribe_output(self, rid: str, follower: OutputFollower) -> None:
        """Follow it no longer; harmless where one does not."""
        _remove(self._outputs, rid, follower)

    def ingesting(self, rid: str) -> bool:
        """Whether this process runs the response's round."""
        return rid in self._ingesting

    def translating(self, rid: str) -> bool:
        """Whether this process holds the response's translate lease."""
        return rid in self._translating

    def seer(self, rid: str) -> Seer | None:
        """Whom ingest asks what frames lead to: the holder of the response's translate lease, if it is in this process."""
        return self._translating.get(rid)

    def begin_ingesting(self, rid: str) -> None:
        """Ingest has taken up a round; it calls `end_ingesting` on every way out."""
        self._ingesting.add(rid)
        self._tell_inputs(rid)

    def end_ingesting(self, rid: str) -> None:
        """The round is over, or lost to another process."""
        self._ingesting.discard(rid)
        self._tell_inputs(rid)

    def begin_translating(self, rid: str, seer: Seer | None = None) -> None:
        """The translate worker has taken up a response; it calls `end_translating` on every way out.

        Without a seer every append is followed by a commit of its own.
        """
        self._translating[rid] = seer
        self._tell_outputs(rid)

    def end_translating(self, rid: str) -> None:
        """The response is finished, or the lease was released or lost."""
        self._translating.pop(rid, None)
        self._tell_outputs(rid)

    def _tell_inputs(self, rid: str) -> None:
        for follower in self._inputs.get(rid, ()):
            follower.ingesting_changed()

    def _tell_outputs(self, rid: str) -> None:
        for follower in self._outputs.get(rid, ()):
            follower.translating_changed()


def _remove(followers: dict[str, tuple[F, ...]], rid: str, follower: F) -> None:
    """Tuples are replaced, never changed, so that a follower may leave while it is being told."""
    rest = tuple(other for other in followers.get(rid, ()) if other is not follower)
    if rest:
        followers[rid] = rest
    else:
        followers.pop(rid, None)
