"""The command line: validate, resolve, presets."""

from pathlib import Path
from typing import Annotated

import typer

from sweyard_api.presets import list_presets, load_preset
from sweyard_api.validate import validate_file
from sweyard_cli.console import make_console

app = typer.Typer(no_args_is_help=True, help="Reinforcement learning of software-engineering agents on Kubernetes.")


@app.command()
def validate(file: Annotated[Path, typer.Option("--file", "-f", help="YAML file.")]) -> None:
    """Say what is wrong in FILE, one sentence a mistake; needs no cluster."""
    problems = validate_file(file)
    for problem in problems:
        typer.echo(str(problem), err=True)
    if problems:
        raise typer.Exit(1)
    typer.echo(f"{file}: valid; next: kubectl apply -f {file}")


@app.command()
def presets() -> None:
    """List the named recipes."""
    console = make_console()
    for name in list_presets():
        console.print(f"{name}: {load_preset(name).summary}", markup=False)


def main() -> None:
    """Entry point."""
    app()
