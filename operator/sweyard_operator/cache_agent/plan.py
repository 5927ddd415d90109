"""What a node should pull and evict next: pure.

Pulls keep the assignment's order (order of need). Evictions touch only images that nothing uses and nobody wants there,
and only as far as the budget demands: of those this agent pulled the oldest, then of the cache's families, which
sandboxes brought to the node, the longest unused. Everything else belongs to the kubelet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sweyard_operator.cache_agent.image_names import family_of, normalize
from sweyard_operator.cache_agent.protocol import Assignment


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Next actions on one node."""

    pulls: tuple[str, ...]
    evictions: tuple[str, ...]
    over_budget: bool
    """Nothing more is pulled: the budget is used up and nothing can be evicted."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """What the node says."""

    held: Mapping[str, int]
    """Bytes by name."""
    in_use: frozenset[str]
    used_bytes: int
    pulled: tuple[str, ...]
    """Oldest first."""
    pulling: frozenset[str]
    not_before: Mapping[str, float]
    """Images that failed: no retry before this time."""
    last_used: Mapping[str, float] = field(default_factory=dict)
    """By name as the runtime lists it: when a container had it last; none for as long as the agent knows."""


def plan_node(assignment: Assignment, state: NodeState, now: float) -> NodePlan:
    """Pulls to start now (at most the free slots) and images to evict now."""
    missing = [
        image
        for image in assignment.images
        if not is_held(image, state.held) and image not in state.pulling and state.not_before.get(image, now) <= now
    ]
    full = assignment.disk_budget_bytes is not None and state.used_bytes >= assignment.disk_budget_bytes
    evictions = _evictable(assignment, state)[:1] if full else ()
    free_slots = max(0, assignment.max_parallel_pulls - len(state.pulling))
    return NodePlan(
        pulls=() if full else tuple(missing[:free_slots]),
        evictions=evictions,
        over_budget=full and not evictions and bool(missing),
    )


def is_held(image: str, held: Mapping[str, int]) -> bool:
    """True if the runtime lists this reference."""
    return listed_bytes(image, held) is not None


def listed_bytes(image: str, held: Mapping[str, int]) -> int | None:
    """As the runtime lists this reference; None if it does not."""
    return held.get(normalize(image), held.get(image))


def on_demand(assignment: Assignment, held: Mapping[str, int]) -> tuple[str, ...]:
    """Images of the cache's families that the node has, by tag; a digest is a second name of one with a tag."""
    if not assignment.families:
        return ()
    families = set(assignment.families)
    return tuple(sorted(image for image in held if "@" not in image and family_of(image) in families))


def _evictable(assignment: Assignment, state: NodeState) -> tuple[str, ...]:
    wanted = {normalize(image) for image in assignment.images}
    used = {normalize(image) for image in state.in_use} | state.in_use
    brought = sorted(on_demand(assignment, state.held), key=lambda image: (state.last_used.get(image, 0.0), image))
    candidates = dict.fromkeys([*state.pulled, *brought])
    return tuple(image for image in candidates if normalize(image) not in wanted and normalize(image) not in used)
