"""What the commands that look at responses print: for people, and with --json for programs.

In: rows, texts and plain values. Out: standard output; a bar on standard error while something takes long. On a terminal
tables are cut to its width; into a pipe or a file every line is whole, with columns of blanks and no colours.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streams.recording import OnProgress
from translator.protocol.json import dumps

BAR_AFTER_S: Final = 1.0
"""What is over by then needs no bar."""

PIPE_WIDTH: Final = 1_000_000
"""Wider than any line: what is piped is never wrapped."""

STYLES: Final = {
    "completed": "green",
    "failed": "red",
    "incomplete": "yellow",
    "cancelled": "yellow",
    "in_progress": "cyan",
    "queued": "cyan",
}


class Screen:
    """Standard output. With `as_json` only `data` prints, and one line of JSON a call."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._out = Console(
            highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH
        )

    @property
    def width(self) -> int | None:
        """The terminal's width; None where nothing is cut."""
        return self._out.width if self._out.is_terminal else None

    def data(self, value: Any) -> None:
        """A value for programs: one line."""
        if self.as_json:
            self.line(dumps(value).decode())

    def say(self, what: RenderableType = "") -> None:
        """Anything that rich can show, for people; blanks at the ends of lines are left out."""
        if self.as_json:
            return
        if self._out.is_terminal:
            self._out.print(what)
            return
        with self._out.capture() as captured:
            self._out.print(what)
        for line in captured.get().splitlines():
            self.line(line.rstrip())

    def line(self, text: str) -> None:
        """A line as it is."""
        sys.stdout.write(f"{text}\n")

    def flush(self) -> None:
        """Show it now: something takes its time."""
        sys.stdout.flush()


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """A table of plain columns, those of `right` with numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    return made


def status(word: str) -> Text:
    """A status in its colour."""
    return Text(word, STYLES.get(word, ""))


@contextmanager
def bar(what: str) -> Iterator[OnProgress]:
    """A bar on standard error, once this takes more than a second and if that is a terminal.

    It moves as it is told, and to and fro where nobody tells.
    """
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = progress.add_task(what, total=None)
    # By a clock of its own: what takes long may be one call that tells nothing.
    clock = threading.Timer(BAR_AFTER_S, progress.start)
    clock.daemon = True
    if console.is_terminal:
        clock.start()
    try:
        yield lambda done, total: progress.update(task, completed=done, total=total)
    finally:
        clock.cancel()
        if console.is_terminal:
            clock.join()
        if progress.live.is_started:
            progress.stop()


def moment(ms: int) -> str:
    """A time of the log, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(ms: float) -> str:
    """A duration."""
    if ms < 10_000:
        return f"{ms / 1000:.3f} s"
    if ms < 600_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms / 60_000:.0f} min"


def size(count: int) -> str:
    """Bytes."""
    if count < 10_000:
        return f"{count:,} B"
    if count < 10_000_000:
        return f"{count / 1000:,.0f} kB"
    return f"{count / 1_000_000:,.0f} MB"


def short(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def count(number: int, what: str) -> str:
    """`1 frame`, `2 frames`, `2 entries`."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what[:-1]}ies" if what.endswith("y") else f"{number:,} {what}s"
