"""What a pass decided, as data: executed by `execute.py`, compared by tests."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from sweyard_operator.resources import Manifest, Resource


@dataclass(frozen=True, slots=True)
class Deletion:
    """One object to delete, only if it is still the one that was seen."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    """Precondition: never a same-named successor."""
    resource_version: str | None = None
    """Precondition: not changed since it was looked at (a claim, a renewal). None: whatever its state."""
    grace_period_seconds: int | None = None
    """None: the object's own."""
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON patch of one object, whose tests say what it must still be."""

    resource: Resource
    namespace: str
    name: str
    operations: tuple[dict[str, Any], ...]
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A sentence for `kubectl describe`."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Executed in this order: deletions, patches, applies, creations, events, status."""

    delete: tuple[Deletion, ...] = ()
    """Gone or changed meanwhile is fine."""
    patch: tuple[Patch, ...] = ()
    """A failed test, or an object that is gone, is fine."""
    apply: tuple[Manifest, ...] = ()
    """Server-side apply in this order, neighbours of one kind at once; skipped while the live object is what the last
    apply left."""
    create: tuple[Manifest, ...] = ()
    """POST, all at once, after every apply has succeeded; AlreadyExists is fine."""
    create_strictly: bool = False
    """A user wrote parts of `create`: fields that the API server does not know are refused, for a second decoding."""
    status: dict[str, Any] | None = None
    """The operator's whole share of the status; None leaves it as it is. Written only when it differs."""
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None
    """Look again after this long even if nothing happens."""


class RefusalReason(StrEnum):
    """Why the API server said no. A pool's conditions have these words; a run's have their own (`reasons.REFUSALS`)."""

    QUOTA_EXCEEDED = "QuotaExceeded"
    FORBIDDEN = "Forbidden"
    INVALID = "Invalid"
    NOT_SERVED = "NotServed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server said no to one child, or to its end, for good until something changes."""

    kind: str
    """Of the child."""
    name: str
    """Name of the child."""
    reason: RefusalReason
    message: str
    """The API server's own words."""
    stays: bool = False
    """It was the end, or a change, of what is there."""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan."""

    created: tuple[Manifest, ...] = ()
    """As the API server returned them."""
    existed: tuple[str, ...] = ()
    """Names of creations that met an object of that name."""
    deleted: tuple[Deletion, ...] = ()
    """Deletions the API server accepted."""
    patched: tuple[Patch, ...] = ()
    """Patches the API server took."""
    kept: tuple[Deletion, ...] = ()
    """Deletions refused since the object had changed, or since it may not go."""
    refused: tuple[Refusal, ...] = ()
    """What was refused by quota, admission, RBAC or validation, be it a deletion, a patch, an apply or a creation."""
