"""sweyard attach."""

import sys
from typing import Annotated

import typer

from sweyard_cli.commands.options import NamespaceOption, checked_name
from sweyard_cli.errors import UserError


def attach(
    sandbox: Annotated[
        str,
        typer.Argument(
            metavar="SANDBOX", help="Pod of a sandbox that is held.", show_default=False, callback=checked_name
        ),
    ],
    namespace: NamespaceOption = None,
) -> None:
    """Open a shell in a sandbox beside the agent that works in it. What you change there, it sees."""
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.held import find_held
    from sweyard_cli.cluster.terminal import run_shell

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(f"a shell needs a terminal; for one command use `kubectl exec {sandbox} -c sandbox -- COMMAND`")
    connection = connect(namespace)
    typer.echo(f"{sandbox} is held by {find_held(connection, sandbox)}", err=True)
    raise typer.Exit(run_shell(connection, sandbox))
