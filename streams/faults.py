"""What can be wrong with a log or its store, beyond a script's refusal (`streams.scripts.refused`).

StoreError (translator.protocol.errors)
├── StoreAway     Redis cannot be reached, or not within the writer's bound
│   └── StoreLocked   it does not take our user or password
├── StoreFull     Redis has reached its maxmemory: nothing that grows is taken
├── Gone          the response was deleted or has expired, also under a reader
└── LogLost       its state says that there is more than the log still holds: a hole, never to be skipped
    └── SealDamaged   the packed logs are not what was packed
"""

from translator.protocol.errors import StoreError


class StoreAway(StoreError):
    """Redis cannot be reached, or did not answer within the bound."""


class StoreLocked(StoreAway):
    """Redis does not take our user or password: at the start a fault of the settings, later perhaps a change of them."""


class StoreFull(StoreError):
    """The server has no memory left for us."""

    code = "store_full"


class Gone(StoreError):
    """No such response any more: deleted or expired."""

    status = 404

    def __init__(self, rid: str) -> None:
        super().__init__(f"response {rid!r} is gone")
        self.rid = rid


class LogLost(StoreError):
    """A log has a hole where its state says that there are frames, or entries."""

    code = "log_lost"

    def __init__(self, rid: str, after: int, *, what: str = "frame") -> None:
        super().__init__(f"a log of {rid!r} has a hole after {what} {after}")
        self.rid = rid
        self.after = after


class SealDamaged(LogLost):
    """The packed logs cannot be read: bytes are missing or others than were packed, or their version is unknown."""

    def __init__(self, what: str) -> None:
        StoreError.__init__(self, f"the packed logs are damaged: {what}")
