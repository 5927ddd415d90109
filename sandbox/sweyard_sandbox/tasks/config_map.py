"""A data set as a ConfigMap, mounted in a run's pods at /datasets/NAME."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from sweyard_api.constants import IMAGES_KEY
from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE, compressed

LIMIT_BYTES = 1_000_000
"""A ConfigMap may hold 1 MiB, base64 not counted; some is left for its metadata."""


class DatasetTooLargeError(SweyardError, ValueError):
    """The tasks do not fit into a ConfigMap; the message says how many would."""


def to_config_map(name: str, tasks: Sequence[Task], images: Mapping[str, str]) -> dict[str, Any]:
    """Manifest of the ConfigMap. `images` maps repositories to container images, which take the place of `dir:` trees.

    Raises DatasetTooLargeError, and ValueError for a repository without an image.
    """
    placed = [with_image(task, images) for task in tasks]
    data = compressed(placed)
    if len(data) > LIMIT_BYTES:
        fit = len(placed) * LIMIT_BYTES // len(data)
        raise DatasetTooLargeError(
            f"{len(placed)} tasks take {len(data)} bytes compressed, more than the {LIMIT_BYTES} of a ConfigMap; "
            f"push about {fit} of them, or put the data set on the run's volume"
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {IMAGES_KEY: "".join(f"{image}\n" for image in dict.fromkeys(task.image for task in placed))},
        "binaryData": {TASKS_FILE: base64.b64encode(data).decode()},
    }


def with_image(task: Task, images: Mapping[str, str]) -> Task:
    """The task with a container image in the place of a directory tree."""
    if not task.is_directory:
        return task
    if task.repository not in images:
        raise ValueError(
            f"repository {task.repository!r} has no image: build it, in the checkout by `python -m sweyard_cluster "
            "images tasks DIR`, and name it by --images FILE"
        )
    return task.model_copy(update={"image": images[task.repository]})
