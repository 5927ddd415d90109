"""The verifier of finished work: tests that passed before the agent came, run over what it did.

It must know no more than whoever gets the patch: the tests that say whether the task is solved (FAIL_TO_PASS) are
neither run nor read. Of tasks whose tests run one by one (`sweyard` and SWE-smith) it runs PASS_TO_PASS alone, by the
strict grader. These were green when the task was set, so a maintainer has them, though the agent's sandbox may lack the
file that they share with a failing one. The scripts of `swe-bench` and `r2e-gym` run hidden tests with everything else,
and such tasks have no verifier.
"""

from sweyard_sandbox.grading.grade import Grade, TestStatus
from sweyard_sandbox.tasks.task import Task


def regression_task(task: Task) -> Task | None:
    """The task of breaking nothing, or None where that cannot be judged apart from solving it."""
    if task.grader != "sweyard" or not task.pass_to_pass:
        return None
    return task.model_copy(update={"fail_to_pass": ()})


def regression_score(grade: Grade) -> float:
    """Share of the regression tests that pass; none counts of a run that did not keep the grader's rules."""
    passed = sum(status is TestStatus.PASSED for status in grade.tests.values())
    if grade.official and not grade.strict:
        return 0.0
    return passed / len(grade.tests)
