"""Work that lacks known-flaky tests alone is graded again, each time in a fresh sandbox, and a majority decides.

Nothing else is tried twice: work that is right only sometimes fails other tests, and is not helped.
"""

from collections.abc import Awaitable, Callable

from sweyard_sandbox.grading.grade import Grade, TestStatus
from sweyard_sandbox.tasks.task import Task

MAJORITY = 2
"""Of at most three runs."""


async def grade_by_quorum(task: Task, grade_once: Callable[[], Awaitable[Grade]]) -> Grade:
    """The grade that settles it, or the one with which a verdict has its majority. Raises as `grade_once` does."""
    counts = {True: 0, False: 0}
    while True:
        grade = await grade_once()
        counts[grade.strict] += 1
        is_first = sum(counts.values()) == 1
        if not grade.strict and not lacks_flaky_alone(task, grade):
            return grade
        if counts[grade.strict] == MAJORITY or (is_first and grade.strict):
            return grade


def lacks_flaky_alone(task: Task, grade: Grade) -> bool:
    """Whether known-flaky tests, and nothing else, stand between the work and a strict pass."""
    lacking = {test for test, status in grade.tests.items() if status is not TestStatus.PASSED}
    return bool(lacking) and lacking <= set(task.flaky_tests) and len(grade.reasons) == len(lacking)
