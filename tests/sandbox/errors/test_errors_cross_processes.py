"""Errors that workers raise in processes of their own arrive as what they are."""

import pickle

import pytest

from sweyard_sandbox.errors import (
    ClaimTimeoutError,
    CommandMayHaveRunError,
    FailureReason,
    InfrastructureError,
    SandboxEndedError,
    SweyardError,
    ToolsMissingError,
    ToolsRemovedError,
    WaitingReason,
)
from sweyard_sandbox.pool.api import ApiError, UnreachableError
from sweyard_trainer.rollout.worker import VerificationTimeoutError

ERRORS = [
    InfrastructureError(FailureReason.OOM_KILLED, "gone"),
    ClaimTimeoutError("full", WaitingReason.CAP_REACHED),
    CommandMayHaveRunError("broken"),
    SandboxEndedError(),
    ToolsRemovedError(),
    ToolsMissingError("the image has no /bin/sh that can be executed"),
    VerificationTimeoutError(FailureReason.ERROR, "t-1: the tests took too long"),
    ApiError(429, "TooManyRequests", "later", 2.0),
    UnreachableError("no answer"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_type_words_and_facts_are_kept(error: SweyardError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))
