"""The grader of each kind of task, and one call to grade."""

from collections.abc import Callable, Mapping

from sweyard_sandbox.errors import SandboxEndedError
from sweyard_sandbox.grading.grade import Grade, Grader
from sweyard_sandbox.grading.harbor import HarborGrader
from sweyard_sandbox.grading.quorum import grade_by_quorum
from sweyard_sandbox.grading.r2e_gym import R2eGymGrader
from sweyard_sandbox.grading.swe_bench import SweBenchGrader
from sweyard_sandbox.grading.sweyard import SweyardGrader
from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.tasks.task import Task

GRADERS: Mapping[str, Callable[[], Grader]] = {
    "sweyard": SweyardGrader,
    "swe-bench": SweBenchGrader,
    "r2e-gym": R2eGymGrader,
    "harbor": HarborGrader,
}


def grader_for(task: Task) -> Grader:
    """The grader that reads the task's `grading`."""
    return GRADERS[task.grader]()


async def grade(task: Task, patch: str, runtime: Runtime, *, timeout_seconds: float) -> Grade:
    """Grade work on any task in a fresh sandbox; where known-flaky tests fail, in up to three.

    Raises InfrastructureError when a sandbox, not the work, failed.
    """

    async def grade_once() -> Grade:
        return await grader_for(task).grade(task, patch, runtime, timeout_seconds=timeout_seconds)

    try:
        return await grade_by_quorum(task, grade_once)
    except SandboxEndedError as error:
        return Grade(False, False, (error.message,))
