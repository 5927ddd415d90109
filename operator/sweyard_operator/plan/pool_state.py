"""What one pass over a pool knows: the planner's input."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sweyard_api.image_cache import RegistryMirror
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.cache_agent.protocol import NodeReport
from sweyard_operator.plan.image_binding import NO_BINDING, Binding
from sweyard_operator.plan.plan import Deletion, Plan, Refusal
from sweyard_operator.plan.sandbox import Failure, SandboxPod
from sweyard_operator.plan.start_breaker import Breach
from sweyard_operator.resources import Manifest


@dataclass(frozen=True, slots=True)
class Holder:
    """One client of the pool, known by its Lease."""

    name: str
    state: Literal["alive", "lapsed", "gone"]
    """lapsed: its Lease is there, silent for its duration, and must be fenced; gone: no Lease, so reap."""
    demand: tuple[str, ...] = ()
    """Images it wants free, in order of need; empty unless alive."""
    deletions: tuple[Deletion, ...] = ()
    """lapsed: of its Lease; gone: of its demand."""
    seconds_left: float | None = None
    """Until it lapses if it stays silent."""


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """Everything that exists for a pool, and what memory adds; all counted anew each pass."""

    owner: Manifest
    """The RolloutPool as it is now."""
    spec: RolloutPoolSpec
    pods: tuple[SandboxPod, ...] = ()
    holders: tuple[Holder, ...] = ()
    lost_nodes: frozenset[str] = frozenset()
    """Nodes of stuck pods that are not Ready or do not exist."""
    blocked_slots: frozenset[int] = frozenset()
    """Slots whose name somebody else's object bears."""
    avoided_nodes: tuple[str, ...] = ()
    """Nodes with recent faults."""
    quarantined_nodes: tuple[str, ...] = ()
    """Nodes with repeated faults."""
    held_images: Mapping[str, float] = field(default_factory=dict)
    """Images whose free sandboxes failed lately, and seconds until they are tried again."""
    last_failures: Mapping[str, Failure] = field(default_factory=dict)
    """By image: what became of its last free sandbox that failed or was refused; none once one of them is Ready."""
    refusal: Refusal | None = None
    """The last creation or apply was refused so."""
    refusal_hold_seconds: float = 0.0
    """Until one sandbox is tried again."""
    breach: Breach | None = None
    """Most sandboxes failed lately before they served, for one reason."""
    max_starting_per_node: int = 32
    """See plan/pacing.py."""
    unneeded_seconds: Mapping[str, float] = field(default_factory=dict)
    """By UID: how long a free sandbox has been wanted by nobody."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Sandboxes that failed since the pool was made, by reason."""
    released_seconds: Mapping[str, float] = field(default_factory=dict)
    """By container ID: how long ago it was released, as far as we have seen."""
    recycled: int = 0
    """Sandboxes reset and freed since the pool was made."""
    discarded: Mapping[str, int] = field(default_factory=dict)
    """Released sandboxes deleted since the pool was made, by reason."""
    mirrors: tuple[RegistryMirror, ...] = ()
    """Of the ImageCache that the pool refers to."""
    reports: Mapping[str, NodeReport] = field(default_factory=dict)
    """By node: what it holds of that cache's images."""
    binding: Binding = NO_BINDING
    """When sandboxes must start where their image is."""
    warm_start_fraction: float | None = None
    """Of recent sandboxes: their image was on their node before them."""

    @property
    def name(self) -> str:
        """Of the pool."""
        return str(self.owner["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Of the pool."""
        return str(self.owner["metadata"]["namespace"])

    @property
    def old_status(self) -> Mapping[str, Any]:
        """As the API server has it."""
        status: Mapping[str, Any] = self.owner.get("status") or {}
        return status


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A plan, and what the pool's memory should keep of it."""

    plan: Plan
    condemned: Mapping[str, tuple[SandboxPod, Failure]] = field(default_factory=dict)
    """By UID: sandboxes to be replaced for a reason."""
    unneeded: frozenset[str] = frozenset()
    """UIDs of free sandboxes that nobody wants now."""
    serving: frozenset[str] = frozenset()
    """UIDs of sandboxes that are well, or may yet be."""
    ready: frozenset[str] = frozenset()
    """UIDs of those that serve, free or claimed."""
    released: frozenset[str] = frozenset()
    """IDs of released containers."""
    discarded: Mapping[str, str] = field(default_factory=dict)
    """By UID: why released sandboxes are deleted."""
    is_short: bool = False
    """Sandboxes are wanted that are not there."""
    in_question: frozenset[str] = frozenset()
    """Images whose last failure is still worth telling: of a wanted one nothing is Ready, or it waits its turn."""


@dataclass(frozen=True, slots=True)
class Census:
    """A pool's pods, sorted by state."""

    now: datetime
    terminating: tuple[SandboxPod, ...]
    failed: tuple[tuple[SandboxPod, Failure | None], ...]
    """Not terminating, and never to serve again; no Failure for one that reached its lifetime."""
    claimed: tuple[SandboxPod, ...]
    """Held, and neither failed nor terminating."""
    free: tuple[SandboxPod, ...]
    """Free, starting, being reset or Ready, neither failed nor terminating."""
    spent: tuple[SandboxPod, ...] = ()
    """Released or edited by somebody, and not to be used again."""

    @property
    def total(self) -> int:
        """Pods that exist, in whatever state."""
        return len(self.terminating) + len(self.failed) + len(self.claimed) + len(self.free) + len(self.spent)
