"""Scores of attempts by regression tests, for choosing among the attempts at one task; see grading/regression.py."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.grading.regression import regression_task
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.trajectory import Trajectory

HANDED_IN = (Outcome.SOLVED, Outcome.UNSOLVED)
"""The agent said that it was done. Which of the two it was is not looked at."""
NOTHING_HANDED_IN = -1.0
"""Of an attempt without a patch, or one that a limit ended: any patch that breaks everything is chosen before it."""


async def verifier_scores(
    tasks: Sequence[Task], attempts: Sequence[Trajectory], pool: WorkerPool, retries: int
) -> tuple[dict[str, float], dict[str, str]]:
    """Scores by attempt id, and by task id why a task with attempts to choose among has none."""
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for attempt in attempts:
        if not attempt.outcome.is_infrastructure:
            by_task[attempt.task_id].append(attempt)
    several = [task for task in tasks if len(by_task[task.id]) > 1]
    judged = await asyncio.gather(*(_of_task(task, by_task[task.id], pool, retries) for task in several))
    scores: dict[str, float] = {}
    unverified: dict[str, str] = {}
    for task, verdict in zip(several, judged, strict=True):
        if isinstance(verdict, str):
            unverified[task.id] = verdict
        else:
            scores |= verdict
    return scores, unverified


async def _of_task(
    task: Task, attempts: Sequence[Trajectory], pool: WorkerPool, retries: int
) -> dict[str, float] | str:
    if regression_task(task) is None:
        return f"tasks of kind {task.grader} without regression tests that run alone have no verifier"
    try:
        scores = await asyncio.gather(*(_score(task, attempt, pool, retries) for attempt in attempts))
    except InfrastructureError as error:
        return f"the verifier could not run: {error}"
    return {attempt.attempt_id: score for attempt, score in zip(attempts, scores, strict=True)}


async def _score(task: Task, attempt: Trajectory, pool: WorkerPool, retries: int) -> float:
    if attempt.outcome not in HANDED_IN or not attempt.patch.strip():
        return NOTHING_HANDED_IN
    for retry in range(retries + 1):
        try:
            return await pool.regression_score(task, attempt.patch)
        except InfrastructureError:
            if retry == retries:
                raise
    raise AssertionError("the last try returns or raises")
