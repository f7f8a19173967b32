"""What one create may hold, and where it is worked on.

In: items and sizes. Out: a refusal, or whether the work on them belongs beside the event loop. Everything of a request
is held several times over while it is checked and written (as values, as the `request` entry, as the body of round 1),
so each of these has a bound, and what is large is never worked on where other clients wait. Called by `api.create`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from translator.ids import response_of_item
from translator.protocol.errors import RequestError, TooLarge
from translator.protocol.json import Json
from translator.protocol.request import MAX_INPUT_ITEMS

T = TypeVar("T")

MAX_CREATE_BYTES: Final = 60 << 20
"""The entry and the body of round 1 together: one call to the store, which takes 64 MiB (`streams.writer`)."""

ANSWER_SHARE: Final = 16
"""The part of an input log that a create leaves to what the upstream answers: one sixteenth, by default 4 MiB."""

COPIES: Final = 2
"""Times that the input is written in one create: in the entry and in the body."""

MAX_VALUES: Final = 300_000
"""Members and elements of a body's JSON. Whoever reads JSON lets nobody else work meanwhile, in a thread too: some 30 ms for
so many, seconds for as many as 24 MiB hold. 10,000 items of several parts each have half as many."""

SLICE_BYTES: Final = 256 << 10
"""What is looked at in one go: a few ms, when all of it is quotes."""

ASIDE_BYTES: Final = 256 << 10
"""A request of this size takes some ms of the event loop; a larger one is parsed, checked and written in a thread."""

ASIDE_ITEMS: Final = 500
"""Earlier items, for the same reason."""

ASIDE_AT_ONCE: Final = 2
"""Threads for that. They share one interpreter with the event loop: more would only delay it, and hold more memory."""


class Aside:
    """Work that must not hold up the event loop."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(ASIDE_AT_ONCE)

    async def run(self, work: Callable[[], T], *, large: bool) -> T:
        """The work's result; where it is large, from a thread. A cancelled waiter waits for its thread all the same."""
        if not large:
            return work()
        return await run_sync(work, limiter=self._limiter)


def room(max_response_bytes: int) -> int:
    """What one create may hold. It is the beginning of the input log, which has its own bound and takes the answer."""
    return min(MAX_CREATE_BYTES, max_response_bytes - max_response_bytes // ANSWER_SHARE)


def refuse_crowded(raw: bytes) -> None:
    """Raise RequestError for a body with more than MAX_VALUES values, before it is read. `raw` need not be JSON."""
    if values(raw, MAX_VALUES) > MAX_VALUES:
        raise RequestError(f"The request body has more than {MAX_VALUES} values.")


def values(raw: bytes, enough: int) -> int:
    """Commas and opening brackets outside of strings, about one a value. It stops past `enough`."""
    found, at, inside = 0, 0, False
    while at < len(raw) and found <= enough:
        piece = raw[at : at + SLICE_BYTES]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # an escape stays whole
            piece = raw[at : at + SLICE_BYTES + 1]
        at += len(piece)
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b" ".join(parts[inside::2])
        found += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        inside ^= len(parts) % 2 == 0
    return found


def refuse_many(items: Sequence[Any], earlier: Sequence[Any]) -> None:
    """Raise RequestError where the turns before a request make it too long."""
    if len(items) + len(earlier) > MAX_INPUT_ITEMS:
        raise RequestError(
            f"The input and the turns before it have more than {MAX_INPUT_ITEMS} items together.",
            param="previous_response_id" if earlier else "input",
        )


def refuse_twins(items: Iterable[dict[str, Any]], earlier: Iterable[dict[str, Any]]) -> None:
    """Raise RequestError for an id that comes twice, as OpenAI does: a list of items is paged through by their ids.

    An item that we made comes twice, too, where a client sends what the chain of its `previous_response_id` has.
    """
    seen = set()
    chain = {one for item in earlier if (one := item.get("id")) and response_of_item(one)}
    for index, item in enumerate(items):
        one = item.get("id")
        again = one in chain and item.get("type") != "item_reference"
        if one and (one in seen or again):
            where = "the input" if one in seen else "the chain of 'previous_response_id'"
            raise RequestError(
                f"Duplicate item: another item of {where} has the same id. Remove one of the two.",
                param=f"input[{index}].id",
            )
        seen.add(one)


def refuse_heavy(items: Iterable[Json], earlier: Iterable[Json], room_bytes: int) -> None:
    """Raise TooLarge before anything is written of what could not be stored."""
    if heavier([*items, *earlier], room_bytes // COPIES):
        raise too_large()


def heavier(value: Json, bound: int) -> bool:
    """Whether a value has more than so many characters of text: a lower bound of its JSON, without writing it."""
    size, rest = 0, [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            size += len(one)
            if size > bound:
                return True
        elif isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
    return False


def too_large() -> TooLarge:
    """The refusal of what can be read but not stored."""
    return TooLarge("The request and the turns before it are too large together.")
