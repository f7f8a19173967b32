"""`respool serve` with one technique switched off: what a technique brings is the difference to the same run with it.

In: `python -m benchmarks.without TECHNIQUE serve …`; started for the subjects `without-TECHNIQUE` (`benchmarks.subjects`).
Out: the process that `respool serve` would be, made slower in one place before it begins. Frames stay the same bytes.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import respool.serve
import streams.writer
import translator.lifecycle
import workers.fold
from respool.cli import main
from streams.handover import Handover
from translator.machine import Machine
from translator.protocol.sse import DeltaTemplate, frame
from workers.translate import Translation

DEFAULT_YOUNG: Final = 700
"""Objects that Python's collector lets pass before it looks, where nobody says otherwise."""


class Written(DeltaTemplate):
    """Every delta's frame written as the event that it is."""

    __slots__ = ("_after", "_before", "_type")

    def __init__(self, event_type: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        super().__init__(event_type, before, after)
        self._type, self._before, self._after = event_type, before, after

    def frame(self, sequence_number: int, delta: str, written: bytes | None = None) -> bytes:
        """See DeltaTemplate."""
        del written
        numbered = {"type": self._type, "sequence_number": sequence_number}
        return frame(self._type, {**numbered, **self._before, "delta": delta, **self._after})


def foresight() -> None:
    """Frames are folded once they are in the log of inputs, and committed by a script of their own."""
    _set(Translation, foresee=lambda *_: None, settles=lambda *_: False)


def settling() -> None:
    """Frames that come while a commit is under way are appended beside it."""
    _set(Translation, settles=lambda *_: False)


def handover() -> None:
    """Nobody hears inside the process what it has written itself: bells ring, and logs are read."""
    _set(Handover, **dict.fromkeys(("publish_input", "publish_output", "publish_opened"), _nothing))
    _set(Handover, ingesting=lambda *_: False, translating=lambda *_: False, seer=_nothing)


def runs() -> None:
    """Every block of an upstream is read as a whole."""
    _set(Machine, _begin_run=_nothing)


def bursts() -> None:
    """Blocks of a run are folded one by one."""
    _set(workers.fold, AT_ONCE=1)


def templates() -> None:
    """No part of a delta's frame is written ahead."""
    _set(translator.lifecycle, DeltaTemplate=Written)


def grouping() -> None:
    """A pipeline to the store carries one call."""
    _set(streams.writer, MAX_PIPELINE_CALLS=1)


def depth() -> None:
    """While the store works on a pipeline, nothing else is sent to it."""
    _set(streams.writer, DEPTH=1)


def freezing() -> None:
    """The cyclic collector looks at everything, as often as it does by default."""
    _set(respool.serve, YOUNG_OBJECTS=DEFAULT_YOUNG)
    _set(gc, freeze=_nothing)


def uvloop() -> None:
    """The event loop is asyncio's own."""
    _set(respool.serve, uvloop=SimpleNamespace(new_event_loop=asyncio.new_event_loop))


TECHNIQUES: Final[dict[str, Callable[[], None]]] = {
    one.__name__: one
    for one in (
        *(foresight, settling, handover, runs, bursts, templates, grouping, depth, freezing),
        uvloop,
    )
}


def _set(where: object, **names: object) -> None:
    """Put something in the place of what is there. Raises AttributeError where nothing of that name is."""
    for name, value in names.items():
        getattr(where, name)
        setattr(where, name, value)


def _nothing(*_: object) -> None:
    """What is switched off does nothing."""


if __name__ == "__main__":
    TECHNIQUES[sys.argv.pop(1)]()
    main()
