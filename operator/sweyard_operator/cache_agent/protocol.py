"""What operator and agents tell each other: the assignment and the report of one node.

Both are JSON under one key of a ConfigMap, so that each node's report stays small and has one writer.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

ASSIGNMENT_KEY = "assignment.json"
REPORT_KEY = "report.json"


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
    DISK_FULL = "DiskFull"
    DISK_BUDGET = "DiskBudget"
    TIMEOUT = "Timeout"
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


class ImageReport(BaseModel):
    """One image on one node."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ImageState
    reason: PullFailure | None = None
    message: str = ""
    num_bytes: int | None = None
    """As the runtime lists it, once it is held: compressed, so good to weigh images by and for no budget."""


class NodeReport(BaseModel):
    """What one node holds of what it was assigned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    images: dict[str, ImageReport]
    used_bytes: int = 0
    """Bytes of the runtime's whole image filesystem."""
    pulled: tuple[str, ...] = ()
    """Images this agent itself brought to the node: only these may it ever evict."""


def assignment_name(cache: str, node: str) -> str:
    """ConfigMap with the assignment of one node."""
    return f"{cache}-{_node_key(node)}-assignment"


def report_name(cache: str, node: str) -> str:
    """ConfigMap with the report of one node."""
    return f"{cache}-{_node_key(node)}-report"


def _node_key(node: str) -> str:
    """Node names may be as long as an object's name; keep the readable head and a hash of the rest."""
    return node if len(node) <= 63 else f"{node[:50]}-{sha256(node.encode()).hexdigest()[:12]}"
