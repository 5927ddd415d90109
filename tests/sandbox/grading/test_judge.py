"""What the grader says of a report, without a sandbox."""

from typing import Any

import pytest

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.grading.canary import make_canaries
from sweyard_sandbox.grading.protect import keep_work
from sweyard_sandbox.grading.sweyard import judge, read_report
from sweyard_sandbox.runtime import Result


def test_a_timeout_is_named_and_not_the_canaries_that_did_not_run() -> None:
    canaries = make_canaries("tests/test_a.py", ["0" * 64, "1" * 64])
    report: dict[str, Any] = {"records": [], "log": "", "timed_out": True, "finished": False, "status": None}

    grade = judge(["tests/test_a.py::test_it"], canaries, report, keep_work("", ["."], []), 1.0)

    assert (grade.strict, grade.timed_out) == (False, True)
    assert grade.reasons == ("the tests took too long",)


@pytest.mark.parametrize(
    ("shown", "note"),
    [
        ([0, 1], f"the 10 of Case{'0' * 12} and Case{'1' * 12} are the grader's own: they must fail"),
        ([1], f"the 5 of Case{'1' * 12} are the grader's own"),
        ([], ""),
    ],
    ids=["both in the log", "one in the log", "none in the log"],
)
def test_failures_of_canaries_are_said_to_be_the_graders_own(shown: list[int], note: str) -> None:
    canaries = make_canaries("tests/test_a.py", ["0" * 64, "1" * 64])
    log = "FAILED tests/test_a.py::test_it\n" + "".join(f"FAILED {canaries[i].tests[0]}\n" for i in shown)
    report: dict[str, Any] = {"records": [], "log": log, "timed_out": False, "finished": True, "status": 0}
    report["replaced"] = ["unittest.case.TestCase.assertIn"]

    grade = judge(["tests/test_a.py::test_it"], canaries, report, keep_work("", ["."], []), 1.0)

    assert note in grade.log
    assert ("grader's own" in grade.log) is bool(shown)
    assert grade.log.endswith(log)
    assert "unittest.case.TestCase.assertIn, a part of the test runner, was replaced" in grade.reasons


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (Result(137, b"started\n"), "the grading process was ended with 137 by the work"),
        (Result(-1, b"started\n", timed_out=True), "the grading process was stopped by the work"),
    ],
    ids=["killed", "stopped"],
)
def test_work_that_ends_the_watching_process_is_unsolved_and_no_failure_of_infrastructure(
    result: Result, words: str
) -> None:
    report = read_report("till", result, "started", "nonce")

    grade = judge(["tests/test_a.py::test_it"], [], report, keep_work("", ["."], []), 1.0)

    assert (grade.strict, grade.timed_out) == (False, result.timed_out)
    assert words in grade.reasons[0]


def test_a_report_that_was_cut_is_the_works_doing() -> None:
    result = Result(0, b'started\nnonce {"records": [["', truncated=True)

    grade = judge(["t"], [], read_report("till", result, "started", "nonce"), keep_work("", ["."], []), 1.0)

    assert grade.reasons == ("report: the work reported so much that it was cut",)


def test_a_grading_that_did_not_begin_is_a_failure_of_infrastructure() -> None:
    with pytest.raises(InfrastructureError, match="did not run"):
        read_report("till", Result(127, b"python3: not found"), "started", "nonce")
