"""sweyard validate."""

import typer

from sweyard_api.validate import validate_text
from sweyard_cli.commands.options import FileOption
from sweyard_cli.documents import read_text


def validate(file: FileOption) -> None:
    """Say what is wrong in FILE, one sentence a mistake; needs no cluster."""
    problems = validate_text(read_text(file), file=str(file))
    for problem in problems:
        typer.echo(str(problem), err=True)
    if problems:
        raise typer.Exit(2)
    typer.echo(f"{file}: valid; next: kubectl apply -f {file}, or without a cluster: sweyard run -f {file}")
