"""sweyard tasks check."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweyard_api.program import call
from sweyard_cli.commands.options import NamespaceOption
from sweyard_cli.commands.tasks_look import (
    DatasetArgument,
    DifficultyOption,
    FormatOption,
    ImageOption,
    LimitOption,
    RepositoryOption,
    SeedOption,
    SplitOption,
)
from sweyard_cli.errors import UserError
from sweyard_cli.tasks.selection import choose

if TYPE_CHECKING:
    from sweyard_sandbox.runtime import Runtime
    from sweyard_sandbox.tasks.check import Checked
    from sweyard_sandbox.tasks.task import Task

UNUSABLE = 1


def check(
    dataset: DatasetArgument,
    split: SplitOption = None,
    schema: FormatOption = "auto",
    image: ImageOption = None,
    repository: RepositoryOption = None,
    difficulty: DifficultyOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at once.")] = os.cpu_count() or 1,
    timeout_seconds: Annotated[float, typer.Option(min=1, help="Grading of one task.")] = 60.0,
    pool: Annotated[
        str | None, typer.Option(help="In pods of this RolloutPool, not on this machine.", show_default=False)
    ] = None,
    namespace: NamespaceOption = None,
    docker: Annotated[bool, typer.Option("--docker", help="In containers of this machine's Docker engine.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what was found as JSON lines.", show_default=False)
    ] = None,
) -> None:
    """Grade each task with its gold patch (must be solved) and with none (must not), in sandboxes.

    Exits with 1 if a task must not be used.
    """
    chosen = choose(
        dataset=dataset,
        split=split,
        format=schema,
        image=image,
        repositories=repository,
        difficulties=difficulty,
        limit=limit,
        seed=seed,
    )
    for reason in chosen.left_out:
        typer.echo(f"left out: {reason}", err=True)
    if pool is not None and docker:
        raise UserError("--pool and --docker exclude each other: pods of a cluster, or containers of this machine")
    if pool is None:
        _demand_fitting_images(chosen.tasks, docker)
    make_runtime = partial(_docker_runtime, jobs) if docker else partial(_runtime, jobs, pool, namespace)
    checked = asyncio.run(_check(chosen.tasks, jobs, timeout_seconds, make_runtime))
    if report is not None:
        report.write_text("".join(f"{json.dumps(_as_dict(found))}\n" for found in checked), encoding="utf-8")
    bad = [found for found in checked if found.quarantined]
    typer.echo(f"{len(checked) - len(bad)} of {len(checked)} tasks may be used")
    if bad:
        raise typer.Exit(UNUSABLE)
    typer.echo(f"next    {call('run', '-f', 'FILE')}   # with tasks.train.dataset: {dataset} in FILE")


def _demand_fitting_images(tasks: "Sequence[Task]", docker: bool) -> None:
    away = next((task for task in tasks if task.is_directory is docker), None)
    if away is None:
        return
    if docker:
        raise UserError(f"task {away.id} lives in a directory and in no container image: leave --docker out")
    raise UserError(
        f"task {away.id} lives in the container image {away.image}, and this machine checks tasks of directories "
        "alone: use its Docker engine by --docker, name a RolloutPool with --pool, or leave reward.verifyTasks on, and "
        "a run checks each task before its first use"
    )


async def _check(
    tasks: "Sequence[Task]", jobs: int, timeout_seconds: float, make_runtime: "Callable[[], Awaitable[Runtime]]"
) -> "list[Checked]":
    from sweyard_sandbox.tasks.check import check_tasks

    runtime = await make_runtime()
    numbers = iter(range(1, len(tasks) + 1))

    def tell(checked: "Checked") -> None:
        found = checked.quarantined or "good"
        typer.echo(f"{next(numbers)}/{len(tasks)} {checked.task.id}: {found}")

    try:
        await runtime.announce([task.image for task in tasks for _ in ("gold", "empty")])
        return await check_tasks(tasks, runtime, timeout_seconds=timeout_seconds, concurrency=jobs, progress=tell)
    finally:
        await runtime.close()


async def _runtime(jobs: int, pool: str | None, namespace: str | None) -> "Runtime":
    """Of the cluster, or of this machine. Raises UserError."""
    if pool is None:
        from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime

        return LocalRuntime(LocalConfig(max_sandboxes=2 * jobs, allow_unisolated=True))
    from sweyard_cli.cluster.connection import connect
    from sweyard_sandbox.errors import SweyardError
    from sweyard_sandbox.pool.pool import Pool
    from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime

    where = connect(namespace).namespace
    try:
        return KubernetesRuntime(await Pool.connect(namespace=where, name=pool))
    except SweyardError as error:
        raise UserError(f"RolloutPool {where}/{pool}: {error}") from error


async def _docker_runtime(jobs: int) -> "Runtime":
    """Of this machine's engine. Raises UserError."""
    from sweyard_sandbox.errors import InfrastructureError
    from sweyard_sandbox.runtimes.docker.runtime import DockerConfig, open_engine

    try:
        return await open_engine(DockerConfig(max_sandboxes=2 * jobs))
    except InfrastructureError as error:
        raise UserError(f"--docker: no engine answers here ({error.message})") from error


def _as_dict(checked: "Checked") -> dict[str, object]:
    return {"id": checked.task.id, "usable": not checked.quarantined, "reason": checked.quarantined}
