"""Grader of R2E-Gym rows: the image's run_tests.sh over the hidden tests, put in after the agent has ended.

The official verdict is R2E-Gym's own rule on the log. `strict` reads the same log without that rule's loopholes, and
demands that canaries under random names, in two files among the hidden tests and at the end of each of those, did as
they must: that is this log's nonce.
"""

import secrets
import shlex
from collections.abc import Sequence

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.canary import MUST_FAIL, Canary, make_canaries, make_inner_canaries
from sweyard_sandbox.grading.grade import Grade, TestStatus
from sweyard_sandbox.grading.harness.supervise import touched_paths
from sweyard_sandbox.grading.patch import split_patch
from sweyard_sandbox.grading.protect import Kept, keep_work
from sweyard_sandbox.grading.r2e_log import normal_names, official_verdict, plain, problems, reports
from sweyard_sandbox.grading.sealed import acquire_sealed
from sweyard_sandbox.runtime import Result, Runtime, Sandbox
from sweyard_sandbox.tasks.prepare import GIT
from sweyard_sandbox.tasks.task import Task

ACQUIRE_DEADLINE_SECONDS = 1_800.0
COMMAND_TIMEOUT_SECONDS = 120.0
LOG_CAP_BYTES = 64_000_000
LOG_CHARACTERS = 4_000
TESTS = "r2e_tests"
GRADERS_OWN = (TESTS, ".venv", "run_tests.sh")
"""Paths of the repository's folder that belong to the grading."""
STATUSES = {"PASSED": TestStatus.PASSED, "FAILED": TestStatus.FAILED, "ERROR": TestStatus.FAILED}


class R2eGymGrader:
    """`grading` of its tasks: expected (test -> status), and optionally hidden_tests (file -> text)."""

    async def grade(self, task: Task, patch: str, runtime: Runtime, *, timeout_seconds: float) -> Grade:
        """Keep the image's tests aside, apply, put the tests in, run them, judge the log."""
        kept = keep_work(patch, ["."], own=GRADERS_OWN)
        canaries = make_canaries(f"{TESTS}/_", ["0" + secrets.token_hex(32), "f" + secrets.token_hex(32)])
        within = make_inner_canaries([f"{TESTS}/test_*.py"], lambda: secrets.token_hex(32))
        folder = f"/tmp/sweyard-grade-{secrets.token_hex(8)}"
        sandbox = await acquire_sealed(runtime, task.image, deadline_seconds=ACQUIRE_DEADLINE_SECONDS)
        async with sandbox:
            await _set_aside(task, sandbox, folder)
            if problem := await _apply(sandbox, folder, kept.patch):
                reason = f"the patch does not apply: {problem[-300:]}"
                return Grade(False, False, (reason,), _missing(task), _notes(kept) + problem[-LOG_CHARACTERS:])
            within = [canary for canary in within if await _inject(task, sandbox, folder, canaries, canary)]
            result = await sandbox.run(
                f"bash {folder}/run_tests.sh", timeout_seconds=timeout_seconds, output_cap_bytes=LOG_CAP_BYTES
            )
        return judge(task, canaries, within, kept, result)


async def _set_aside(task: Task, sandbox: Sandbox, folder: str) -> None:
    """Copy what the image has for grading, before any of the work is there. Raises InfrastructureError."""
    script = f"""set -e
mkdir -m 700 {folder}
[ -f run_tests.sh ] || {{ echo "the image has no run_tests.sh"; exit 1; }}
cp run_tests.sh {folder}/
for place in /{TESTS} {TESTS}; do
  if [ -d "$place" ]; then cp -R "$place" {folder}/{TESTS}; break; fi
done
[ -d {folder}/{TESTS} ] || [ -n "{"row" if task.grading.get("hidden_tests") else ""}" ] || {{
  echo "neither the image nor the row has the hidden tests"; exit 1; }}"""
    await _demand(task, sandbox, script)


async def _apply(sandbox: Sandbox, folder: str, patch: str) -> str:
    """What is wrong with the patch: it does not apply, or touches other files than it was looked through by."""
    if not patch.strip():
        return ""
    await sandbox.write(f"{folder}/patch", patch.encode("utf-8", "surrogateescape"))
    command = f"{GIT} apply --whitespace=nowarn --apply --numstat -z {folder}/patch"
    result = await sandbox.run(command, timeout_seconds=COMMAND_TIMEOUT_SECONDS)
    if result.exit_code:
        return result.text or f"exit code {result.exit_code}"
    hidden = touched_paths(result.output) - {section.path for section in split_patch(patch)}
    return f"it touches {min(hidden)!r} under another name" if hidden else ""


async def _inject(task: Task, sandbox: Sandbox, folder: str, canaries: Sequence[Canary], within: Canary) -> bool:
    """The image's hidden tests, or the row's where it has none; canaries among them and, where it is true, within."""
    here = shlex.quote(f"{task.working_directory}/{TESTS}")
    script = f"set -e; rm -rf {here}; if [ -d {folder}/{TESTS} ]; then mv {folder}/{TESTS} {here}; else echo row; fi"
    placed = await _demand(task, sandbox, script)
    files = task.grading.get("hidden_tests", {}) if placed.text.strip() == "row" else {}
    for path, text in files.items():
        await sandbox.write(f"{task.working_directory}/{TESTS}/{path}", text.encode("utf-8", "surrogateescape"))
    ended = await _end_with(task, sandbox, folder, within)
    for canary in canaries:
        await sandbox.write(f"{task.working_directory}/{canary.path}", canary.text_for_any_runner.encode())
    return ended


async def _end_with(task: Task, sandbox: Sandbox, folder: str, canary: Canary) -> bool:
    """Put it at the end of each of the hidden tests; False where no file has such a name."""
    await sandbox.write(f"{folder}/ending", f"\n\n{canary.text_for_any_runner}".encode())
    script = f"""set -e
cd {shlex.quote(task.working_directory)}
for file in {canary.path}; do [ ! -f "$file" ] || {{ cat {folder}/ending >>"$file"; echo "$file"; }}; done"""
    return bool((await _demand(task, sandbox, script)).text.strip())


async def _demand(task: Task, sandbox: Sandbox, script: str) -> Result:
    result = await sandbox.run(script, timeout_seconds=COMMAND_TIMEOUT_SECONDS)
    if result.exit_code != 0:
        raise InfrastructureError(FailureReason.ERROR, f"{task.id}: grading did not begin: {result.text[-500:]}")
    return result


def judge(task: Task, canaries: Sequence[Canary], within: Sequence[Canary], kept: Kept, result: Result) -> Grade:
    """Both verdicts from what run_tests.sh printed; `within` are canaries at the end of the hidden tests."""
    expected, text = task.grading["expected"], plain(result.text)
    log = _notes(kept) + text[-LOG_CHARACTERS:]
    if result.timed_out:
        return Grade(False, False, ("the tests took too long",), _missing(task), log, result.seconds, timed_out=True)
    own = [canary.name for canary in (*canaries, *within)]
    work = "\n".join(line for line in text.splitlines() if not any(name in line for name in own))
    reasons = problems(work, expected) + _canary_problems(canaries, within, text)
    if result.truncated:
        reasons.append("the log was cut")
    found = reports(work)
    tests = {
        test: STATUSES[found[test][-1]] if test in found else TestStatus.MISSING for test in normal_names(expected)
    }
    official = official_verdict(work, expected)
    if not official and not reasons:
        reasons.append("R2E-Gym's own rule does not call it solved")
    return Grade(official, not reasons, tuple(reasons), tests, log, result.seconds)


def _canary_problems(canaries: Sequence[Canary], within: Sequence[Canary], log: str) -> list[str]:
    """Names in the log have no file: one within the hidden tests is reported once for each file that is collected."""
    found = reports(log)
    said = []
    for function in (*MUST_FAIL, "test_right"):
        wanted, verb = ("PASSED", "pass") if function == "test_right" else ("FAILED", "fail")
        problem = f"a canary that must {verb} ({function}) did not"
        said += [problem for canary in canaries if found.get(f"Case{canary.name}.{function}") != [wanted]]
        said += [problem for canary in within if set(found.get(f"Case{canary.name}.{function}", ())) != {wanted}]
    return said


def _notes(kept: Kept) -> str:
    return "".join(f"left out: {dropped}\n" for dropped in kept.dropped)


def _missing(task: Task) -> dict[str, TestStatus]:
    return dict.fromkeys(normal_names(task.grading["expected"]), TestStatus.MISSING)
