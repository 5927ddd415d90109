"""Tasks one a line, and one task as text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sweyard_cli.report.text import visible

if TYPE_CHECKING:
    from sweyard_sandbox.tasks.task import Task

HEADER = ("task", "repository", "difficulty", "failing", "passing", "image")
_GAP = "  "


def summary(task: "Task") -> dict[str, Any]:
    """What a list tells of it."""
    return {
        "id": task.id,
        "repository": task.repository,
        "difficulty": tag_of(task, "difficulty"),
        "fail_to_pass": len(task.fail_to_pass),
        "pass_to_pass": len(task.pass_to_pass),
        "image": task.image,
    }


def tag_of(task: "Task", group: str) -> str:
    """Value of a tag such as `difficulty:easy`; empty without one."""
    return next((tag.removeprefix(f"{group}:") for tag in task.tags if tag.startswith(f"{group}:")), "")


def table_lines(tasks: "Sequence[Task]") -> Iterator[str]:
    """The header first; columns as wide as their longest value."""
    cells = [HEADER, *(tuple(visible(str(value)) or "-" for value in summary(task).values()) for task in tasks)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def task_lines(task: "Task", *, hidden: bool) -> Iterator[str]:
    """One task; its hidden part only if asked for."""
    facts = {
        "task": task.id,
        "repository": task.repository,
        "image": task.image,
        "directory": task.working_directory,
        "grader": task.grader,
        "work": "a patch of the repository" if task.work == "patch" else "changed files of the whole file system",
        "tests": f"{len(task.fail_to_pass)} must begin to pass, {len(task.pass_to_pass)} must go on passing",
        "tags": ", ".join(task.tags) or "-",
    }
    yield from (f"{name + ':':12}{visible(value)}" for name, value in facts.items())
    yield from ("", visible(task.problem_statement.strip()))
    if hidden:
        yield from ("", "must begin to pass:", *(f"  {visible(test)}" for test in task.fail_to_pass))
        yield from ("", "solution:", visible(task.gold_patch.rstrip()) or "  none")
