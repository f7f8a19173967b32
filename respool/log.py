"""The log: one line an event, on standard error, in which no secret can be read and nothing that a client or a model said.

In: records of the standard `logging`, with what they are about as extra fields (FIELDS). Out, as the settings say: text,
`2026-01-31T12:00:00.123Z INFO ingest.run: text response=resp_… round=1`, or the same as one JSON object. An exception
is folded into its line: what it was and where it was raised. Its own text is only shown where it is one of ours or the
system's, for it may quote a body; with the level DEBUG it always is. Set up by `respool.serve`.
"""

import json
import logging
import sys
import time
import traceback
from collections.abc import Iterable
from typing import Any, Final, Literal

from translator.protocol.errors import RespoolError

# Shorter ones would blank out half of every line; a key of fewer letters protects nothing anyway.
SHORTEST_SECRET = 6
QUIET = (
    "asyncio",
    "aiohttp",
    "uvicorn.access",
    "uvicorn.error",
    "urllib3",
    "httpx",
    "opentelemetry",
)
SILENT = ("mcp", "httpx2", "httpcore2")
"""Their records quote URLs and what servers said, in which secrets stand; what failed is told in records of ours."""

FIELDS: Final = (
    *("request", "response", "round", "attempt", "tool", "how", "frames"),
    *("method", "path", "status", "ms"),
)
"""What a record may say of itself besides its text: `extra=` with one of these names."""

LONG: Final = ("request", "response")
"""Those that a line of text shows, unless its sentence has them already."""
IDS: Final = (*LONG, "round", "attempt")
"""Those that a line of text shows; the others are part of the sentence."""

Form = Literal["text", "json"]


class _Form(logging.Formatter):
    """What both forms share."""

    def __init__(self, secrets: Iterable[str] = (), *, debug: bool = False) -> None:
        super().__init__()
        self._secrets = [secret for secret in secrets if len(secret) >= SHORTEST_SECRET]
        self._debug = debug

    def hide(self, secrets: Iterable[str]) -> None:
        """Blank out these as well, from now on."""
        known = set(self._secrets)
        self._secrets += [
            one for one in secrets if len(one) >= SHORTEST_SECRET and one not in known
        ]

    def message(self, record: logging.LogRecord) -> str:
        """The sentence. The event loop's own reports go on with the text of the exception, line by line."""
        text = record.getMessage()
        if record.name == "asyncio" and not self._debug:
            text = text.partition("\n")[0]
        return self.clean(text)

    def clean(self, text: str) -> str:
        """A text without secrets and line ends."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return "\\n".join(text.splitlines())

    def error(self, record: logging.LogRecord) -> str:
        """What was raised, or nothing."""
        error = record.exc_info[1] if record.exc_info else None
        return self.clean(described(error, debug=self._debug)) if error else ""


class OneLine(_Form):
    """Folds every record into one line of text."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole line, without its end."""
        text = self.message(record)
        said = "".join(
            f" {name}={self.clean(str(value))}"
            for name, value in fields(record).items()
            if name in IDS and not (name in LONG and str(value) in text)
        )
        error = self.error(record)
        line = f"{moment(record)} {record.levelname} {record.name}: {text}{said}"
        if error:
            line += f" | {error}{_place(record)}"
        return line


class JsonLine(_Form):
    """Writes every record as one JSON object."""

    def __init__(
        self, secrets: Iterable[str] = (), *, debug: bool = False, roles: Iterable[str] = ()
    ) -> None:
        super().__init__(secrets, debug=debug)
        self._roles = sorted(roles)

    def format(self, record: logging.LogRecord) -> str:
        """The whole object, without a line end."""
        line: dict[str, Any] = {
            "time": moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.message(record),
            "roles": self._roles,
        }
        for name, value in fields(record).items():
            line[name] = self.clean(value) if isinstance(value, str) else value
        if error := self.error(record):
            line["error"], line["place"] = error, _place(record).strip(" ()")
        return json.dumps(line, ensure_ascii=False)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the record says of itself besides its text."""
    given = {name: getattr(record, name, None) for name in FIELDS}
    return {name: value for name, value in given.items() if value is not None}


def moment(record: logging.LogRecord) -> str:
    """When it was made, in UTC."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{now}.{int(record.msecs):03d}Z"


def described(error: BaseException, *, debug: bool) -> str:
    """An exception's kind, and its text where that is known to quote nobody."""
    kind = type(error).__name__
    if debug or isinstance(error, RespoolError):
        return f"{kind}: {error}"
    if isinstance(error, OSError) and error.strerror:
        return f"{kind}: {error.strerror}"
    return kind


def _place(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    frames = traceback.extract_tb(error.__traceback__) if error else None
    if not frames:
        return ""
    last = frames[-1]
    return f" (in {last.name}, {last.filename}:{last.lineno})"


def configure(
    level: str, secrets: Iterable[str] = (), *, form: Form = "text", roles: Iterable[str] = ()
) -> None:
    """Send every logger's records to standard error in that form."""
    handler = logging.StreamHandler(sys.stderr)
    debug = level == "DEBUG"
    handler.setFormatter(
        JsonLine(secrets, debug=debug, roles=roles)
        if form == "json"
        else OneLine(secrets, debug=debug)
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    hush()


def hide(secrets: Iterable[str]) -> None:
    """Blank out what became known after the start; what was blanked out before still is."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Form):
            handler.formatter.hide(secrets)


def hush() -> None:
    """Keep the loggers of libraries from saying too much, whatever the level."""
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
