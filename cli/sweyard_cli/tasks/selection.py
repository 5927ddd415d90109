"""The tasks that a command is about."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sweyard_api.cache_root import dataset_directories
from sweyard_api.workload import TaskSource
from sweyard_cli.errors import UserError

if TYPE_CHECKING:
    from sweyard_sandbox.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Chosen:
    """Tasks, and the rows that are none."""

    tasks: "list[Task]"
    left_out: list[str]
    """One reason a row."""


def choose(*, practice: bool = False, **fields: object) -> Chosen:
    """As a run with a task source of these `fields` would (None: not given). Raises UserError.

    `practice` adds the tasks that nothing can grade.
    """
    from sweyard_sandbox.errors import SweyardError
    from sweyard_sandbox.tasks.load import load_tasks

    left_out: list[str] = []
    try:
        source = TaskSource.model_validate({name: value for name, value in fields.items() if value is not None})
        tasks = load_tasks(source, dataset_directories(os.environ), left_out.append)
        if practice and source.split is None and any(tag.startswith("split:") for tag in tasks[0].tags):
            tasks += _practice(source.model_copy(update={"split": "practice"}))
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"--{first['loc'][0]}: {first['msg']}") from error
    except SweyardError as error:
        raise UserError(str(error)) from error
    return Chosen(tasks, left_out)


def _practice(source: TaskSource) -> "list[Task]":
    from sweyard_sandbox.tasks.load import load_tasks
    from sweyard_sandbox.tasks.rows import DatasetError

    try:
        return load_tasks(source, dataset_directories(os.environ), lambda reason: None)
    except DatasetError:  # a data set may have none
        return []
