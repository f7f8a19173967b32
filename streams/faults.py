"""What can be wrong with a log or its store, beyond a script's refusal (`streams.scripts.refused`).

StoreError (translator.protocol.errors)
├── StoreAway     Redis cannot be reached, or not within the writer's bound
├── Gone          the response was deleted or has expired, also under a reader
└── LogLost       its state says that there is more than the log still holds: a hole, never to be skipped
"""

from translator.protocol.errors import StoreError


class StoreAway(StoreError):
    """Redis cannot be reached, or did not answer within the bound."""


class Gone(StoreError):
    """No such response any more: deleted or expired."""

    status = 404

    def __init__(self, rid: str) -> None:
        super().__init__(f"response {rid!r} is gone")
        self.rid = rid


class LogLost(StoreError):
    """The output log has a hole where its state says that there are frames."""

    code = "log_lost"

    def __init__(self, rid: str, after: int) -> None:
        super().__init__(f"the output log of {rid!r} has a hole after frame {after}")
        self.rid = rid
        self.after = after
