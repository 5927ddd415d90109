"""Grader of tasks made by `sweyard tasks make`: the package's own tests, in a fresh sandbox, behind a nonce."""

import json
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.bundle import harness_zip
from sweyard_sandbox.grading.canary import (
    MUST_FAIL,
    Canary,
    after_the_tests_of_their_files,
    make_canaries,
    make_inner_canaries,
)
from sweyard_sandbox.grading.grade import Grade, TestStatus
from sweyard_sandbox.grading.patch import split_patch
from sweyard_sandbox.grading.protect import Kept, keep_work
from sweyard_sandbox.grading.sealed import acquire_sealed
from sweyard_sandbox.runtime import ForksPython, Result, Runtime, Sandbox
from sweyard_sandbox.tasks.task import Task

ACQUIRE_DEADLINE_SECONDS = 600.0
OVERHEAD_SECONDS = 60.0
"""What the harness may take beside the tests."""
REPORT_CAP_BYTES = 32_000_000
LOG_CHARACTERS = 4_000
NAME_CHARACTERS = 200
STATUSES = {status.value: status for status in TestStatus}


class SweyardGrader:
    """`grading` of its tasks: runner, python_path, test_files, hidden_files, and optionally python and hidden_tests
    (path to text: what the image lacks)."""

    async def grade(self, task: Task, patch: str, runtime: Runtime, *, timeout_seconds: float) -> Grade:
        """Grade `patch` in a fresh sandbox."""
        required = (*task.fail_to_pass, *task.pass_to_pass)
        kept = keep_work(patch, task.grading["python_path"], task.grading["test_files"])
        files = list(dict.fromkeys(test.split("::", 1)[0] for test in required))
        [last] = make_canaries(files[0], [secrets.token_hex(32)])
        within = make_inner_canaries([path for path in files if path.endswith(".py")], lambda: secrets.token_hex(32))
        sandbox = await acquire_sealed(runtime, task.image, deadline_seconds=ACQUIRE_DEADLINE_SECONDS)
        async with sandbox:
            started, nonce = secrets.token_hex(16), secrets.token_hex(16)
            specification = _specification(task, kept, required, within, last, started, timeout_seconds)
            result = await _run_harness(sandbox, task, specification, nonce, timeout_seconds + OVERHEAD_SECONDS)
        report = read_report(task.id, result, started, nonce)
        return judge(required, [*within, last], report, kept, result.seconds)


def _specification(
    task: Task,
    kept: Kept,
    required: Sequence[str],
    within: Sequence[Canary],
    last: Canary,
    started: str,
    timeout_seconds: float,
) -> dict[str, Any]:
    return {
        "started": started,
        "setup_patch": task.setup_patch,
        "patch": kept.patch,
        "paths": [section.path for section in split_patch(kept.patch)],
        "files": task.grading.get("hidden_tests", {}) | {last.path: last.text},
        "endings": {canary.path: f"\n\n{canary.text}" for canary in within},
        "runner": task.grading["runner"],
        "python_path": task.grading["python_path"],
        "tests": [*after_the_tests_of_their_files(required, within), *last.tests],
        "timeout_seconds": timeout_seconds,
    }


async def _run_harness(
    sandbox: Sandbox, task: Task, specification: dict[str, Any], nonce: str, timeout_seconds: float
) -> Result:
    folder = f"/tmp/sweyard-grade-{secrets.token_hex(8)}"
    await sandbox.write(f"{folder}/harness.pyz", harness_zip())
    await sandbox.write(f"{folder}/specification.json", json.dumps(specification).encode(), mode=0o600)
    await sandbox.write(f"{folder}/nonce", nonce.encode(), mode=0o600)
    archive, *arguments = (f"{folder}/{name}" for name in ("harness.pyz", "specification.json", "nonce"))
    if isinstance(sandbox, ForksPython) and "python" not in task.grading:
        return await sandbox.run_python(
            archive, arguments, timeout_seconds=timeout_seconds, output_cap_bytes=REPORT_CAP_BYTES
        )
    command = " ".join(["exec", task.grading.get("python", "python3"), "-I", archive, *arguments])
    return await sandbox.run(command, timeout_seconds=timeout_seconds, output_cap_bytes=REPORT_CAP_BYTES)


def read_report(task_id: str, result: Result, started: str, nonce: str) -> dict[str, Any]:
    """The harness's report. Raises InfrastructureError where the harness itself could not work."""
    for line in reversed(result.text.splitlines()):
        if line.startswith(nonce):
            try:
                report: dict[str, Any] = json.loads(line.removeprefix(nonce))
            except ValueError:
                return {"failed": "report", "message": "the work reported so much that it was cut"}
            if report.get("failed") == "setup_patch":
                raise InfrastructureError(FailureReason.ERROR, f"{task_id}: setup patch: {report['message']}")
            return report
    if started not in result.text:
        raise InfrastructureError(FailureReason.ERROR, f"{task_id}: grading did not run: {result.text[-500:]}")
    # It began and said nothing more: the work ended or stopped the process that watched it, or used up the memory.
    how = "stopped" if result.timed_out else f"ended with {result.exit_code}"
    return {"failed": "watch", "message": f"the grading process was {how} by the work", "timed_out": result.timed_out}


def judge(
    required: Sequence[str], canaries: Sequence[Canary], report: dict[str, Any], kept: Kept, seconds: float
) -> Grade:
    """Both verdicts from the harness's report."""
    notes = "".join(f"left out: {dropped}\n" for dropped in kept.dropped) + _canary_note(canaries, report)
    if "failed" in report:
        reason = f"{report['failed']}: {report['message']}"
        tests = {test: TestStatus.MISSING for test in required}
        return Grade(False, False, (reason,), tests, notes + reason, seconds, bool(report.get("timed_out")))
    records: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for test, outcome, message in report["records"]:
        records[test].append((outcome, message))
    tests = {test: _status(records.get(test, [])) for test in required}
    official = all(status is TestStatus.PASSED for status in tests.values())
    reasons = _reasons(tests, canaries, report, records)
    log = notes + str(report["log"])[-LOG_CHARACTERS:]
    return Grade(official, official and not reasons, tuple(reasons), tests, log, seconds, bool(report["timed_out"]))


def _canary_note(canaries: Sequence[Canary], report: Mapping[str, Any]) -> str:
    """The log is the test runner's own, with our canaries in it and in its counts."""
    shown = [f"Case{canary.name}" for canary in canaries if canary.name in str(report.get("log", ""))]
    if not shown:
        return ""
    count = len(shown) * len(MUST_FAIL)
    return f"of the failures below, the {count} of {' and '.join(shown)} are the grader's own: they must fail\n"


def _status(reports: Sequence[tuple[str, str]]) -> TestStatus:
    """The last word; one that no runner says, so a forged one, is no pass."""
    return STATUSES.get(reports[-1][0], TestStatus.FAILED) if reports else TestStatus.MISSING


def _told(name: str) -> str:
    """A name that the work may have made up: of any length, and with halves of characters."""
    return ascii(name)[1:-1][:NAME_CHARACTERS]


def _reasons(
    tests: dict[str, TestStatus],
    canaries: Sequence[Canary],
    report: dict[str, Any],
    records: dict[str, list[tuple[str, str]]],
) -> list[str]:
    if report["timed_out"]:  # what did not run by then, canaries too, is its consequence and would hide it
        failed = [f"{test} failed" for test, status in tests.items() if status is TestStatus.FAILED]
        return ["the tests took too long", *failed]
    reasons = [f"{test} {status}" for test, status in tests.items() if status is not TestStatus.PASSED]
    reasons += [f"{_told(test)} was reported {len(records[test])} times" for test in records if len(records[test]) > 1]
    asked = {*tests, *(test for canary in canaries for test in canary.tests)}
    reasons += [f"a result for {_told(test)}, which was not run" for test in records if test not in asked]
    reasons += [problem for canary in canaries for problem in canary.problems(records)]
    reasons += [f"{_told(part)}, a part of the test runner, was replaced" for part in report["replaced"]]
    if not report["finished"] or report["status"] != 0:
        reasons.append(f"the tests' process ended early, with {report['status']}")
    return reasons
