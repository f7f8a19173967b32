"""What this process is and costs, as figures: version and roles, processor time, memory, open files.

In: the roles. Out: figures in `streams.metrics`, read from the system when they are asked for; what a system does not
tell (there is no /proc) is left out. Called once by `respool.serve`.
"""

import os
import resource
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from respool import __version__
from streams import metrics

SELF: Final = Path("/proc/self")


def show(roles: Collection[str]) -> None:
    """Have them rendered with the others."""
    metrics.gauge("build_info", lambda: 1, version=__version__, roles=",".join(sorted(roles)))
    metrics.counter("process_cpu_seconds_total", time.process_time)
    metrics.gauge("process_resident_memory_bytes", resident_bytes)
    metrics.gauge("process_open_fds", open_files)
    metrics.gauge("process_max_fds", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def resident_bytes() -> float | None:
    """Memory of this process that is not elsewhere."""
    try:
        pages = int((SELF / "statm").read_text().split()[1])
    except OSError:
        return None
    return pages * resource.getpagesize()


def open_files() -> float | None:
    """Files and sockets; each stream is one, each round another."""
    try:
        return len(os.listdir(SELF / "fd"))  # noqa: PTH208 - a name for each is all that is wanted
    except OSError:
        return None
