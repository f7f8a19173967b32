"""The public frames of a response as they are numbered: the only place where a sequence number is given.

In: event types with their fields, and deltas by template. Out: frames, taken by the machine entry by entry. Called by
everything in the core that shows something to the client. No number is ever burnt: a frame that is numbered is kept.
"""

from typing import Any

from translator.protocol.errors import LimitPassed
from translator.protocol.sse import DeltaTemplate, frame


class Output:
    """Numbers frames from 0. `limit` bounds their bytes over the response (None: no bound); set by the machine."""

    __slots__ = ("_frames", "bytes", "limit", "sequence")

    def __init__(self) -> None:
        self.sequence = 0  # the next frame's number
        self.bytes = 0  # of all frames so far
        self.limit: int | None = None
        self._frames: list[bytes] = []  # since the last take

    def write(self, event: str, fields: dict[str, Any]) -> None:
        """Write one frame. Raises LimitPassed after the frame that passed the limit."""
        self._keep(frame(event, {"type": event, "sequence_number": self.sequence, **fields}))

    def write_delta(self, template: DeltaTemplate, delta: str) -> None:
        """Write one delta, the frame that streams are made of."""
        self._keep(template.frame(self.sequence, delta))

    def take(self) -> list[bytes]:
        """The frames since the last call."""
        frames, self._frames = self._frames, []
        return frames

    def _keep(self, written: bytes) -> None:
        self._frames.append(written)
        self.sequence += 1
        self.bytes += len(written)
        if self.limit is not None and self.bytes > self.limit:
            raise LimitPassed(f"The response is larger than {self.limit} bytes.")
