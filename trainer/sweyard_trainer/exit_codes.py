"""What the exit code of a trainer process says; see docs/architecture.md."""

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_api.problem import InvalidSpecError
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.errors import StoppedError

DONE = 0
FAILED = 1
"""Restarted from the last checkpoint, within the budget."""
STOPPED = 143


def exit_code_of(error: BaseException) -> int:
    """User errors are those of ours that are also ValueErrors: something that was given cannot be right."""
    if isinstance(error, StoppedError):
        return STOPPED
    if isinstance(error, InvalidSpecError) or (isinstance(error, SweyardError) and isinstance(error, ValueError)):
        return EXIT_CODE_USER_FAULT
    return FAILED
