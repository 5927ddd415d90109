"""Harbor task folders (Terminal-Bench 2 and the many sets published in that form).

Read of each folder: task.toml (`[task] name`, `[environment] docker_image`, `workdir`, `[verifier] env`, `[metadata]
difficulty`), instruction.md, environment/Dockerfile (its last absolute WORKDIR, where task.toml names none), tests/
(test.sh at the least) and solution/ (solve.sh, for the check of the task alone). Source: harborframework.com/docs.

The grading puts tests/ into /tests of a fresh sandbox that has the agent's files, runs test.sh, and reads a number from
0 to 1 out of /logs/verifier/reward.txt or reward.json. A task is solved with 1.
"""

import re
import tomllib
from typing import Any

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.grading.work_files import SOLUTION_AS_WORK
from sweyard_sandbox.tasks.formats.fields import difficulty_tags, text_field
from sweyard_sandbox.tasks.task import Task

WORKDIR = re.compile(r"^\s*WORKDIR\s+(/\S*)", re.MULTILINE | re.IGNORECASE)
VERIFIED = "test.sh"


def harbor_task(row: dict[str, Any], number: int) -> Task:
    """A Task whose work travels as files. Raises TaskFormatError."""
    folder = str(row.get("harbor_name") or "")
    label = f"task {folder or number}"
    config = _config(row, label)
    environment, verifier = (_section(config, name, label) for name in ("environment", "verifier"))
    image = environment.get("docker_image") or row.get("image")
    if not isinstance(image, str):
        raise TaskFormatError(f"{label}: build environment/Dockerfile and name it as [environment] docker_image")
    tests, solution = (_files(row.get(name)) for name in ("tests", "solution"))
    if VERIFIED not in tests:
        raise TaskFormatError(f"{label}: there is no tests/{VERIFIED}, or tests/ is too large; drop the task")
    name = _section(config, "task", label).get("name") or folder
    return Task(
        id=str(name or f"harbor-{number}"),
        repository=str(_section(config, "metadata", label).get("category") or "harbor"),
        image=image,
        working_directory=_working_directory(environment, str(row.get("dockerfile") or "")),
        problem_statement=text_field(row, "instruction", label),
        gold_patch=SOLUTION_AS_WORK if "solve.sh" in solution else "",
        fail_to_pass=(VERIFIED,),
        grading={"tests": tests, "solution": solution, "environment": _texts(verifier.get("env"))},
        grader="harbor",
        work="files",
        tags=difficulty_tags(_section(config, "metadata", label).get("difficulty")),
    )


def _config(row: dict[str, Any], label: str) -> dict[str, Any]:
    try:
        return tomllib.loads(str(row.get("task_toml") or ""))
    except tomllib.TOMLDecodeError as error:
        raise TaskFormatError(f"{label}: task.toml is no TOML ({error}); repair it") from None


def _section(config: dict[str, Any], name: str, label: str) -> dict[str, Any]:
    section = config.get(name, {})
    if not isinstance(section, dict):
        raise TaskFormatError(f"{label}: [{name}] in task.toml is no table; repair it")
    return section


def _texts(values: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in values.items()} if isinstance(values, dict) else {}


def _files(contents: Any) -> dict[str, str]:
    """Path to base64 of the content."""
    return contents if isinstance(contents, dict) and all(isinstance(text, str) for text in contents.values()) else {}


def _working_directory(environment: dict[str, Any], dockerfile: str) -> str:
    named = environment.get("workdir")
    if isinstance(named, str) and named.startswith("/"):
        return named
    found = WORKDIR.findall(dockerfile)
    return str(found[-1]) if found else "/"
