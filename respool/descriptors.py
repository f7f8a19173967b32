"""How many files and sockets this process may have open.

A shell or a service manager often allows 1,024, which is a few hundred streams: each has a socket of its client and one
of its upstream. Where more are allowed for the asking, they are asked for. Called by `respool.serve` at the start.
"""

import logging
import resource

log = logging.getLogger(__name__)

SPARE = 200
"""The store, the log, the listener, files of the machine."""


def provide(sockets: int) -> None:
    """See to it that so many sockets may be open; where they may not, say so and go on."""
    wanted = sockets + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    except (OSError, ValueError):  # macOS allows less than it says
        goal = soft
    if goal < wanted:
        log.warning(
            "this process may have %d files open, and its settings ask for %d: raise the limit "
            "(ulimit -n), or lower RESPOOL_MAX_CONNECTIONS",
            goal,
            wanted,
        )
