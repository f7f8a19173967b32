"""What one process does."""

from enum import StrEnum


class Role(StrEnum):
    """A part of the gateway that a process can run alone; without any given it runs all of them."""

    API = "api"
    """Answers clients; keeps nothing, so that any replica can resume any stream."""
    INGEST = "ingest"
    """Holds the connections to upstreams."""
    TRANSLATE = "translate"
    """Folds input logs into output logs; also runs the sweeper."""
    TOOLS = "tools"
    """Runs the gateway's own tools; sweeps too where no translate role does."""


ALL = frozenset(Role)
