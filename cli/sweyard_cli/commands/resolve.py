"""sweyard resolve."""

import typer

from sweyard_api.resolve import dump_config
from sweyard_api.resolve import resolve as resolve_spec
from sweyard_cli.commands.options import FileOption
from sweyard_cli.documents import read_run


def resolve(file: FileOption) -> None:
    """Print the whole config of the TrainingRun in FILE: preset, explicit fields and defaults merged into one."""
    typer.echo(dump_config(resolve_spec(read_run(file)["spec"])), nl=False)
