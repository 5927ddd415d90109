"""Grader of Harbor's tasks: a fresh sandbox with the agent's files, then tests/test.sh, then the reward that it wrote.

The reward is a finite number from 0 to 1, written during the grading into a folder that did not exist before; none is a
failure of infrastructure, not 0, if there is none without the work either. Left out of the work: what lies where the
grader works, what replaces a file of the image's system (programs, libraries, an interpreter's modules), new programs
of a name that test.sh has in it, and start-up hooks of shells, interpreter and loader.
"""

import base64
import json
import re
import secrets
import shlex
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TypeGuard

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.doubt import DoubtfulFailureError, believe
from sweyard_sandbox.grading.grade import Grade, TestStatus
from sweyard_sandbox.grading.sealed import acquire_sealed
from sweyard_sandbox.grading.work_files import (
    SOLUTION_AS_WORK,
    Files,
    WorkFormatError,
    from_text,
    pack,
    paths_of,
    without,
)
from sweyard_sandbox.runtime import Result, Runtime, Sandbox
from sweyard_sandbox.tasks.task import Task

ACQUIRE_DEADLINE_SECONDS = 1_800.0
COMMAND_TIMEOUT_SECONDS = 300.0
LOG_CHARACTERS = 4_000
REWARD_CAP_BYTES = 65_536
LIST_CAP_BYTES = 16_000_000
REWARDS = "/logs/verifier"
GRADERS_OWN = ("/tests", "/solution", "/logs", "/proc", "/sys", "/dev")
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/opt", "/nix")
PROGRAMS = tuple(f"{root}/{kind}" for root in ("", "/usr", "/usr/local") for kind in ("bin", "sbin"))
HOOKS = {"sitecustomize.py", "usercustomize.py", ".bashrc", ".bash_profile", ".profile", ".bash_login", ".pythonrc"}
HOOK_FILES = ("/etc/ld.so.preload", "/etc/ld.so.cache", "/etc/environment", "/etc/profile", "/etc/bash.bashrc")
WORDS = re.compile(r"[\w.+-]+")


class HarborGrader:
    """`grading` of its tasks: tests and solution (path to base64), environment."""

    async def grade(self, task: Task, patch: str, runtime: Runtime, *, timeout_seconds: float) -> Grade:
        """Grade work in files (work_files.py). Raises InfrastructureError."""

        async def evaluate(work: str) -> Grade:
            return await self._evaluate(task, work, runtime, timeout_seconds)

        return await believe(evaluate, patch)

    async def _evaluate(self, task: Task, patch: str, runtime: Runtime, timeout_seconds: float) -> Grade:
        sandbox = await acquire_sealed(runtime, task.image, deadline_seconds=ACQUIRE_DEADLINE_SECONDS)
        async with sandbox:
            notes = ""
            if patch == SOLUTION_AS_WORK:
                await _run_solution(task, sandbox, timeout_seconds)
            else:
                try:
                    work = from_text(patch)
                    files = without(work, await _objections(task, sandbox, work))
                except WorkFormatError as error:
                    return Grade(False, False, (str(error),), _tests(task, TestStatus.MISSING))
                notes = "".join(f"left out: {path}\n" for path in files.dropped)
                await _place(sandbox, files)
            result = await _run_tests(task, sandbox, timeout_seconds)
            if result.timed_out:
                tests = _tests(task, TestStatus.MISSING)
                return Grade(False, False, ("the tests took too long",), tests, notes + _end(result), timed_out=True)
            reward, problem = await _reward(task, sandbox, result)
        return _verdict(task, reward, problem, notes + _end(result), result.seconds)


async def _objections(task: Task, sandbox: Sandbox, files: Files) -> Callable[[str], bool]:
    """What of the work is left out, knowing what of it replaces files of this image."""
    listed = f"/tmp/sweyard-paths-{secrets.token_hex(8)}"
    system = [path for path in paths_of(files) if _is_below(path, SYSTEM)]
    await sandbox.write(listed, "".join(f"{path}\n" for path in system).encode("utf-8", "surrogateescape"))
    script = f'while IFS= read -r path; do [ -e "$path" ] && printf "%s\\n" "$path"; done <{listed}; rm {listed}'
    result = await sandbox.run(script, timeout_seconds=COMMAND_TIMEOUT_SECONDS, output_cap_bytes=LIST_CAP_BYTES)
    existing = frozenset(result.output.decode("utf-8", "surrogateescape").split("\n"))
    tests = base64.b64decode(task.grading["tests"]["test.sh"]).decode("utf-8", "replace")
    return objections(existing, tests, task.working_directory)


def objections(existing: frozenset[str], script: str, working_directory: str) -> Callable[[str], bool]:
    """True for an absolute path that can change how `script` is run. `existing` are files that the image has too."""
    words = frozenset(WORDS.findall(script))

    def is_dropped(path: str) -> bool:
        place = PurePosixPath(path)
        if _is_below(path, GRADERS_OWN) or path in HOOK_FILES or place.name in HOOKS or place.suffix == ".pth":
            return True
        if working_directory != "/" and place.is_relative_to(working_directory):
            return False
        is_shadow = str(place.parent) in PROGRAMS and place.name in words
        return path in existing or is_shadow or place.is_relative_to("/etc/profile.d")

    return is_dropped


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)


async def _place(sandbox: Sandbox, files: Files) -> None:
    """The work, where the agent had it."""
    archive = f"/tmp/sweyard-work-{secrets.token_hex(8)}.tgz"
    await sandbox.write(archive, files.packed)
    removed = " ".join(map(shlex.quote, files.removed))
    script = f"set -e\n{f'rm -f -- {removed}' if removed else ':'}\ntar -xzpf {archive} -C /\nrm {archive}"
    await _demand(sandbox, script, "the work could not be put in place")


async def _run_solution(task: Task, sandbox: Sandbox, timeout_seconds: float) -> None:
    await _put(sandbox, "/solution", task.grading["solution"])
    command = "bash /solution/solve.sh"
    await sandbox.run(command, timeout_seconds=timeout_seconds, env=task.grading.get("environment"))


async def _run_tests(task: Task, sandbox: Sandbox, timeout_seconds: float) -> Result:
    await _demand(sandbox, f"rm -rf /tests /logs\nmkdir -p -m 755 {REWARDS}", "the grader's folders")
    await _put(sandbox, "/tests", task.grading["tests"])
    return await sandbox.run(
        "bash /tests/test.sh", timeout_seconds=timeout_seconds, env=task.grading.get("environment")
    )


async def _put(sandbox: Sandbox, folder: str, files: dict[str, str]) -> None:
    archive = f"/tmp/sweyard-files-{secrets.token_hex(8)}.tgz"
    contents = {f"{folder}/{path}": base64.b64decode(content) for path, content in files.items()}
    await sandbox.write(archive, pack(contents))
    script = f"set -e\nmkdir -p {folder}\ntar -xzpf {archive} -C /\nrm {archive}"
    await _demand(sandbox, script, f"{folder} could not be filled")


async def _demand(sandbox: Sandbox, script: str, what: str) -> None:
    result = await sandbox.run(script, timeout_seconds=COMMAND_TIMEOUT_SECONDS)
    if result.exit_code != 0:
        raise InfrastructureError(FailureReason.ERROR, f"{what}: {result.text[-500:]}")


async def _reward(task: Task, sandbox: Sandbox, result: Result) -> tuple[float, str]:
    """The number, or 0 and what is wrong with what was written. Raises DoubtfulFailureError where nothing was."""
    for name in ("reward.json", "reward.txt"):
        path = f"{REWARDS}/{name}"
        regular = f"[ -f {path} ] && [ ! -L {path} ] && [ ! -L {REWARDS} ]"
        if (await sandbox.run(regular, timeout_seconds=COMMAND_TIMEOUT_SECONDS)).exit_code == 0:
            return parse_reward(await sandbox.read(path, cap_bytes=REWARD_CAP_BYTES))
    raise DoubtfulFailureError(
        FailureReason.ERROR,
        f"{task.id}: the tests wrote no reward (exit code {result.exit_code}): {_end(result)[-300:]}",
    )


def parse_reward(content: bytes) -> tuple[float, str]:
    """A number, or a struct with `reward` or with one number a criterion, whose mean counts; 0 and why otherwise."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return 0.0, f"the reward {content[:40]!r} is no number"
    if isinstance(value, dict):
        named = [value["reward"]] if "reward" in value else list(value.values())
        value = sum(named) / len(named) if named and all(map(_is_share, named)) else None
    if not _is_share(value):
        return 0.0, f"the reward {content[:40]!r} is no number from 0 to 1"
    return float(value), ""


def _is_share(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _verdict(task: Task, reward: float, problem: str, log: str, seconds: float) -> Grade:
    solved = reward == 1.0 and not problem
    reasons = () if solved else (problem or f"the tests gave {reward:g}, not 1",)
    status = TestStatus.PASSED if solved else TestStatus.FAILED
    return Grade(solved, solved, reasons, _tests(task, status), log, seconds)


def _tests(task: Task, status: TestStatus) -> dict[str, TestStatus]:
    return dict.fromkeys(task.fail_to_pass, status)


def _end(result: Result) -> str:
    return result.text[-LOG_CHARACTERS:]
