"""What the grader says of a report, without a sandbox."""

from typing import Any

from sweyard_sandbox.grading.canary import make_canaries
from sweyard_sandbox.grading.protect import keep_work
from sweyard_sandbox.grading.sweyard import judge


def test_a_timeout_is_named_and_not_the_canaries_that_did_not_run() -> None:
    canaries = make_canaries("tests/test_a.py", ["0" * 64, "1" * 64])
    report: dict[str, Any] = {"records": [], "log": "", "timed_out": True, "finished": False, "status": None}

    grade = judge(["tests/test_a.py::test_it"], canaries, report, keep_work("", ["."], []), 1.0)

    assert (grade.strict, grade.timed_out) == (False, True)
    assert grade.reasons == ("the tests took too long",)
