"""Grader of SWE-bench rows: the official verdict is swebench 5's own, on the log of the row's evaluation script.

`strict` also demands that no required test was skipped or missing, and that the log tells of one run only: swebench
believes the first exit code that the log shows, which the tested work may have printed.
"""

import asyncio
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweyard_sandbox.errors import FailureReason, InfrastructureError, TaskFormatError
from sweyard_sandbox.grading.grade import Grade, TestStatus
from sweyard_sandbox.grading.sealed import acquire_sealed
from sweyard_sandbox.runtime import Result, Runtime, Sandbox
from sweyard_sandbox.tasks.task import Task

ACQUIRE_DEADLINE_SECONDS = 1_800.0
COMMAND_TIMEOUT_SECONDS = 120.0
LOG_CAP_BYTES = 64_000_000
LOG_CHARACTERS = 4_000
PATCH_FILE = "/tmp/sweyard-patch.diff"
APPLY_COMMANDS = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
"""As swebench tries them, each on a clean tree."""
EXIT_CODE = re.compile(r">>>>> Test Exit Code:\s*(-?\d+)")
STATUSES = {"SKIPPED": TestStatus.SKIPPED}


@dataclass(frozen=True, slots=True)
class SweBenchGrader:
    """`grading` of its tasks: row."""

    hear_log: Callable[[str], None] = lambda log: None
    """Told the whole log of each evaluation, of which a grade has the end alone."""

    async def grade(self, task: Task, patch: str, runtime: Runtime, *, timeout_seconds: float) -> Grade:
        """Apply, run the row's script, and let swebench read the log."""
        row = task.grading["row"]
        if not row.get("eval_script"):
            raise TaskFormatError(
                f"task {task.id}: its row has no eval_script, and how {task.repository} is tested is not known; use a "
                f"release whose rows have image, log_parser, eval_type and eval_script"
            )
        # Importing swebench takes seconds and reading its logs holds the interpreter: neither may stop the event loop.
        specification = await asyncio.to_thread(_specification, row)
        sandbox = await acquire_sealed(runtime, task.image, deadline_seconds=ACQUIRE_DEADLINE_SECONDS)
        async with sandbox:
            if problem := await _apply(sandbox, patch):
                return Grade(
                    False, False, (f"the patch does not apply: {problem[-300:]}",), log=problem[-LOG_CHARACTERS:]
                )
            await sandbox.write("/eval.sh", specification.eval_script.encode())
            result = await sandbox.run(
                "/bin/bash /eval.sh", timeout_seconds=timeout_seconds, output_cap_bytes=LOG_CAP_BYTES
            )
        self.hear_log(result.text)
        if result.timed_out:
            return Grade(False, False, ("the tests took too long",), log=result.text[-LOG_CHARACTERS:], timed_out=True)
        return await asyncio.to_thread(_judge, task, specification, patch, result)


async def _apply(sandbox: Sandbox, patch: str) -> str:
    """Git's words if no way of applying works."""
    if not patch.strip():
        return ""
    await sandbox.write(PATCH_FILE, patch.encode("utf-8", "surrogateescape"))
    words = ""
    for number, command in enumerate(APPLY_COMMANDS):
        if number:
            await sandbox.run("git checkout -- . ; git clean -fd", timeout_seconds=COMMAND_TIMEOUT_SECONDS)
        result = await sandbox.run(f"{command} {PATCH_FILE}", timeout_seconds=COMMAND_TIMEOUT_SECONDS)
        if result.exit_code == 0:
            return ""
        words += result.text
    return words or "no command could apply it"


def _specification(row: dict[str, Any]) -> Any:
    from swebench.harness.utils import make_test_spec

    return make_test_spec(row)


def _judge(task: Task, specification: Any, patch: str, result: Result) -> Grade:
    from swebench.harness.grading import get_eval_report, get_logs_eval

    prediction = {"instance_id": task.id, "model_name_or_path": "sweyard", "model_patch": patch}
    with tempfile.TemporaryDirectory(prefix="sweyard-log-") as folder:
        path = Path(folder) / "test_output.txt"
        path.write_text(result.text)
        report = get_eval_report(specification, prediction, str(path), include_tests_status=True)[task.id]
        statuses, _ = get_logs_eval(specification, str(path))
    if report["infra_failure"]:
        raise InfrastructureError(
            FailureReason.ERROR, f"{task.id}: {report.get('infra_failure_reason', 'environment')}"
        )
    tests = {test: _status(test, statuses) for test in (*task.fail_to_pass, *task.pass_to_pass)}
    reasons = [f"{test} {status}" for test, status in tests.items() if status is not TestStatus.PASSED]
    if len(set(EXIT_CODE.findall(result.text))) > 1:
        reasons.append("the log shows more than one exit code")
    if result.truncated:
        reasons.append("the log was cut")
    official = bool(report["resolved"])
    if not official and not reasons:
        reasons.append("swebench does not call it resolved")
    return Grade(
        official, official and not reasons, tuple(reasons), tests, result.text[-LOG_CHARACTERS:], result.seconds
    )


def _status(test: str, statuses: dict[str, str]) -> TestStatus:
    """As swebench judges it, which also finds tests whose published id was cut."""
    from swebench.harness.grading import test_passed

    if test_passed(test, statuses):
        return TestStatus.PASSED
    found = statuses.get(test) or next((status for name, status in statuses.items() if name.startswith(test)), None)
    return TestStatus.MISSING if found is None else STATUSES.get(found, TestStatus.FAILED)
