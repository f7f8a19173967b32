"""What the demo prints, in order, on a terminal or into a file.

In: the processes and the events as they come. Out: lines on standard output. Used by `respool.demo`.
"""

import time
from hashlib import sha256

from openai.types.responses import ResponseStreamEvent
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from respool import __version__
from respool.demo_client import MODEL, Half
from respool.replica import Replica

STYLES = {"A": "magenta", "B": "green"}
KINDS = {
    "delta": "default",
    "created": "bold",
    "completed": "bold green",
    "failed": "bold red",
    "incomplete": "bold yellow",
}
PREFIX = "response."


class Page:
    """The output."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._began: float | None = None  # the first event starts the clock

    def _time(self) -> Text:
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return Text(f"{now - self._began:6.2f}  ", style="dim")

    def opening(self, upstream: str, first: Replica, second: Replica) -> None:
        """Who is on the stage."""
        table = Table.grid(padding=(0, 2))
        table.add_row("store", "an embedded Valkey with an append-only file; both replicas use it")
        table.add_row("upstream", f"a scripted model that ships with Respool, {upstream}")
        for name, replica, what in (
            ("A", first, "answers clients and owns nothing (--role api)"),
            ("B", second, "has every role: it also holds the connection to the upstream"),
        ):
            whose = Text(f"pid {replica.pid}, {replica.url}", style="bold")
            table.add_row(
                Text(f"replica {name}", style=STYLES[name]), whose + Text(f"\n{what}", style="dim")
            )
        title = f"Respool {__version__}: a stream that survives"
        self._console.print(Panel(table, title=title, title_align="left", padding=(1, 2)))
        self.said("The official openai client asks replica A for a stream.")
        self.said("The model calls a custom tool. Every number below is a sequence_number.\n")
        self.said(f"{'t/s':>6}  from   seq  event (each begins with {PREFIX!r})", "dim")

    def event(self, name: str, event: ResponseStreamEvent) -> None:
        """One event that came from a replica."""
        kind = event.type.removeprefix(PREFIX)
        line = self._time()
        line.append(f"{name:>4} ", style=STYLES[name])
        line.append(f"{event.sequence_number:>5}  ", style="cyan")
        line.append(f"{kind:<31} ", style=KINDS.get(kind.rpartition(".")[2], "dim"))
        line.append(_detail(event))
        self._console.print(line)

    def said(self, text: str, style: str = "default") -> None:
        """A line of the narrator."""
        self._console.print(Text(text, style=style))

    def happened(self, text: str, style: str = "bold yellow") -> None:
        """What was done to the stream, between two events."""
        self._console.print(self._time() + Text(text, style=style))

    def verdict(self, first: Half, second: Half, whole: Half) -> bool:
        """Whether the halves are the whole, shown in numbers."""
        table = Table(box=None, padding=(0, 2), pad_edge=False)
        for heading in ("", "events", "bytes", "sha256"):
            table.add_column(heading, justify="right" if heading in ("events", "bytes") else "left")
        joined = Half(first.raw + second.raw, first.events + second.events, second.last)
        for name, half in (
            (f"from A, before the cut: 0 to {first.last}", first),
            (f"from B, starting_after={first.last}", second),
            ("both, joined", joined),
            ("a full replay from B", whole),
        ):
            digest = sha256(half.raw).hexdigest()[:16]
            table.add_row(name, str(half.events), f"{len(half.raw):,}", digest)
        same = joined.raw == whole.raw
        text = "The two halves join byte for byte." if same else "The halves do NOT make the whole."
        self._console.print()
        self._console.print(table)
        self._console.print(Text(f"\n{text}\n", style="bold green" if same else "bold red"))
        return same

    def what_next(self, replica: Replica, response_id: str, *, once: bool) -> None:
        """What to try, against the replica that is still there."""
        url = f"{replica.url}/v1/responses"
        body = f'{{"model": "{MODEL}", "input": "Say hello.", "stream": true}}'
        for title, command in (
            (
                "A stream of your own:",
                f"curl -N {url} -H 'content-type: application/json' -d '{body}'",
            ),
            (
                "This one again, from the middle:",
                f"curl -N '{url}/{response_id}?stream=true&starting_after=20'",
            ),
            ("What it came to:", f"curl {url}/{response_id}"),
            ("What happened, frame by frame, in a browser:", f"{replica.url}/debug#{response_id}"),
            (
                "In front of your own model:",
                "RESPOOL_UPSTREAM_URL=http://127.0.0.1:8000/v1 respool serve",
            ),
        ):
            self._console.print(Text(title, style="bold"))
            self._console.print(Text(f"  {command}", style="cyan"), soft_wrap=True)
        end = "Replica B stops now." if once else "Replica B serves until Ctrl-C."
        self._console.print(Text(f"\n{end}", style="dim"))


def _detail(event: ResponseStreamEvent) -> str:
    """What is worth seeing of an event, short."""
    delta = getattr(event, "delta", None)
    if isinstance(delta, str):
        return repr(delta)
    item = getattr(event, "item", None)
    if item is not None:
        name = getattr(item, "name", "")
        return " ".join(part for part in (item.type, name, _short(str(item.id))) if part)
    response = getattr(event, "response", None)
    if response is not None:
        return f"{response.id}  {response.status}"
    return ""


def _short(ident: str) -> str:
    """An id's kind and its end, which differs most."""
    return f"{ident.partition('_')[0]}_…{ident[-6:]}"
