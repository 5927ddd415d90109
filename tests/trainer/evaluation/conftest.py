"""Attempts and tasks of evaluations."""

from collections.abc import Callable
from typing import Any

import pytest

from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.trajectory import Trajectory


@pytest.fixture
def make_attempt() -> Callable[..., Trajectory]:
    """Attempt `index` at a task, with a patch of its own."""

    def make(task: str, index: int, outcome: Outcome = Outcome.SOLVED, patch: str | None = None) -> Trajectory:
        return Trajectory(
            attempt_id=f"eval-final-held/{task}/{index}",
            task_id=task,
            group_id=f"eval-final-held/{task}",
            segments=(),
            outcome=outcome,
            reward=float(outcome is Outcome.SOLVED),
            official=outcome is Outcome.SOLVED,
            patch=f"patch {task} {index}" if patch is None else patch,
        )

    return make


@pytest.fixture
def make_task() -> Callable[..., Task]:
    """A task with one failing test and two that must stay green."""

    def make(name: str, repository: str = "r", **changes: Any) -> Task:
        fields: dict[str, Any] = {
            "id": name,
            "repository": repository,
            "image": "i:1",
            "working_directory": "/",
            "problem_statement": "p",
            "gold_patch": "g",
            "fail_to_pass": ("new",),
            "pass_to_pass": ("old", "older"),
        }
        return Task(**(fields | changes))

    return make
