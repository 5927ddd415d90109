"""Known-flaky tests: how often work is graded, and what is made of it."""

import pytest

from sweyard_sandbox.grading.grade import Grade, TestStatus
from sweyard_sandbox.grading.quorum import grade_by_quorum
from sweyard_sandbox.tasks.task import Task

TASK = Task(
    id="till",
    repository="till",
    image="till:1",
    working_directory="/testbed",
    problem_statement="The total is wrong.",
    gold_patch="",
    fail_to_pass=("adds",),
    pass_to_pass=("clock", "race"),
    flaky_tests=("clock", "race"),
)


def graded(*failed: str, also: str = "") -> Grade:
    tests = {
        test: TestStatus.FAILED if test in failed else TestStatus.PASSED
        for test in (*TASK.fail_to_pass, *TASK.pass_to_pass)
    }
    reasons = tuple(filter(None, [*(f"{test} failed" for test in failed), also]))
    return Grade(not failed, not reasons, reasons, tests)


PASS, CLOCK, RACE, WRONG = graded(), graded("clock"), graded("race"), graded("adds", "clock")
CASES = {
    "passes at once": ([PASS], True),
    "is wrong": ([WRONG], False),
    "is wrong in a later run": ([CLOCK, WRONG], False),
    "fails a flaky test once": ([CLOCK, PASS, PASS], True),
    "fails a flaky test twice": ([CLOCK, PASS, CLOCK], False),
    "fails flaky tests in both of two": ([CLOCK, RACE], False),
    "fails a flaky test and breaks a rule": ([graded("clock", also="a canary that must fail did not")], False),
}


@pytest.mark.parametrize(("runs", "strict"), CASES.values(), ids=CASES)
async def test_work_is_graded_until_it_is_settled(runs: list[Grade], strict: bool) -> None:
    left = iter(runs)

    async def grade_once() -> Grade:
        return next(left)

    assert (await grade_by_quorum(TASK, grade_once)).strict is strict
    assert not list(left), "no run more than needed, and none less"


async def test_a_task_without_known_flaky_tests_is_graded_once() -> None:
    async def grade_once() -> Grade:
        return CLOCK

    grade = await grade_by_quorum(TASK.model_copy(update={"flaky_tests": ()}), grade_once)
    assert grade is CLOCK
