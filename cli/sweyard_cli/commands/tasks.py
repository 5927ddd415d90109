"""sweyard tasks: make, check and push data sets."""

import json
import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from sweyard_api.program import program
from sweyard_cli.commands.options import NamespaceOption
from sweyard_cli.console import make_console
from sweyard_cli.documents import read_text
from sweyard_cli.errors import UserError, interrupted_making
from sweyard_cli.groups import FlagCommand, SentenceGroup

app = typer.Typer(cls=SentenceGroup, no_args_is_help=True, help="Data sets of bug-repair tasks: make, check and push.")

MAKE_EXAMPLE = "Example: sweyard tasks make --name mine --repo ~/src/mine --train 40 --heldout 10"


@app.command(
    cls=FlagCommand,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def make(context: typer.Context) -> None:
    """Make a data set from Python packages or your own repository; --help lists the options."""
    from sweyard_sandbox.tasks.command import parser, run
    from sweyard_sandbox.tasks.source import SourceError

    parsing = parser(os.environ)
    parsing.epilog = MAKE_EXAMPLE
    try:
        run(parsing.parse_args(context.args))
    except SourceError as error:
        raise UserError(str(error)) from error
    except KeyboardInterrupt as interrupt:
        raise interrupted_making(f"{program()} tasks make {shlex.join(context.args)}") from interrupt


@app.command(
    cls=FlagCommand,
    epilog="Example: sweyard tasks push ~/.cache/sweyard/datasets/tiny --name tiny --images images.json",
)
def push(
    dataset: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a data set, or its file.")],
    name: Annotated[str, typer.Option(help="What TrainingRuns call it: tasks.train.dataset.", show_default=False)],
    namespace: NamespaceOption = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON: repository to container image, for tasks made here.", show_default=False
        ),
    ] = None,
) -> None:
    """Put a data set on the cluster, as the ConfigMap that runs mount."""
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.dataset import push_dataset

    connection = connect(namespace)
    count = push_dataset(connection, name, dataset, read_images(images))
    make_console().print(f"{count} tasks in ConfigMap {connection.namespace}/{name}", markup=False)


def read_images(file: Path | None) -> dict[str, str]:
    """Repository to image. Raises UserError."""
    if file is None:
        return {}
    try:
        images = json.loads(read_text(file))
    except ValueError as error:
        raise UserError(f"{file}: is no JSON: {error}") from error
    if not isinstance(images, dict) or not all(isinstance(image, str) for image in images.values()):
        raise UserError(f'{file}: must map repositories to images, as in {{"cachetools": "registry/cachetools:1"}}')
    return images
