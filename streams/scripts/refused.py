"""A script's "no": which rule forbade the call. Nothing was changed.

Scripts answer `REFUSED <REASON>` as an error reply; `of` turns that into the exception. A repeat of a call that was
already carried out is no refusal: its result says `dup`.
"""

from enum import StrEnum

from translator.protocol.errors import StoreError

PREFIX = "REFUSED "


class Reason(StrEnum):
    """Why a script refused."""

    MISSING = "MISSING"
    """No state hash: never created, deleted or expired."""
    FULL = "FULL"
    """As many responses are open as may be."""
    TENANT_FULL = "TENANT_FULL"
    """As many of this tenant are open as may be."""
    EXISTS = "EXISTS"
    """The id is taken by another request."""
    DONE = "DONE"
    """The terminal frame is committed; nothing may follow."""
    LEASED = "LEASED"
    """Somebody else holds it, and is alive as far as the server's clock tells."""
    STALE = "STALE"
    """The round has ended, was lost, or is not the current one."""
    FENCED = "FENCED"
    """The caller's lease went to somebody else (or its attempt is over)."""
    GAP = "GAP"
    """Something that must stand before this is not in the log."""
    CONFLICT = "CONFLICT"
    """The same numbers are in the log with other bytes."""
    TOO_LARGE = "TOO_LARGE"
    """The log's bound in bytes would be passed."""
    CURSOR = "CURSOR"
    """The committed cursor is not the one that the caller started from."""
    SEQ = "SEQ"
    """The first frame is not the one after the last committed one."""
    OPEN = "OPEN"
    """The terminal frame is not committed yet."""
    UNSTORED = "UNSTORED"
    """The response goes with its readers: there is nothing to keep."""
    CHANGED = "CHANGED"
    """The logs do not hold as much as was packed."""
    NOTHING = "NOTHING"
    """No job is to be given: all have a result, a live claim, or ran out and must not run again."""


class Refused(StoreError):
    """A script refused a call; `reason` says which rule."""

    def __init__(self, reason: Reason, rid: str = "") -> None:
        super().__init__(f"refused: {reason} {rid}".rstrip())
        self.reason = reason
        self.rid = rid

    @classmethod
    def of(cls, message: str, rid: str) -> "Refused | None":
        """The refusal that an error reply says, or None where the error is another one."""
        if not message.startswith(PREFIX):
            return None
        return cls(Reason(message[len(PREFIX) :].split(" ", 1)[0]), rid)
