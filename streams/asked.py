"""A lease that is asked for with the create of a response, instead of after it.

In: what whoever will do the work wants (`streams.work.Work.ask`). Out: what the create grants, once it is answered. A
process that creates a response and does its work itself so needs one exchange with the store where three would be, and
does not read back what it has just written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """One lease on a response that does not exist yet."""

    token: str
    """Makes a repeat of the create known for one."""
    lease_ms: int
    answer: Callable[[T | None], None]
    """Called once: with what was granted, or with None, where the response was not created or went to somebody else. Must
    not raise and must not block."""
