"""The commands that look at responses: ls, show, tail, replay, export, import, diff, why.

In: words of the command line. Out: an exit status: 0 where all is well, 1 where a replay or a diff found a difference, 2
where what was asked for cannot be done, told in one line on standard error. Each takes --json: one line of JSON for each
thing. What a command needs is imported when it runs. Registered by `respool.cli`.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from respool.inspection.screen import Screen
    from respool.settings import Settings

INTERRUPTED = 128 + signal.SIGINT

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one line each.")]
Name = Annotated[
    str, typer.Argument(metavar="ID|FILE", help="A response, or a file of an export (-: stdin).")
]
Work = Callable[["Screen", "Settings"], Coroutine[Any, Any, int]]


def run(work: Work, *, as_json: bool) -> None:
    """Run it with the settings, to its exit status."""
    from respool.inspection.screen import Screen  # noqa: PLC0415
    from respool.settings import load  # noqa: PLC0415

    try:
        status = asyncio.run(work(Screen(as_json=as_json), load()))
    except KeyboardInterrupt:
        status = INTERRUPTED
    raise typer.Exit(status)


def ls(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many.")] = 20,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    status: Annotated[str | None, typer.Option(help="Only those of this status.")] = None,
    as_json: Json = False,
) -> None:
    """List the newest responses."""
    from respool.inspection import listing  # noqa: PLC0415

    run(
        lambda screen, settings: listing.ls(
            screen, settings, limit=limit, tenant=tenant, wanted=status
        ),
        as_json=as_json,
    )


def show(
    name: Name,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing short.")] = False,
    as_json: Json = False,
) -> None:
    """Show a response: request, rounds with their exact upstream bodies, tool calls, items, end."""
    from respool.inspection import showing  # noqa: PLC0415

    run(lambda screen, settings: showing.show(screen, settings, name, full=full), as_json=as_json)


def why(name: Name, as_json: Json = False) -> None:
    """Tell in a paragraph why a response ended, or what it waits for."""
    from respool.inspection import showing  # noqa: PLC0415

    run(lambda screen, settings: showing.why(screen, settings, name), as_json=as_json)


def tail(
    rid: Annotated[str, typer.Argument(metavar="ID", help="A response.")],
    after: Annotated[int, typer.Option(min=-1, help="Begin after this sequence number.")] = -1,
    as_json: Json = False,
) -> None:
    """Follow both logs of a response side by side, until it ends."""
    from respool.inspection import tailing  # noqa: PLC0415

    run(lambda screen, settings: tailing.tail(screen, settings, rid, after=after), as_json=as_json)


def replay(
    name: Name,
    *,
    at: Annotated[
        int | None, typer.Option(min=0, help="Print the state after this sequence number instead.")
    ] = None,
    entry: Annotated[
        int | None, typer.Option(min=1, help="Print the state after this input entry instead.")
    ] = None,
    pace: Annotated[
        bool, typer.Option("--pace", help="Play it in its original timing instead.")
    ] = False,
    speed: Annotated[float, typer.Option(min=0.01, help="With --pace: times as fast.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Fold a response again with the code at hand: identical, or the first difference (status 1)."""
    from respool.inspection import replay as replaying  # noqa: PLC0415

    if at is not None and entry is not None:
        raise typer.BadParameter("--at and --entry are two places: name one")
    look = replaying.Look(at, entry, speed if pace else None)
    run(
        lambda screen, settings: replaying.replay(screen, settings, name, look),
        as_json=as_json,
    )


def export(
    name: Name,
    into: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write this file instead of stdout.")
    ] = None,
    gzip: Annotated[bool, typer.Option("--gzip", "-z", help="Pack it.")] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="Blank what users, models and tools wrote.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a response into one file, without secrets."""
    from respool.inspection import transfer  # noqa: PLC0415

    if as_json and into is None:
        raise typer.BadParameter("needs --output: the file itself goes to standard output")
    run(
        lambda screen, settings: transfer.export(
            screen, settings, name, into=into, gzip=gzip, redact=redact
        ),
        as_json=as_json,
    )


def import_(
    names: Annotated[list[str], typer.Argument(metavar="FILE…", help="Files of exports.")],
    tenant: Annotated[str | None, typer.Option(help="Give them to this tenant.")] = None,
    as_json: Json = False,
) -> None:
    """Put exported responses into the store; it keeps them as long as others that have ended."""
    from respool.inspection import transfer  # noqa: PLC0415

    run(
        lambda screen, settings: transfer.import_(screen, settings, names, tenant=tenant),
        as_json=as_json,
    )


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A response, or a file.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    as_json: Json = False,
) -> None:
    """Show what two responses have differently (status 1), ids and times aside."""
    from respool.inspection import contrast  # noqa: PLC0415

    run(lambda screen, settings: contrast.diff(screen, settings, a, b), as_json=as_json)


def record(
    upstream: Annotated[
        str, typer.Option(help="Base URL of the upstream, such as http://host/v1.")
    ],
    into: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    port: Annotated[int, typer.Option(help="Port to serve; 0 takes any free one.")] = 0,
    as_json: Json = False,
) -> None:
    """Stand in front of an upstream, on this machine, and write down what it sends; until Ctrl-C."""
    from respool.inspection import recorder  # noqa: PLC0415

    run(
        lambda screen, _: recorder.record(screen, upstream, into, port=port),
        as_json=as_json,
    )


def upstream(
    names: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Exports, and files of `respool record`.")
    ],
    pace: Annotated[
        bool, typer.Option("--pace", help="At the original pace; else all at once.")
    ] = False,
    speed: Annotated[float, typer.Option(min=0.01, help="With --pace: times as fast.")] = 1.0,
    port: Annotated[int, typer.Option(help="Port to serve; 0 takes any free one.")] = 0,
    as_json: Json = False,
) -> None:
    """Be an upstream, on this machine, that answers as the files say; until Ctrl-C."""
    from respool.inspection import player  # noqa: PLC0415

    run(
        lambda screen, _: player.upstream(screen, names, speed=speed if pace else None, port=port),
        as_json=as_json,
    )


COMMANDS: dict[str, Callable[..., None]] = {
    "ls": ls,
    "show": show,
    "why": why,
    "tail": tail,
    "replay": replay,
    "export": export,
    "import": import_,
    "diff": diff,
    "record": record,
    "upstream": upstream,
}


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for name, command in COMMANDS.items():
        app.command(name)(command)
