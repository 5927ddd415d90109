"""Failures as types: infrastructure is not the model's fault, and callers must be able to tell.

Everything that is not `InfrastructureError` and escapes an attempt is a bug of ours.
"""

from enum import StrEnum
from typing import Any


class SweyardError(Exception):
    """Root of what this package raises on purpose. Crosses processes as it is, whatever its constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[SweyardError], arguments: tuple[Any, ...], state: dict[str, Any]) -> SweyardError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments  # an OSError leaves them to its constructor
    error.__dict__.update(state)
    return error


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
    EXEC_LOST = "ExecLost"
    """A command was sent, and nobody knows whether it ran."""
    DISK_FULL = "DiskFull"
    ENDED_FROM_WITHIN = "EndedFromWithin"
    """What ran in the sandbox ended its first process."""
    CLAIM_TIMEOUT = "ClaimTimeout"
    ENGINE = "EngineUnavailable"
    ERROR = "Error"


class WaitingReason(StrEnum):
    """What a claim that found no free sandbox waits for; the words that FailureReason has too mean the same."""

    POOL_MISSING = "PoolMissing"
    API_UNREACHABLE = "ApiUnreachable"
    """What the API server says of the pool's pods is not heard."""
    OPERATOR_SILENT = "OperatorSilent"
    """The pool has no conditions: no operator has looked at it."""
    CAP_REACHED = "CapReached"
    """All of spec.replicas are in use."""
    QUOTA_EXCEEDED = "QuotaExceeded"
    """The namespace's quota refuses more pods."""
    FORBIDDEN = "Forbidden"
    """An admission rule refuses the pods."""
    INVALID_SPEC = "InvalidSpec"
    """The pool's spec or template makes no pods."""
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL = "ImagePull"
    """The image cannot be pulled."""
    PULLING = "Pulling"
    """The image is being pulled, as far as is known without trouble."""
    STARTING = "Starting"
    FAILING = "Failing"
    """Sandboxes start and fail."""
    QUEUED = "Queued"
    """Nothing stands in the way but the operator has not made one yet, or others took them."""
    CHANNEL = "Channel"
    """A sandbox is claimed, and the stream to it does not open."""


class InfrastructureError(SweyardError):
    """The sandbox or what carries it failed. Retried on a fresh sandbox, then masked, never scored."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class SandboxEndedError(InfrastructureError):
    """What ran in the sandbox ended it. Of an agent's or a graded sandbox that is scored, not retried and masked: else
    work that is bound to fail could choose not to be."""

    def __init__(self, message: str = "what ran in the sandbox ended its first process") -> None:
        super().__init__(FailureReason.ENDED_FROM_WITHIN, message)


class ToolsRemovedError(SandboxEndedError):
    """What ran in the sandbox removed the programs without which no command can be run in it."""

    def __init__(self) -> None:
        super().__init__("what ran in the sandbox removed the programs that commands need")


class ToolsMissingError(InfrastructureError):
    """The sandbox has not the programs that every command needs: of a fresh one, its image is to blame."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureReason.ERROR, message)


class ClaimTimeoutError(InfrastructureError, TimeoutError):
    """No sandbox became free before the deadline; the message says what the pool was waiting for."""

    def __init__(self, message: str, waited_for: WaitingReason | None = None) -> None:
        super().__init__(FailureReason.CLAIM_TIMEOUT, message)
        self.waited_for = waited_for
        """The same as a type; None from runtimes that have no pool."""


class CommandMayHaveRunError(InfrastructureError):
    """The channel broke after a command was sent and before its result came: it may have run, and is not run again."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureReason.EXEC_LOST, message)


class TaskFormatError(SweyardError, ValueError):
    """A row of a data set cannot be made into a Task; the message names the row, the field and the remedy."""
