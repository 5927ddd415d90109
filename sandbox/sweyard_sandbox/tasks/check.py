"""A task may be trained on once it scores 1 with the gold patch and 0 with the empty one, by its real grader."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check of one task found."""

    task: Task
    quarantined: str = ""
    """Why it must not be used; empty if it may."""


async def check_tasks(
    tasks: Sequence[Task],
    runtime: Runtime,
    *,
    timeout_seconds: float,
    concurrency: int,
    progress: Callable[[Checked], None] = lambda checked: None,
) -> list[Checked]:
    """Check all, at most `concurrency` at once, in the order of `tasks`. Infrastructure failures quarantine too."""
    free = asyncio.Semaphore(concurrency)

    async def check(task: Task) -> Checked:
        async with free:
            checked = Checked(task, await _objection(task, runtime, timeout_seconds))
        progress(checked)
        return checked

    return list(await asyncio.gather(*(check(task) for task in tasks)))


async def _objection(task: Task, runtime: Runtime, timeout_seconds: float) -> str:
    try:
        gold = await grade(task, task.gold_patch, runtime, timeout_seconds=timeout_seconds)
        if not gold.strict:
            return f"the gold patch does not solve it: {'; '.join(gold.reasons[:3])}"
        empty = await grade(task, "", runtime, timeout_seconds=timeout_seconds)
    except InfrastructureError as error:
        return f"could not be graded: {error}"
    return "the empty patch solves it" if empty.official else ""
