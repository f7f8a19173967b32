"""What is logged of an error that ends the work on one response, and no other's.

In: the error, and what of the response it broke. Out: one line. Called by `workers.translate` and `workers.seal`.
"""

import logging

from streams.scripts.refused import Refused
from translator.protocol.errors import RespoolError


def reason_of(error: Exception) -> str:
    """The kind of an error, as a label: a script's reason, else its class."""
    return error.reason if isinstance(error, Refused) else type(error).__name__


def report(log: logging.Logger, level: int, rid: str, what: str, error: Exception) -> None:
    """`what` is how the line goes on after the response's id.

    The text of an error that is not ours may quote what a model said: the formatter decides whether it is shown.
    """
    ours = isinstance(error, RespoolError)
    log.log(
        level,
        "%s %s: %s",
        *(rid, what, error if ours else reason_of(error)),
        exc_info=None if ours else error,
        extra={"response": rid},
    )
