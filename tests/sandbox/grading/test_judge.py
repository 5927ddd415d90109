"""What the grader says of a report, without a sandbox."""

from typing import Any

import pytest

from sweyard_sandbox.grading.canary import make_canaries
from sweyard_sandbox.grading.protect import keep_work
from sweyard_sandbox.grading.sweyard import judge


def test_a_timeout_is_named_and_not_the_canaries_that_did_not_run() -> None:
    canaries = make_canaries("tests/test_a.py", ["0" * 64, "1" * 64])
    report: dict[str, Any] = {"records": [], "log": "", "timed_out": True, "finished": False, "status": None}

    grade = judge(["tests/test_a.py::test_it"], canaries, report, keep_work("", ["."], []), 1.0)

    assert (grade.strict, grade.timed_out) == (False, True)
    assert grade.reasons == ("the tests took too long",)


@pytest.mark.parametrize(
    ("shown", "note"),
    [
        ([0, 1], f"the 8 of Case{'0' * 12} and Case{'1' * 12} are the grader's own: they must fail"),
        ([1], f"the 4 of Case{'1' * 12} are the grader's own"),
        ([], ""),
    ],
    ids=["both in the log", "one in the log", "none in the log"],
)
def test_failures_of_canaries_are_said_to_be_the_graders_own(shown: list[int], note: str) -> None:
    canaries = make_canaries("tests/test_a.py", ["0" * 64, "1" * 64])
    log = "FAILED tests/test_a.py::test_it\n" + "".join(f"FAILED {canaries[i].tests[0]}\n" for i in shown)
    report: dict[str, Any] = {"records": [], "log": log, "timed_out": False, "finished": True, "status": 0}

    grade = judge(["tests/test_a.py::test_it"], canaries, report, keep_work("", ["."], []), 1.0)

    assert note in grade.log
    assert ("grader's own" in grade.log) is bool(shown)
    assert grade.log.endswith(log)
