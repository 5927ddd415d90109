"""Failures as types: infrastructure is not the model's fault, and callers must be able to tell.

Everything that is not `InfrastructureError` and escapes an attempt is a bug of ours.
"""

from enum import StrEnum


class SweyardError(Exception):
    """Root of what this package raises on purpose."""


class FailureReason(StrEnum):
    """Why a sandbox could not serve; the same words appear in pool status, metrics and outcomes."""

    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL = "ImagePull"
    STARTUP_DEADLINE = "StartupDeadline"
    QUOTA_EXCEEDED = "QuotaExceeded"
    FORBIDDEN = "Forbidden"
    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"
    NODE_LOST = "NodeLost"
    DELETED = "Deleted"
    LEASE_LOST = "LeaseLost"
    """The holder could not renew its Lease and gave up all that it held."""
    CHANNEL_LOST = "ChannelLost"
    DISK_FULL = "DiskFull"
    CLAIM_TIMEOUT = "ClaimTimeout"
    ENGINE = "EngineUnavailable"
    ERROR = "Error"


class InfrastructureError(SweyardError):
    """The sandbox or what carries it failed. Retried on a fresh sandbox, then masked, never scored."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class ClaimTimeoutError(InfrastructureError, TimeoutError):
    """No sandbox became free before the deadline; the message says what the pool was waiting for."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureReason.CLAIM_TIMEOUT, message)


class CommandMayHaveRunError(InfrastructureError):
    """The channel broke after a command was sent and before its result came: it may have run, and is not run again."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureReason.CHANNEL_LOST, message)


class TaskFormatError(SweyardError, ValueError):
    """A row of a data set cannot be made into a Task; the message names the row, the field and the remedy."""
