from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.rollout.attempt import AttemptRules
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollout.worker import LocalWorker, VerificationTimeoutError

RULES = AttemptRules(5, 0.2, 5, 2, True, 1.0, 0.0)
SLOW = Grade(False, False, ("the tests took too long",), timed_out=True)


def pool_of(workbench: Any, patient: Grade) -> WorkerPool:
    async def grade_patiently(task: Task, patch: str) -> Grade:
        return patient if patch else Grade(False, False)

    bench = replace(workbench, grade_patiently=grade_patiently)
    return WorkerPool([LocalWorker(bench, RULES, Path(), [], lambda: "n")], 2)


async def test_a_slow_verification_is_tried_again_with_more_time(
    make_bench: Any, make_task: Callable[..., Task]
) -> None:
    pool = pool_of(make_bench(None, grades=[SLOW]).workbench, Grade(True, True))
    assert await pool.verify_twice(make_task()) is None


async def test_one_that_stays_slow_is_no_faulty_task(make_bench: Any, make_task: Callable[..., Task]) -> None:
    pool = pool_of(make_bench(None, grades=[SLOW]).workbench, SLOW)
    with pytest.raises(VerificationTimeoutError, match="took too long"):
        await pool.verify_twice(make_task())
