"""What a sandbox pod looks like to the planner."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sandbox cannot serve: `reason` is a word of sweyard_sandbox.errors.FailureReason."""

    reason: str
    message: str
    is_node_at_fault: bool = False
    """Another node may do better."""


@dataclass(frozen=True, slots=True)
class SandboxPod:
    """One pod of a pool, parsed. Times are the API server's."""

    name: str
    uid: str
    resource_version: str
    slot: int
    image: str
    created_at: datetime
    template_hash: str = ""
    holder: str = ""
    """Name of the Lease that holds it; empty while free."""
    node: str | None = None
    phase: str = "Pending"
    is_ready: bool = False
    is_running: bool = False
    """The sandbox container runs."""
    are_containers_ready: bool = False
    """By the kubelet's last word; the pod is not Ready all the same once its node is lost."""
    ready_changed_at: datetime | None = None
    deletion_due_at: datetime | None = None
    """metadata.deletionTimestamp: when its grace ends; None unless it is terminating."""
    ended_at: datetime | None = None
    """When its container ended."""
    status_reason: str = ""
    """status.reason, or the reason of a disruption: Evicted, DeadlineExceeded, ..."""
    status_message: str = ""
    terminated_reason: str = ""
    """Of the sandbox container: OOMKilled, Error, ..."""
    waiting_reason: str = ""
    """Of the sandbox container: ImagePullBackOff, ..."""
    waiting_message: str = ""
    unschedulable_message: str = ""
    """The scheduler's words, while it finds no node."""
    scheduled_at: datetime | None = None
    networked_at: datetime | None = None
    """Its network stands (PodReadyToStartContainers, KEP-3085): pulling the image comes next."""
    started_at: datetime | None = None
    claimed_at: datetime | None = None
    """By its holder's clock."""

    @property
    def is_terminating(self) -> bool:
        """Deletion has begun."""
        return self.deletion_due_at is not None

    @property
    def is_free(self) -> bool:
        """Nobody holds it."""
        return not self.holder

    @property
    def has_ended(self) -> bool:
        """Its container is over for good (sandboxes are never restarted)."""
        return self.phase in ("Failed", "Succeeded")
