"""What a sandbox pod looks like to the planner."""

from dataclasses import dataclass
from datetime import datetime

GRACE_SECONDS = 1
"""Between a sandbox's deletion and SIGKILL; process 1 needs none of it."""


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
    is_spoilt: bool = False
    """Somebody else edited its claim: it cannot be claimed, or was used and looks free."""
    node: str | None = None
    phase: str = "Pending"
    is_ready: bool = False
    is_running: bool = False
    """The sandbox container runs."""
    are_containers_ready: bool = False
    """By the kubelet's last word; the pod is not Ready all the same once its node is lost."""
    ready_changed_at: datetime | None = None
    deletion_due_at: datetime | None = None
    deletion_grace_seconds: int = GRACE_SECONDS
    """0 once the kubelet is rid of it: then `deletion_due_at` says when that was, and no longer when it was asked."""
    """metadata.deletionTimestamp: when its grace ends; None unless it is terminating."""
    ended_at: datetime | None = None
    """When its container ended."""
    status_reason: str = ""
    """status.reason, or the reason of a disruption: Evicted, DeadlineExceeded, ..."""
    status_message: str = ""
    terminated_reason: str = ""
    """Of the sandbox container: OOMKilled, Error, ..."""
    last_words: str = ""
    """What its container left as termination message."""
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
    restarts: int = 0
    """How often its container was made anew, for whatever reason."""
    recycled: int = 0
    """How often it was reset and freed."""
    has_stopped: bool = False
    """Its container is over, and another one has not begun."""
    release: str = ""
    """ID of the container that its holder is done with; empty unless it is to be recycled."""
    is_reset: bool = False
    """Released, and its new container is Ready, so clean."""
    dirt: str = ""
    """Released, and this is what its new container found."""

    @property
    def is_terminating(self) -> bool:
        """Deletion has begun."""
        return self.deletion_due_at is not None

    @property
    def is_free(self) -> bool:
        """Nobody holds it: it may be claimed, or will be after its reset."""
        return not self.holder or bool(self.release)

    @property
    def has_ended(self) -> bool:
        """It is over for good. A container that was restarted without a release is: what was in it is gone."""
        if self.release or self.is_terminating:
            return self.phase in ("Failed", "Succeeded")
        return self.phase in ("Failed", "Succeeded") or self.has_stopped or self.restarts > self.recycled
