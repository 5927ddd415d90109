"""sweyard tasks: the group, and push."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sweyard_cli.commands.options import NamespaceOption, checked_name
from sweyard_cli.console import make_console
from sweyard_cli.documents import read_text
from sweyard_cli.errors import UserError
from sweyard_cli.given_path import given_path
from sweyard_cli.groups import SentenceGroup

app = typer.Typer(cls=SentenceGroup, no_args_is_help=True, help="Data sets: look at them, make, check and push them.")


def push(
    dataset: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a data set, or its file.", parser=given_path)
    ],
    name: Annotated[
        str,
        typer.Option(help="What TrainingRuns call it: tasks.train.dataset.", show_default=False, callback=checked_name),
    ],
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

    known = read_images(images)
    connection = connect(namespace)
    count = push_dataset(connection, name, dataset, known)
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
