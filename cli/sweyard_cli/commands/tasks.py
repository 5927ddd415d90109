"""sweyard tasks: the group, and push."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from sweyard_api.cache_root import dataset_directories
from sweyard_cli.commands.options import NamespaceOption, check_name, checked_name
from sweyard_cli.console import make_console
from sweyard_cli.documents import read_text
from sweyard_cli.errors import UserError
from sweyard_cli.given_path import given_path
from sweyard_cli.groups import SentenceGroup

app = typer.Typer(cls=SentenceGroup, no_args_is_help=True, help="Data sets: look at them, make, check and push them.")


def push(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="Plain name of a data set of this machine, its folder or file.")
    ],
    name: Annotated[
        str | None,
        typer.Option(
            help="What TrainingRuns call it, tasks.train.dataset; default: the data set's own name.",
            show_default=False,
            callback=checked_name,
        ),
    ] = None,
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
    path = find_given(dataset)
    name = name or check_name("DATASET, and so its --name,", own_name(path))
    connection = connect(namespace)
    count = push_dataset(connection, name, path, known)
    make_console().print(f"{count} tasks in ConfigMap {connection.namespace}/{name}", markup=False)


def find_given(dataset: str) -> Path:
    """The folder or file of a data set, which may be given by its plain name, as runs have it. Raises UserError."""
    from sweyard_sandbox.errors import SweyardError
    from sweyard_sandbox.tasks.load import find_dataset

    path = given_path(dataset)
    if path.exists():
        return path
    try:
        return find_dataset(dataset, dataset_directories(os.environ)) or path
    except SweyardError as error:
        raise UserError(str(error)) from error


def own_name(path: Path) -> str:
    """What a data set is called that lies there."""
    from sweyard_sandbox.tasks.tasks_file import TASKS_FILE

    whole = path.resolve()
    return whole.parent.name if whole.name == TASKS_FILE else whole.name.partition(".")[0]


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
