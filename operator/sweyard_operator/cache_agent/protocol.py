"""What operator and agents tell each other: the assignment and the report of one node.

Both are JSON under one key of a ConfigMap, so that each node's report stays small and has one writer.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

ASSIGNMENT_KEY = "assignment.json"
REPORT_KEY = "report.json"
AGENT_COMPONENT = "cache-agent"
"""Label sweyard.dev/component of agents' pods."""


class ImageState(StrEnum):
    """State of one image on one node."""

    CACHED = "cached"
    PULLING = "pulling"
    WAITING = "waiting"
    FAILED = "failed"


class PullFailure(StrEnum):
    """Why a pull failed, as a type."""

    NOT_FOUND = "NotFound"
    UNAUTHORIZED = "Unauthorized"
    RATE_LIMITED = "RateLimited"
    REGISTRY_UNREACHABLE = "RegistryUnreachable"
    CERTIFICATE_UNKNOWN = "CertificateUnknown"
    PLAIN_HTTP = "PlainHTTP"
    DISK_FULL = "DiskFull"
    DISK_BUDGET = "DiskBudget"
    TIMEOUT = "Timeout"
    CORRUPT = "Corrupt"
    TAG_MOVED = "TagMoved"
    """Held, but the registry's tag names something else by now."""
    UNSCHEDULABLE = "Unschedulable"
    """Mode `pods`: the node does not take the pod that would hold it."""
    PULL_FAILED = "PullFailed"


class Assignment(BaseModel):
    """What one node is to hold, in order of need."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    images: tuple[str, ...]
    max_parallel_pulls: Annotated[int, Field(ge=1)]
    disk_budget_bytes: int | None = None
    families: tuple[str, ...] = ()
    """Of images that sandboxes themselves bring to the node: reported while they are there, and over the budget the
    longest unused ones go."""
    registry_pulls: dict[str, int] | None = None
    """Pulls at once by registry, this node's part of what the whole cluster may; one that is not named: none. None
    means no limit but the node's own."""


class ImageReport(BaseModel):
    """One image on one node."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ImageState
    reason: PullFailure | None = None
    message: str = ""
    num_bytes: int | None = None
    """Compressed, as the registry tells or, once it is held, the runtime lists: to weigh images by, for no budget."""
    digest: str = ""
    """Of what the node holds under this name: its first twelve hexadecimal digits."""
    own: bool = False
    """This agent itself brought it to the node: only then may it ever evict it."""


class NodeReport(BaseModel):
    """What one node holds of what it was assigned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    images: dict[str, ImageReport]
    used_bytes: int = 0
    """Bytes of all that the runtime keeps of images: snapshots and, of containerd, contents."""
    pulled: tuple[str, ...] = ()
    """Further images that this agent itself brought to the node, oldest first: no longer wanted."""
    families: dict[str, dict[str, int]] = {}
    """By family: large layers that all its images assigned here have, as far as the registry told; compressed bytes by
    the first twelve digits of their digests."""
    registry_pulls: dict[str, int] | None = None
    """The assignment's limits that the agent keeps to by now."""


def assignment_name(cache: str, node: str) -> str:
    """ConfigMap with the assignment of one node."""
    return f"{cache}-{_node_key(node)}-assignment"


def report_name(cache: str, node: str) -> str:
    """ConfigMap with the report of one node."""
    return f"{cache}-{_node_key(node)}-report"


def _node_key(node: str) -> str:
    """Node names may be as long as an object's name; keep the readable head and a hash of the rest."""
    return node if len(node) <= 63 else f"{node[:50]}-{sha256(node.encode()).hexdigest()[:12]}"
