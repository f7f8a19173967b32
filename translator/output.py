"""The public frames of a response as they are numbered: the only place where a sequence number is given.

In: event types with their fields, and deltas by template. Out: frames, taken by the machine entry by entry. Called by
everything in the core that shows something to the client. No number is ever burnt: a frame that is numbered is kept.
"""

from typing import Any

from translator.protocol.sse import DeltaTemplate, frame


class Output:
    """Numbers frames from 0. `limit` bounds their bytes over the response; set by the machine.

    What passes it is still written: an event has others that must follow it. The machine looks between two entries.
    """

    __slots__ = ("_frames", "bytes", "limit", "sequence")

    def __init__(self) -> None:
        self.sequence = 0  # the next frame's number
        self.bytes = 0  # of all frames so far
        self.limit = 0
        self._frames: list[bytes] = []  # since the last take

    @property
    def full(self) -> bool:
        """Whether the frames are more than the response may hold."""
        return self.bytes > self.limit

    def write(self, event: str, fields: dict[str, Any]) -> None:
        """Write one frame."""
        self._keep(frame(event, {"type": event, "sequence_number": self.sequence, **fields}))

    def write_delta(
        self, template: DeltaTemplate, delta: str, written: bytes | None = None
    ) -> None:
        """Write one delta, the frame that streams are made of; `written` is its text as JSON, where that is at hand."""
        made = template.frame(self.sequence, delta, written)
        # `_keep`, in place: this is done for every token of every response.
        self._frames.append(made)
        self.sequence += 1
        self.bytes += len(made)

    def take(self) -> list[bytes]:
        """The frames since the last call."""
        frames, self._frames = self._frames, []
        return frames

    def _keep(self, written: bytes) -> None:
        self._frames.append(written)
        self.sequence += 1
        self.bytes += len(written)
