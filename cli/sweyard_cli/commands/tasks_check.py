"""sweyard tasks check."""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sweyard_cli.errors import UserError

if TYPE_CHECKING:
    from sweyard_sandbox.tasks.check import Checked
    from sweyard_sandbox.tasks.task import Task

UNUSABLE = 1


def check(
    dataset: Annotated[str, typer.Argument(help="Name or path of a data set.")],
    split: Annotated[str | None, typer.Option(help="Only this split.", show_default=False)] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many.", show_default=False)] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Sandboxes at once.")] = os.cpu_count() or 1,
    timeout_seconds: Annotated[float, typer.Option(min=1, help="Grading of one task.")] = 60.0,
) -> None:
    """Grade each task with its gold patch (must be solved) and with none (must not), in sandboxes of this machine.

    Exits with 1 if a task must not be used.
    """
    tasks = _load(dataset, split, limit)
    checked = asyncio.run(_check(tasks, jobs, timeout_seconds))
    bad = [found for found in checked if found.quarantined]
    typer.echo(f"{len(tasks) - len(bad)} of {len(tasks)} tasks may be used")
    if bad:
        raise typer.Exit(UNUSABLE)


def _load(dataset: str, split: str | None, limit: int | None) -> "Sequence[Task]":
    from sweyard_api.cache_root import dataset_directories
    from sweyard_api.workload import TaskSource
    from sweyard_sandbox.errors import SweyardError
    from sweyard_sandbox.tasks.load import load_tasks

    try:
        tasks = load_tasks(TaskSource(dataset=dataset, split=split, limit=limit), dataset_directories(os.environ))
    except SweyardError as error:
        raise UserError(str(error)) from error
    if away := next((task for task in tasks if not task.image.startswith("dir:")), None):
        raise UserError(
            f"task {away.id} lives in the container image {away.image}, and this checks tasks of directories alone: "
            "leave reward.verifyTasks on, and a run checks each task before its first use"
        )
    return tasks


async def _check(tasks: "Sequence[Task]", jobs: int, timeout_seconds: float) -> "list[Checked]":
    from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime
    from sweyard_sandbox.tasks.check import check_tasks

    runtime = LocalRuntime(LocalConfig(max_sandboxes=2 * jobs, allow_unisolated=True))
    try:
        return await check_tasks(tasks, runtime, timeout_seconds=timeout_seconds, concurrency=jobs, progress=_tell)
    finally:
        await runtime.close()


def _tell(checked: "Checked") -> None:
    typer.echo(f"{checked.task.id}: {checked.quarantined or 'good'}")
