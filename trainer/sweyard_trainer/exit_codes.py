"""What the exit code of a trainer process says; see docs/architecture.md."""

from sweyard_api.problem import InvalidSpecError
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.errors import StoppedError

DONE = 0
FAILED = 1
"""Restarted from the last checkpoint, within the budget."""
USER_FAULT = 2
"""Not restarted: the same would happen again."""
STOPPED = 143


def exit_code_of(error: BaseException) -> int:
    """User errors are those of ours that are also ValueErrors: something that was given cannot be right."""
    if isinstance(error, StoppedError):
        return STOPPED
    if isinstance(error, InvalidSpecError) or (isinstance(error, SweyardError) and isinstance(error, ValueError)):
        return USER_FAULT
    return FAILED
