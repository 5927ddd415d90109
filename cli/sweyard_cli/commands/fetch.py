"""sweyard fetch."""

from pathlib import Path
from typing import Annotated

import typer

from sweyard_api.program import call
from sweyard_cli.commands.options import NamespaceOption, check_name
from sweyard_cli.console import make_console
from sweyard_cli.errors import UserError
from sweyard_cli.run_directory import run_directory

RUNS = Path("runs")


def fetch(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A run on the cluster.")],
    namespace: NamespaceOption = None,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where its files are kept. Default: runs/RUN.",
            show_default=False,
            parser=lambda given: run_directory(given, "--to"),
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="PART",
            help="weights (the last, in Hugging Face's format), checkpoints or model, too; repeatable.",
            show_default=False,
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(help="Of the pod that lends the files; any with sh. Default: the trainer's.", show_default=False),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for that pod.")] = 120,
) -> None:
    """Copy a run's figures, attempts and, if asked for, weights from its volume to this machine.

    DIR is then a run's directory as one of this machine is. It is filled beside its place, and takes it when it is
    whole; an interrupted fetch goes on where it stopped, and of a run that goes on another one brings what is new.
    """
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.fetch.fetch import fetch_run
    from sweyard_cli.fetch.parts import Part
    from sweyard_cli.fetch.shown import ShownProgress

    for each in more or ():
        if each not in list(Part):
            raise UserError(f"--with {each}: there is no such part; take one of {', '.join(Part)}")
    output = to or RUNS / check_name("RUN", name)
    connection = connect(namespace)
    try:
        with ShownProgress(make_console()) as told:
            fetch_run(
                connection,
                check_name("RUN", name),
                output,
                told,
                parts=[Part(each) for each in more or ()],
                image=image,
                timeout_seconds=timeout,
            )
    except KeyboardInterrupt:
        raise UserError("interrupted; the same command goes on where it stopped", exit_code=130) from None
    typer.echo(f"{output}: its figures and attempts; `{call('report', output)}` makes a page of them")
