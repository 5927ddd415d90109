"""A data set of this machine as a ConfigMap that a run's tasks come from."""

from collections.abc import Mapping
from pathlib import Path

from sweyard_cli.cluster.apply import apply
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.errors import UserError


def push_dataset(connection: Connection, name: str, dataset: Path, images: Mapping[str, str]) -> int:
    """Apply the ConfigMap `name`; the number of tasks in it. `images` maps repositories to container images.

    Raises UserError for a folder that holds no data set, one too large for a ConfigMap, and a repository without image.
    """
    from sweyard_sandbox.errors import SweyardError
    from sweyard_sandbox.tasks.config_map import to_config_map
    from sweyard_sandbox.tasks.load import load_all_tasks

    try:
        tasks = load_all_tasks(dataset)
        manifest = to_config_map(name, tasks, images)
    except (SweyardError, ValueError) as error:
        raise UserError(f"data set {dataset}: {error}") from error
    apply(connection, manifest)
    return len(tasks)
