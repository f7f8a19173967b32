"""The log: one line an event, on standard error, in which no secret can be read.

In: records of the standard `logging`. Out: `2026-01-31T12:00:00.123Z INFO ingest.run: text`. An
exception is folded into its line: what it was and where it was raised. Set up by `respool.serve`.
"""

import logging
import sys
import time
import traceback
from collections.abc import Iterable

# Shorter ones would blank out half of every line; a key of fewer letters protects nothing anyway.
SHORTEST_SECRET = 6
QUIET = ("asyncio", "aiohttp", "uvicorn.access", "uvicorn.error", "urllib3", "httpx")
SILENT = ("mcp", "httpx2", "httpcore2")
"""Their records quote URLs and what servers said, in which secrets stand; what failed is told in records of ours."""


class OneLine(logging.Formatter):
    """Folds every record into one line, with the given secrets blanked out."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = [secret for secret in secrets if len(secret) >= SHORTEST_SECRET]

    def hide(self, secrets: Iterable[str]) -> None:
        """Blank out these as well, from now on."""
        known = set(self._secrets)
        self._secrets += [
            one for one in secrets if len(one) >= SHORTEST_SECRET and one not in known
        ]

    def format(self, record: logging.LogRecord) -> str:
        """The whole line, without its end."""
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        text = f"{now}.{int(record.msecs):03d}Z {record.levelname} {record.name}: "
        text += record.getMessage()
        if record.exc_info and (error := record.exc_info[1]):
            text += f" | {type(error).__name__}: {error}{_place(error)}"
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return "\\n".join(text.splitlines())


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    return f" (in {last.name}, {last.filename}:{last.lineno})"


def configure(level: str, secrets: Iterable[str] = ()) -> None:
    """Send every logger's records to standard error in that form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(secrets))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    hush()


def hide(secrets: Iterable[str]) -> None:
    """Blank out what became known after the start; what was blanked out before still is."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, OneLine):
            handler.formatter.hide(secrets)


def hush() -> None:
    """Keep the loggers of libraries from saying too much, whatever the level."""
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
