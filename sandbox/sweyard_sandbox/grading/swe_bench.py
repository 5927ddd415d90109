"""Grader of SWE-bench rows: the official verdict is swebench 5's own, on the log of the row's evaluation script.

`strict` also demands that no required test was skipped or missing, that no test has two answers, that the log tells of
one run only (swebench believes the first exit code that the log shows, which the work may have printed), and that
canaries among the hidden tests did as they must. Where the work has things in it that are no work (protect.py), it is
evaluated again without them, and that counts. A log that says that the environment is broken is believed once it says
so of the untouched repository.
"""

import asyncio
import re
import secrets
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweyard_sandbox.errors import FailureReason, TaskFormatError
from sweyard_sandbox.grading.canary import Canary, make_inner_canaries
from sweyard_sandbox.grading.doubt import DoubtfulFailureError, believe
from sweyard_sandbox.grading.grade import Grade, TestStatus
from sweyard_sandbox.grading.harness.supervise import touched_paths
from sweyard_sandbox.grading.patch import split_patch
from sweyard_sandbox.grading.protect import keep_work
from sweyard_sandbox.grading.sealed import acquire_sealed
from sweyard_sandbox.grading.swe_bench_canary import END, START, files_for_canaries, problems, script_with_canaries
from sweyard_sandbox.runtime import Result, Runtime, Sandbox
from sweyard_sandbox.tasks.prepare import GIT
from sweyard_sandbox.tasks.task import Task

ACQUIRE_DEADLINE_SECONDS = 1_800.0
COMMAND_TIMEOUT_SECONDS = 120.0
LOG_CAP_BYTES = 16_000_000
LOG_CHARACTERS = 4_000
LINE_CHARACTERS = {"parse_log_sympy": 400}
"""Longer lines name no test, 4,000 where nothing is said. sympy's parser needs a minute for one of 100,000."""
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
NOT_PASSED = frozenset({"FAILED", "ERROR", "SKIPPED"})


@dataclass(frozen=True, slots=True)
class SweBenchGrader:
    """`grading` of its tasks: row, and optionally hidden_files (what the image has of the solution)."""

    hear_log: Callable[[str], None] = lambda log: None
    """Told the whole log of the evaluation that the official verdict is of, of which a grade has the end alone."""

    async def grade(self, task: Task, patch: str, runtime: Runtime, *, timeout_seconds: float) -> Grade:
        """Apply, run the row's script, and let swebench read the log; again, without what is no work in the patch."""
        if not task.grading["row"].get("eval_script"):
            raise TaskFormatError(
                f"task {task.id}: its row has no eval_script, and how {task.repository} is tested is not known; use a "
                f"release whose rows have image, log_parser, eval_type and eval_script"
            )
        allowed = {section.path for section in split_patch(task.gold_patch)}
        kept = keep_work(patch, ["."], allowed=allowed)

        async def evaluate(work: str) -> Grade:
            hear_log = self.hear_log if work == patch else lambda log: None
            return await _evaluate(task, work, runtime, timeout_seconds, hear_log)

        whole = await believe(evaluate, patch)
        if not kept.dropped or not whole.official:
            return whole
        work = await believe(evaluate, kept.patch)
        notes = "".join(f"left out: {dropped}\n" for dropped in kept.dropped)
        return replace(work, official=whole.official, log=notes + work.log)


async def _evaluate(
    task: Task, patch: str, runtime: Runtime, timeout_seconds: float, hear_log: Callable[[str], None]
) -> Grade:
    """Raises InfrastructureError."""
    row = task.grading["row"]
    # Importing swebench takes seconds and reading its logs holds the interpreter: neither may stop the event loop.
    specification = await asyncio.to_thread(_specification, row)
    paths = [f"{task.working_directory}/{path}" for path in files_for_canaries(row, task.fail_to_pass)]
    canaries = make_inner_canaries(paths, secrets.token_hex)
    script = script_with_canaries(row, canaries) if canaries else specification.eval_script
    sandbox = await acquire_sealed(runtime, task.image, deadline_seconds=ACQUIRE_DEADLINE_SECONDS)
    async with sandbox:
        if hidden_files := task.grading.get("hidden_files"):
            await sandbox.run(f"rm -rf -- {shlex.join(hidden_files)}", timeout_seconds=COMMAND_TIMEOUT_SECONDS)
        if problem := await _apply(sandbox, patch):
            return Grade(False, False, (f"the patch does not apply: {problem[-300:]}",), log=problem[-LOG_CHARACTERS:])
        hidden = await _hidden_paths(sandbox, patch)
        await sandbox.write("/eval.sh", script.encode())
        result = await sandbox.run(
            "/bin/bash /eval.sh", timeout_seconds=timeout_seconds, output_cap_bytes=LOG_CAP_BYTES
        )
    hear_log(result.text)
    if result.timed_out:
        return Grade(False, False, ("the tests took too long",), log=result.text[-LOG_CHARACTERS:], timed_out=True)
    return await asyncio.to_thread(_judge, task, specification, patch, result, canaries, hidden)


async def _apply(sandbox: Sandbox, patch: str) -> str:
    """Git's words if no way of applying works."""
    if not patch.strip():
        return ""
    text = patch if patch.endswith("\n") else f"{patch}\n"  # some sets strip their patches, which git takes for damage
    await sandbox.write(PATCH_FILE, text.encode("utf-8", "surrogateescape"))
    words = ""
    for number, command in enumerate(APPLY_COMMANDS):
        if number:
            await sandbox.run("git checkout -- . ; git clean -fd", timeout_seconds=COMMAND_TIMEOUT_SECONDS)
        result = await sandbox.run(f"{command} {PATCH_FILE}", timeout_seconds=COMMAND_TIMEOUT_SECONDS)
        if result.exit_code == 0:
            return ""
        words += result.text
    return words or "no command could apply it"


async def _hidden_paths(sandbox: Sandbox, patch: str) -> set[str]:
    """What the patch touches by git's reading of it, and not by ours."""
    if not patch.strip():
        return set()
    command = f"{GIT} apply --numstat -z {PATCH_FILE}"
    result = await sandbox.run(command, timeout_seconds=COMMAND_TIMEOUT_SECONDS)
    if result.exit_code:
        return {"what git cannot read"}
    return touched_paths(result.output) - {section.path for section in split_patch(patch)}


def _specification(row: dict[str, Any]) -> Any:
    from swebench.harness.utils import make_test_spec

    return make_test_spec(row)


def _judge(
    task: Task, specification: Any, patch: str, result: Result, canaries: Sequence[Canary], hidden: set[str]
) -> Grade:
    from swebench.harness.grading import get_eval_report, get_logs_eval

    log = readable(result.text, LINE_CHARACTERS.get(specification.log_parser, 4_000))
    prediction = {"instance_id": task.id, "model_name_or_path": "sweyard", "model_patch": patch}
    with tempfile.TemporaryDirectory(prefix="sweyard-log-") as folder:
        path = Path(folder) / "test_output.txt"
        path.write_text(log)
        report = get_eval_report(specification, prediction, str(path), include_tests_status=True)[task.id]
        statuses, _ = get_logs_eval(specification, str(path))
    if report["infra_failure"]:
        raise DoubtfulFailureError(
            FailureReason.ERROR, f"{task.id}: the log says {report.get('infra_failure_reason', 'environment')}"
        )
    tests = {test: _status(test, statuses) for test in (*task.fail_to_pass, *task.pass_to_pass)}
    reasons = [f"{test} {status}" for test, status in tests.items() if status is not TestStatus.PASSED]
    first = _first_statuses(specification, log)
    reasons += [f"{test} has two answers" for test in tests if first.get(test) in NOT_PASSED]
    reasons += [problem for canary in canaries for problem in problems(canary, statuses)]
    reasons += [f"it touches {path!r} under another name" for path in sorted(hidden)]
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


def readable(log: str, line_characters: int) -> str:
    """The log with the midst of longer lines left out: parsers take time that grows with the square of a line."""
    half = line_characters // 2
    return "\n".join(
        line if len(line) <= line_characters else f"{line[:half]} ... {line[-half:]}" for line in log.split("\n")
    )


def _first_statuses(specification: Any, log: str) -> dict[str, str]:
    """Of tests that are answered twice the parsers give the last answer; of a log upside down that is the first."""
    from swebench.harness.log_parsers import PARSER_REGISTRY

    _, _, told = log.partition(START)
    lines = told.partition(END)[0].split("\n")
    statuses: dict[str, str] = PARSER_REGISTRY[specification.log_parser]("\n".join(reversed(lines)), specification)
    return statuses


def _status(test: str, statuses: dict[str, str]) -> TestStatus:
    """As swebench judges it, which also finds tests whose published id was cut."""
    from swebench.harness.grading import test_passed

    if test_passed(test, statuses):
        return TestStatus.PASSED
    found = statuses.get(test) or next((status for name, status in statuses.items() if name.startswith(test)), None)
    return TestStatus.MISSING if found is None else STATUSES.get(found, TestStatus.FAILED)
