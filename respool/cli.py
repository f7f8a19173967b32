"""The `respool` command.

In: the command line; settings from `respool.settings`. Out: an exit status: 0 for a good end, 1 for
a problem found while running, 2 for a command or setting that cannot be used, told in one line.
What a command needs is imported when it runs: `respool --version` needs no Redis client.
"""

import sys
from typing import Annotated

import typer

from respool import __version__
from respool.inspection import commands
from respool.roles import ALL, Role
from respool.unusable import Unusable

UNUSABLE = 2

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="An OpenAI-compatible Responses gateway on two append-only logs in Redis.",
    epilog="Settings: RESPOOL_... in the environment, or respool.toml in the working folder.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"respool {__version__}")
        raise typer.Exit


@app.callback()
def respool(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it, end.")
    ] = False,
) -> None:
    """What comes before the command."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to serve.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to serve; 0 takes any free one.")] = None,
    role: Annotated[
        list[Role] | None, typer.Option(help="Run only this role; repeatable. Default: all.")
    ] = None,
) -> None:
    """Run the gateway: all of it, or the given roles."""
    from respool.serve import run  # noqa: PLC0415 - only this command needs the server
    from respool.settings import load  # noqa: PLC0415

    raise typer.Exit(run(load(host=host, port=port), frozenset(role or ALL)))


@app.command()
def doctor() -> None:
    """Look at the store and the upstreams; one line each. Status 1 if something is wrong."""
    from respool.doctor import run  # noqa: PLC0415
    from respool.settings import load  # noqa: PLC0415

    raise typer.Exit(run(load()))


@app.command()
def tools() -> None:
    """List the tools that the gateway can run, and why one is off."""
    from respool.crew import tool_settings  # noqa: PLC0415 - only this command needs them
    from respool.settings import load  # noqa: PLC0415
    from workers.tools.registry import Registry  # noqa: PLC0415

    for offer in Registry(tool_settings(load())).offers():
        typer.echo(f"{'on ' if offer.on else 'off'}  {offer.tool:<12}{offer.note}")


@app.command()
def demo(
    once: Annotated[
        bool, typer.Option("--once", envvar="DEMO_ONCE", help="End when it is over.")
    ] = False,
) -> None:
    """Show a stream that survives kill -9, with a scripted upstream; then keep serving."""
    from respool.demo import run  # noqa: PLC0415

    raise typer.Exit(run(once=once))


commands.register(app)


def main() -> None:
    """The console script."""
    try:
        app()
    except Unusable as error:
        sys.stderr.write(f"respool: {error}\n")
        sys.exit(UNUSABLE)
