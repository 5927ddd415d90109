"""What grading says, and the protocol of a grader."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.tasks.task import Task


class TestStatus(StrEnum):
    """Result of one test."""

    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Grade:
    """Both verdicts on one piece of work."""

    official: bool
    """The data set's own rule."""
    strict: bool
    """Also: nonce, canaries, no required test skipped or missing. Implies `official`."""
    reasons: tuple[str, ...] = ()
    """Why strict is false, in words."""
    tests: dict[str, TestStatus] = field(default_factory=dict)
    """Required tests."""
    log: str = ""
    """The deciding part of the test log, shortened."""
    seconds: float = 0.0
    timed_out: bool = False
    """The tests took too long, which on a busy machine says nothing of the work."""


class Grader(Protocol):
    """Grades work on tasks of one kind."""

    async def grade(self, task: Task, patch: str, runtime: Runtime, *, timeout_seconds: float) -> Grade:
        """Grade `patch` (unified diff; may be empty) in a fresh sandbox.

        Raises InfrastructureError when the sandbox, not the work, failed.
        """
        ...
